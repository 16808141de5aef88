"""Gaps: those of assembled configurations are small, and all analyses accept those of inexact geometry alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

JOINTS = ("Rigid", "Revolute", "Cylindrical", "Prismatic", "ConstantVelocity", "Universal", "TotalJoint")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", JOINTS)
def test_success_means_a_small_gap(kind):
    joint = getattr(spatial, kind)("ground", "a")
    mech = mbs.Mechanism({"a": spatial.Body()}, {"joint": joint})
    rng = np.random.default_rng(0)
    r, turn = rng.uniform(-40, 40, (200, 3)), rng.normal(size=(200, 3))
    turn *= rng.uniform(0, np.pi, (200, 1)) / np.linalg.norm(turn, axis=1, keepdims=True)
    r[0], turn[0] = (10, 20, 30), (0, 0, np.pi)

    @jax.jit
    @jax.vmap
    def assembled(r, turn):
        assembly = mbs.assemble(mech, jnp.concatenate([r, mbs.rotation.exp(turn)]))
        return assembly.status, assembly.residual

    status, residual = assembled(r, turn)
    # Half a turn may be as near in one sense as in the other.
    assert np.all((status == 0) | ((status == mbs.Status.SINGULAR) & (np.arange(200) == 0)))
    assert np.all(residual < 1e-8)


def slider_crank(misfit, *, driven, rod=2.0):
    """A planar slider-crank of hinges in space, with the pin of rod and slider off the plane by a misfit."""
    axis, body = (0, 0, 1), spatial.Body(inertia=np.eye(3))
    along = np.array([[0, 0, 1.0], [1, 0, 0], [0, 1, 0]])
    joints = {
        "O": spatial.Revolute("ground", "crank", axis_i=axis),
        "A": spatial.Revolute("crank", "rod", (1, 0, 0), axis_i=axis),
        "B": spatial.Revolute("rod", "slider", (rod, 0, misfit), axis_i=axis),
        "guide": spatial.Prismatic("ground", "slider", frame_i=along, frame_j=along),
    }
    motor = spatial.RevoluteDriver("ground", "crank", axis_i=axis, motion=mbs.motion.Ramp(rate=1.0, start=0.5))
    return mbs.Mechanism(
        dict.fromkeys(("crank", "rod", "slider"), body),
        joints,
        {"motor": motor} if driven else {},
        {"gravity": mbs.Gravity((0, -9.81, 0))},
    )


def start():
    x, y = np.cos(0.5), np.sin(0.5)
    return {
        "crank": spatial.coordinates((0, 0, 0), (0, 0, 0.5)),
        "rod": spatial.coordinates((x, y, 0), (0, 0, -np.arcsin(y / 2))),
        "slider": spatial.coordinates((x + np.sqrt(4 - y * y), 0, 0)),
    }


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("misfit", "tolerance", "accepted"),
    [(1e-11, 1e-8, True), (1e-9, 1e-8, True), (1e-5, 1e-8, False), (1e-5, 1e-4, True)],
)
def test_all_analyses_agree_on_a_misfit(misfit, tolerance, accepted):
    driven, free = slider_crank(misfit, driven=True), slider_crank(misfit, driven=False)
    times = np.linspace(0, 1, 5)
    assembly = mbs.assemble(driven, start(), tolerance=tolerance)
    motion = mbs.kinematics(driven, times, start(), tolerance=tolerance)
    run = mbs.simulate(free, times, start(), step=0.02, tolerance=tolerance)
    for status in (assembly.status, motion.status, run.status):
        assert np.all(np.asarray(status) == 0) == accepted
    if accepted:
        # Independent equations are closed to rounding: all gaps are those along z, which contradict each other.
        gaps = mbs.constraints(driven, motion.q[-1], times[-1])
        assert 0.05 * misfit < np.abs(gaps).max() < 2 * misfit
        in_plane = np.concatenate([gaps[k : k + 2] for k in (0, 5, 10)])
        assert np.abs(in_plane).max() < 1e-13 + misfit**2
        # Of least squares: no displacement makes the sum of squares of the gaps smaller, each in units of its own.
        matrix = np.asarray(mbs.constraint_jacobian(driven, assembly.q))
        unit = np.where(driven.layout.angular, 1, float(driven.own_length))
        sizes = np.abs(matrix * unit).max(axis=1)
        downhill = (matrix / sizes[:, None]).T @ (mbs.constraints(driven, assembly.q) / sizes)
        assert np.abs(downhill).max() < 1e-15 + 1e-6 * misfit
        assert set(mbs.diagnose(driven, assembly.q, tolerance=tolerance).misfits) <= {"O", "A", "B", "guide"}


def test_positions_are_closed_to_rounding_after_long_steps():
    """The slot of an inverted slider-crank turns by 70 degrees in a step; a Newton correction of 5e-7 is not the last."""
    crank, ground, offset = 1.7813306564784526, 1.141686558235622, -0.6260830905590361
    mech = mbs.Mechanism(
        {"crank": planar.Body(), "rocker": planar.Body()},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "C": planar.Revolute("ground", "rocker", (ground, 0), (0, 0)),
            "slot": planar.RevoluteTranslational("rocker", "crank", (0, 0), (crank, 0), (1, 0), offset),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))},
    )
    times = np.linspace(1.7180197624263442, -4.565165544753242, 37)
    pin = crank * np.exp(1j * times[0]) - ground
    slot = np.angle(pin * complex(-np.sqrt(abs(pin) ** 2 - offset**2), offset))
    motion = mbs.kinematics(mech, times, {"crank": (0, 0, times[0]), "rocker": (ground, 0, slot)})
    assert not np.any(motion.status)
    gaps = jax.vmap(lambda q, t: mbs.constraints(mech, q, t))(motion.q, times)
    assert np.abs(gaps).max() < 4e-15


def test_the_size_of_a_cam_is_that_of_its_outlines():
    """The only other length of the mechanism is the place of the guide, 8e-6."""
    radius, e, roller, guide = 1.5564421851749175, 0.8094222655221502, 0.4759534962701589, -8.011041262551144e-06
    outline = planar.FunctionOutline(lambda alpha: e * jnp.cos(alpha) + jnp.sqrt(radius**2 - (e * jnp.sin(alpha)) ** 2))
    mech = mbs.Mechanism(
        {"cam": planar.Body(), "follower": planar.Body()},
        {
            "shaft": planar.Revolute("ground", "cam", (0, 0), (0, 0)),
            "guide": planar.Translational("ground", "follower", (guide, 0), (0, 0), (0, 1), (0, 1)),
            "touch": planar.CamFollower(
                "cam", "follower", (0, 0), (0, 0), outline, planar.FunctionOutline(lambda alpha: roller + 0 * alpha)
            ),
        },
        {"motor": planar.RevoluteDriver("ground", "cam", mbs.motion.Ramp(1.0))},
    )
    assert 1 < mech.size(mech.coordinates()) < 5
    times = np.linspace(2.5844111921214648, -3.6987741150581215, 37)
    lift = lambda t: e * np.sin(t) + np.sqrt((radius + roller) ** 2 - (e * np.cos(t) - guide) ** 2)
    start = {"cam": (0, 0, times[0]), "follower": (guide, lift(times[0]), 0)}
    normal = np.arctan2(lift(times[0]) - e * np.sin(times[0]), guide - e * np.cos(times[0]))
    on_cam = np.angle(e + radius * np.exp(1j * (normal - times[0])))
    motion = mbs.kinematics(mech, times, start | {"touch": (on_cam, normal - np.pi)})
    assert not np.any(motion.status)
    np.testing.assert_allclose(motion.position("follower.y"), lift(times), rtol=1e-12)
