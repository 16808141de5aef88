"""Kernels for TPUs, compiled by libtpu, which needs no TPU: `make test-tpu`."""

import importlib.util
import re

import pytest

if importlib.util.find_spec("libtpu") is None:
    pytest.skip("libtpu is not installed", allow_module_level=True)
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jaxmbs as mbs
from jaxmbs import planar
from linkages import four_bar, four_bar_guess

LENGTHS = ("crank", "coupler", "rocker", "ground")
TYPICAL = {"crank": 1.0, "coupler": 3.0, "rocker": 2.5, "ground": 3.5}


def compiled(f, *shapes, name="v5e:2x2", devices=1, count=65_536):
    """Return the compiled code of a batch that is sharded over the devices of a TPU, a kernel included."""
    topology = topologies.get_topology_desc(platform="tpu", topology_name=name)
    sharding = NamedSharding(Mesh(np.array(topology.devices[:devices]), ("batch",)), PartitionSpec("batch"))
    args = [jax.ShapeDtypeStruct((count, *shape), jnp.float32, sharding=sharding) for shape in shapes]
    lowered = jax.jit(jax.vmap(f)).trace(*args).lower(lowering_platforms=("tpu",))
    assert "tpu_custom_call" in lowered.as_text()
    return lowered.compile()


def every_operation(x, y):
    """Use each kind of operation of a kernel, and each that has a formula there."""
    k, safe = (10 * x).astype(int), jnp.clip(x, 0.1, 0.9)
    of_safe = [getattr(lax, f)(safe) for f in ("asin", "acos", "atanh", "log", "sqrt", "log1p", "cbrt")]
    of_any = [getattr(lax, f)(x) for f in ("sin", "cos", "tan", "atan", "exp", "expm1", "erf", "sign", "floor", "ceil")]
    hyperbolic = [getattr(lax, f)(x) for f in ("sinh", "cosh", "tanh", "asinh")]
    of_two = [lax.atan2(x, y), lax.pow(safe, y), lax.rem(x, y), jnp.minimum(x, y), lax.acosh(1 + safe), jnp.trunc(x)]
    whole = [lax.div(k, 7), lax.rem(k, 7), jnp.sign(k), jnp.arange(40.0)[jnp.clip(k, 0, 39)], jnp.round(x)]
    truth = (x > 0) ^ (k > 3) | ~(y < x) & (y != 2)
    total = lax.while_loop(lambda s: (s[0] < 20) & (s[1] < 5), lambda s: (s[0] + 1, s[1] + abs(y)), (0, x))
    return jnp.stack([*of_safe, *of_any, *hyperbolic, *of_two]), whole, truth, total


@pytest.fixture(autouse=True)
def _single_precision():
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


def simulated(formulation, steps=1000):
    """Return a function from four lengths to the last configuration and the status of a four-bar."""

    def end(x):
        b = dict(zip(LENGTHS, x, strict=True))
        times = np.linspace(0, 1e-3 * steps, 2)
        run = mbs.simulate(four_bar(b), times, four_bar_guess(TYPICAL, 0.5), step=1e-3, formulation=formulation)
        return run.q[-1], run.status

    return end


def test_every_operation():
    compiled(mbs.program(every_operation), (), ())


@pytest.mark.parametrize("formulation", [mbs.Augmented(), mbs.JointCoordinates()])
@pytest.mark.parametrize("name", ["v5e:2x2", "v6e:2x2"])
def test_simulation_and_its_gradient(formulation, name):
    """A thousand steps, whose kernels keep what the gradient needs in the vector memory."""
    end = simulated(formulation)
    compiled(end, (4,), name=name)
    compiled(jax.grad(lambda x: end(x)[0].sum()), (4,), name=name)


def test_kinematics_and_its_gradient():
    def end(x):
        mech = four_bar(dict(zip(LENGTHS, x, strict=True)))
        run = mbs.kinematics(mech, np.linspace(0, 6, 100, dtype=np.float32), four_bar_guess(TYPICAL, 0.0))
        return run.q.sum(), run.status

    compiled(jax.value_and_grad(end, has_aux=True), (4,))


def test_a_mechanism_without_loops():
    """Some outputs have no entries: there are no multipliers of loops."""

    def end(length):
        pin = planar.Revolute("ground", "bob", (0, 0), (-length, 0))
        mech = mbs.Mechanism({"bob": planar.Body(1.0, 0.1)}, {"pin": pin}, forces={"weight": mbs.Gravity((0, -9.81))})
        start = {"bob": (length, 0.0, 0.0)}
        run = mbs.simulate(mech, np.array([0.0, 1.0]), start, step=1e-3, formulation=mbs.JointCoordinates())
        return run.q[-1].sum()

    compiled(jax.value_and_grad(end), ())


@pytest.mark.parametrize("count", [65_536, 5_000])
def test_four_devices_share_a_batch(count):
    """Each computes its own tiles, without any communication, also if the batch does not fill them."""
    text = compiled(simulated(mbs.JointCoordinates(), 100), (4,), devices=4, count=count).as_text()
    assert not re.search(r"(all-reduce|all-gather|all-to-all|collective-permute)\(", text)
    assert f"f32[9,{-(-count // 4096)},8,128]" in text
    assert f"f32[9,{-(-count // 1024)},8,128]" not in text
