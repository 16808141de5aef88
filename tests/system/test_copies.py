"""Copies, pickles, hashes and printed forms of mechanisms and of their results."""

import copy
import gc
import pickle
import weakref

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.formulations.joint.forms import turning_at
from jaxmbs.system import topology

TIMES = np.linspace(0, 1, 3)


def steady(t):
    return 2 * t


def crank(motion):
    """In the plane."""
    joints, bodies = {"pin": planar.Revolute("ground", "crank", (0, 0), (0, 0))}, {"crank": planar.Body()}
    return mbs.Mechanism(bodies, joints, {"motor": planar.RevoluteDriver("ground", "crank", motion)})


def drum(motion):
    """In space."""
    joints, bodies = {"pin": spatial.Revolute("ground", "drum")}, {"drum": spatial.Body()}
    return mbs.Mechanism(bodies, joints, {"motor": spatial.RevoluteDriver("ground", "drum", motion=motion)})


@pytest.fixture(params=[crank, drum], ids=["plane", "space"], scope="module")
def turned(request):
    """A mechanism with a function that closes over a number, and its motion."""
    rate = 2.0
    mech = request.param(mbs.motion.Function(lambda t: rate * t))
    return mech, mbs.kinematics(mech, TIMES)


def angle(mech_or_run):
    run = mech_or_run if isinstance(mech_or_run, mbs.Trajectory) else mbs.kinematics(mech_or_run, TIMES)
    return run.joint("pin").angle


def test_copies(turned):
    mech, run = turned
    for given in (mech, run):
        for make in (copy.copy, copy.deepcopy, lambda x: cloudpickle.loads(cloudpickle.dumps(x))):
            np.testing.assert_allclose(angle(make(given)), 2 * TIMES, atol=1e-12)
    for part in (mech.drivers, mech.drivers["motor"].motion):
        assert jax.tree.structure(copy.deepcopy(part)) == jax.tree.structure(part)
    # A copy has numbers of its own, and is the same to `jit`.
    again = copy.deepcopy(mech)
    assert jax.tree.structure(again) == jax.tree.structure(mech)
    assert not any(
        np.shares_memory(a, b) for a, b in zip(*map(jax.tree.leaves, (again, mech)), strict=True) if np.ndim(a)
    )
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), run)
    again = cloudpickle.loads(cloudpickle.dumps(batch))
    np.testing.assert_allclose(again.joint("pin").angle[1], 2 * TIMES, atol=1e-12)
    assert again.mechanism.at_index((1, 0)).drivers["motor"].motion(3.0) == 6


def test_pickle_writes_functions_by_name(turned):
    for given in turned:
        with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
            pickle.dumps(given)
    mech = crank(mbs.motion.Function(steady))
    again = pickle.loads(pickle.dumps(mech))
    assert jax.tree.structure(again) == jax.tree.structure(mech)
    np.testing.assert_allclose(angle(pickle.loads(pickle.dumps(mbs.kinematics(again, TIMES)))), 2 * TIMES, atol=1e-12)


def test_hash(turned):
    with pytest.raises(TypeError, match=r"no hash.*ordinary argument"):
        hash(turned[0])
    with pytest.raises(ValueError, match="pass it to jit as an ordinary argument"):
        jax.jit(lambda mech: 0, static_argnums=0)(turned[0])


def test_printed_forms():
    mech = crank(mbs.motion.Ramp(rate=2.0))
    parts = "bodies: crank; constraints: pin; drivers: motor; 3 coordinates, 3 velocities, 3 equations"
    assert repr(mech) == f"Mechanism({parts})"
    run, start = mbs.kinematics(mech, TIMES), mbs.assemble(mech)
    assert repr(run) == f"Trajectory(3 times from 0 to 1; {parts}; status: CONVERGED)"
    assert repr(start) == "Assembly(3 coordinates; residual: 0; status: CONVERGED)"
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), run)
    assert repr(batch) == f"Trajectory(batch of 2; 3 times; {parts}; status: CONVERGED)"
    mixed = jax.tree.map(lambda x: x.at[1:].set(3) if x.dtype == jnp.int32 else x, run)
    assert repr(mixed).endswith("status: 1 CONVERGED, 2 LOCKED_UP)")
    seen = []
    jax.eval_shape(lambda run, start: seen.append((repr(run), repr(start))), run, start)
    assert seen == [
        (
            f"Trajectory(3 times; {parts}; status: int32[3])",
            "Assembly(3 coordinates; residual: float64[]; status: int32[])",
        )
    ]
    for tree in (run, start, mech):  # as trees of other things, in messages of JAX
        assert repr(jax.tree.map(lambda _: None, tree))
    chain = mbs.Mechanism({f"link{k}": planar.Body() for k in range(50)}, forces={"weight": mbs.Gravity((0, -9.81))})
    assert len(repr(chain)) < 200
    assert "link0, link1, link2, link3, link4, link5, … (50 in all); forces: weight; 150 coordinates" in repr(chain)


def test_nothing_is_kept(turned):
    """Results go when their last user lets go of them, and no traced value outlives its transformation."""
    mech, _ = turned
    run = weakref.ref(mbs.kinematics(mech, TIMES))
    gc.collect()
    assert run() is None
    leaves = jax.tree.leaves(turning_at(mech, topology.spanning_tree(mech), 0))
    assert not any(isinstance(x, jax.core.Tracer) for x in leaves)


def test_half_precision():
    """Refused by name: a loop does not close to any tolerance of use."""
    message = "numbers of a mechanism are float32 or float64, got {}"
    for dtype in (jnp.bfloat16, jnp.float16):
        says = message.format(jnp.dtype(dtype))
        with pytest.raises(ValueError, match=says):
            planar.Body(jnp.asarray(1, dtype))
        with pytest.raises(ValueError, match=says):
            planar.Revolute("ground", "crank", (jnp.asarray(1, dtype), 0), (0, 0))
        with pytest.raises(ValueError, match=says):
            jax.grad(lambda mass: planar.Body(mass).mass)(jnp.asarray(1, dtype))
        for build in (crank, drum):
            mech = build(mbs.motion.Ramp(rate=2.0))
            with pytest.raises(ValueError, match=says):
                mech.astype(dtype)
            with pytest.raises(ValueError, match=says):
                mbs.assemble(jax.tree.map(lambda x, dtype=dtype: jnp.asarray(x, dtype), mech))
