"""Rotations of Kane's equations through configurations where the angles are singular."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import spatial
from kane_problems import CONVERGED, GROUND, KANE, SINGULAR, close, turned
from norms import size

TOP = spatial.Body(1.3, (0.11, 0.2, 0.27), (0.05, -0.1, 0.2))


def alone(joint=None, gravity=(0, 0, 0), body=TOP):
    return mbs.Mechanism(
        {"a": body}, {} if joint is None else {"joint": joint}, forces={"gravity": mbs.Gravity(gravity)}
    )


BALL = spatial.Spherical(GROUND, "a")
DOWN = (0, 0, -9.81)
TUMBLING = {
    # A point mass far from the support passes the singularity of the angles, θ₂ = π/2, in each of its swings.
    "spherical pendulum": (
        alone(BALL, DOWN, spatial.Body(1.0, 1e-3, (0, 0, -1))),
        {"a.wy": 5.5, "a.wx": 0.3, "a.wz": 0.1},
    ),
    "free body": (alone(), {"a.wx": 0.3, "a.wy": 5.0, "a.wz": -0.4, "a.x": 0.1}),
    "heavy free body": (alone(None, (0, 0, -1e-3)), {"a.wx": 0.3, "a.wy": 5.0, "a.wz": -0.4, "a.x": 0.1}),
    "heavy top": (alone(BALL, DOWN), {"a.wx": 0.3, "a.wy": 5.0, "a.wz": 4.0}),
}


@pytest.mark.parametrize("name", TUMBLING)
def test_energy_over_100_seconds(name):
    """Tumbling through cos θ₂ = 0 with Euler parameters, the default of joints that can: energy to 1e-8 over 100 s."""
    mech, v0 = TUMBLING[name]
    run = mbs.simulate(mech, np.linspace(0, 100, 401), v0=v0, step=1e-3, formulation=KANE)
    assert not run.status.any()
    energy = np.asarray(run.energy.total)
    assert size(energy - energy[0]) < 1e-8 * np.max(np.abs(run.energy.kinetic))
    across = Rotation.from_quat(np.roll(run.q[:, 3:7], -1, axis=1)).as_matrix()[:, 0, 2]  # sin θ₂
    assert np.sum(np.diff(np.sign(np.abs(across) - 0.95)) > 0) > 2


def test_angles_that_become_singular():
    """θ₁ θ₂ θ₃ of a body that turns about its second axis exactly: good up to θ₂ = π/2, singular from there on, as where it
    tumbles past; samples of the same batch that stay away go on and agree with Euler parameters, without loss."""
    mech, times, step = alone(BALL, body=spatial.Body(1.3, (0.11, 0.2, 0.27))), np.linspace(0, 2, 41), 1e-3
    through = np.array([[0, 1.0, 0], [0, -1.6, 0], [1e-4, 1.2, 1e-4]])
    away = np.array([[1.0, 0, 0], [0, 0, 2.0], [0.5, 0.3, 0.2], [0, 0, 0], [0.2, 1.2, 0.1], [0, 0.78, 0]])
    start = jnp.concatenate([jnp.zeros((9, 3)), np.concatenate([through, away])], axis=1)
    run = jax.vmap(lambda v, f: mbs.simulate(mech, times, v0=v, step=step, formulation=f), in_axes=(0, None))
    found, expected = (run(start, f) for f in (mbs.Kane(angles="joint"), KANE))
    assert not expected.status.any()
    q = np.moveaxis(np.asarray(expected.q), -1, 0)
    margin = np.sqrt(1 - np.minimum(1, (2 * (q[4] * q[6] + q[3] * q[5])) ** 2))  # |cos θ₂|
    status = np.asarray(found.status)
    for k in range(len(through)):
        first = np.flatnonzero(status[k])[0]
        assert np.all(status[k, first:] == SINGULAR)
        # At the first output after the singularity, or in the few steps before it.
        passed = np.argmin(margin[k])
        assert passed <= first + 1
        assert first <= passed + 1
        close(found.q[k, :first], expected.q[k, :first], 1e-9)
        assert all(np.isfinite(x[k]).all() for x in (found.q, found.v, found.a))
    for k in range(len(through), 9):
        assert not status[k].any()
        assert margin[k].min() > 0
        close(found.q[k], expected.q[k], 1e-9)
        close(found.v[k], expected.v[k], 1e-9)
        close(found.energy.total[k], expected.energy.total[k], 1e-9)


def test_start_where_angles_are_singular():
    """θ₂ = ±π/2 at the start, up to rounding: singular at once with angles, no matter to Euler parameters."""
    mech, rng = alone(BALL), np.random.default_rng(0)
    angles = np.stack([rng.uniform(-3, 3, 64), np.repeat([1, -1], 32) * np.pi / 2, rng.uniform(-3, 3, 64)], axis=1)
    angles[::2, 2] = 0
    q = {"a": jnp.stack([spatial.coordinates((0, 0, 0), turned(theta)) for theta in angles])}
    v = jnp.asarray(rng.normal(size=64))
    for formulation, status in ((mbs.Kane(angles="joint"), SINGULAR), (KANE, CONVERGED)):
        start = lambda q, v, f=formulation: mbs.simulate(mech, [0, 0.1], q, {"a.wy": v}, step=0.01, formulation=f)
        run = jax.vmap(start)(q, v)
        assert np.all(run.status == status)
        assert np.isfinite(run.q).all()
