"""Velocities that are named at the start of a simulation are kept, or their contradiction is named."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.cli.main import main

TIMES = np.array([0.0, 0.01])
FORMULATIONS = [mbs.Augmented(), mbs.Natural(), mbs.JointCoordinates(), mbs.Kane()]
AT_REST = {"rod": (0.5, 0, 0)}


def rod(motor=None):
    """Pinned at its end, half a metre from its middle."""
    drivers = {"motor": planar.RevoluteDriver("ground", "rod", mbs.motion.Ramp(motor))} if motor else {}
    pin = planar.Revolute("ground", "rod", (0, 0), (-0.5, 0))
    return mbs.Mechanism({"rod": planar.Body(1.0, 1 / 12)}, {"pin": pin}, drivers)


def top():
    """A body in space on a ball half a metre above it."""
    ball = spatial.Spherical("ground", "top", (0, 0, 0), (0, 0, 0.5))
    return mbs.Mechanism({"top": spatial.Body(1.0, (0.1, 0.1, 0.05))}, {"ball": ball})


def started(mech, q0, v0, formulation=None):
    run = mbs.simulate(mech, TIMES, q0, v0, step=0.01, formulation=formulation)
    np.testing.assert_array_equal(run.status, 0)
    return np.asarray(run.v[0])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("formulation", FORMULATIONS, ids=lambda f: type(f).__name__)
def test_contradictions_are_named(formulation):
    """ẏ = φ̇ / 2 and ẋ = 0 for a rod that lies along x; both named velocities and what to write are in the message."""
    simulate = lambda v0: mbs.simulate(rod(), TIMES, AT_REST, v0, step=0.01, formulation=formulation)
    with pytest.raises(
        ValueError, match=r"v0 contradicts .* rod.phi = 1 they give rod.y = 0.5, not 0. .*{'rod.phi': 1}"
    ):
        simulate({"rod": (0, 0, 1.0)})
    with pytest.raises(ValueError, match=r"with rod.phi = 1 they give rod.y = 0.5, not -0.5"):
        simulate({"rod.phi": 1, "rod.y": -0.5})
    for v0 in ({"rod": (0, 0.5, 1.0)}, {"rod": (1e-5, 0.4999, 1)}, {"rod.phi": 1}, {"rod.y": 0.5}):
        np.testing.assert_allclose(started(rod(), AT_REST, v0, formulation), (0, 0.5, 1), atol=2e-4)


@pytest.mark.parametrize("formulation", FORMULATIONS, ids=lambda f: type(f).__name__)
def test_drivers_contradict_too(formulation):
    with pytest.raises(ValueError, match=r"constraints and drivers: they give rod.phi = 2, not 1. Leave these out"):
        mbs.simulate(rod(2.0), TIMES, AT_REST, {"rod.phi": 1.0}, step=0.01, formulation=formulation)
    np.testing.assert_allclose(started(rod(2.0), AT_REST, {"rod.phi": 2.0}, formulation), (0, 1, 2), atol=1e-12)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("formulation", [mbs.Augmented(), mbs.JointCoordinates(), mbs.Kane()])
def test_in_space(formulation):
    """ṙ = −A (ω × s): turning about x moves the centre along y."""
    q0 = {"top": spatial.coordinates((0, 0, -0.5))}
    with pytest.raises(ValueError, match=r"with top.wx = 2 and top.wz = 1 they give top.y = 1, not 0.5"):
        mbs.simulate(top(), TIMES, q0, {"top.wx": 2.0, "top.y": 0.5, "top.wz": 1.0}, step=0.01, formulation=formulation)
    found = started(top(), q0, {"top": (0, 1, 0, 2, 0, 1)}, formulation)
    np.testing.assert_allclose(found, (0, 1, 0, 2, 0, 1), atol=1e-12)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("method", "formulation"),
    [
        (mbs.GeneralizedAlpha(0.9), mbs.Augmented()),
        (mbs.Adaptive(), mbs.Augmented()),
        (mbs.RK4(), mbs.JointCoordinates()),
    ],
)
def test_a_status_for_each_sample(method, formulation):
    """In a batch the sample that contradicts has a status and stays where it was; its gradient is finite."""

    def run(y, phi):
        v0 = {"rod.y": y, "rod.phi": phi}
        return mbs.simulate(rod(), TIMES, AT_REST, v0, step=0.01, method=method, formulation=formulation)

    y, phi = jnp.array([0.5, -0.5, 0.0]), jnp.array([1.0, 1.0, 0.0])
    motion = jax.vmap(run)(y, phi)
    np.testing.assert_array_equal(motion.status[:, 0], [0, mbs.Status.NOT_ASSEMBLED, 0])
    np.testing.assert_array_equal(motion.status[:, 1], motion.status[:, 0])
    np.testing.assert_allclose(motion.q[1], [[0.5, 0, 0]] * 2, atol=1e-12)
    np.testing.assert_allclose(motion.position("rod.phi")[0, 1], 0.01, atol=1e-6)
    slopes = jax.vmap(jax.grad(lambda y, phi: run(y, phi).q.sum(), (0, 1)))(y, phi)
    assert all(np.all(np.isfinite(x)) for x in slopes)


def test_an_open_start_is_no_contradiction():
    """If positions cannot be closed, the status says so, whatever the velocities are."""
    far = mbs.Mechanism(
        {"rod": planar.Body()},
        {name: planar.Revolute("ground", "rod", at, (0, 0)) for name, at in {"a": (0, 0), "b": (1, 0)}.items()},
    )
    run = mbs.simulate(far, TIMES, None, {"rod.phi": 1.0}, step=0.01)
    np.testing.assert_array_equal(run.status, mbs.Status.NOT_ASSEMBLED)


def test_single_precision():
    q0 = {"rod": (0.5, 0, 0)}
    run = mbs.simulate(rod().astype(jnp.float32), TIMES.astype(np.float32), q0, {"rod": (0, 0.5, 1.0)}, step=0.01)
    assert run.v.dtype == jnp.float32
    np.testing.assert_array_equal(run.status, 0)


def test_velocities_of_files(tmp_path, capsys):
    """A file names velocities: they are kept, and a contradiction ends the command with one line."""
    path, part = tmp_path / "rod.json", {"rod.phi": 3.0}
    mech = rod()
    mbs.io.save(mech, path, guess=AT_REST, velocities=part)
    model = mbs.io.load(path)
    assert model.velocity_by_name == part
    np.testing.assert_allclose(started(model, None, None), (0, 1.5, 3), atol=1e-12)
    keyframe = mbs.io.save(model, tmp_path / "rod.xml").read_text()
    assert re.search(r'qvel="3(\.0*)?"', keyframe), keyframe
    mbs.io.save(mech, path, guess=AT_REST, velocities={"rod": (0, 0, 1.0)})
    assert main(["simulate", str(path), "--until", "0.1"]) == 2
    assert "with rod.phi = 1 they give rod.y = 0.5, not 0" in capsys.readouterr().err


def test_coordinates_that_are_held_against_the_constraints():
    """Assembly says that it cannot."""
    held = lambda guess, *names: mbs.assemble(rod(), guess, hold=names).status
    assert held({"rod": (0.5, 0.1, 0.3)}, "rod.phi") == mbs.Status.CONVERGED
    assert held({"rod": (0.5, 0.1, 0.3)}, "rod.phi", "rod.y") == mbs.Status.NOT_ASSEMBLED
