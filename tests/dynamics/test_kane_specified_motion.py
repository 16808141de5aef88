"""Kane's equations where motion is specified: inverse dynamics, every way to drive a joint, starts that do not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.motion import Ramp
from kane_problems import (
    CONVERGED,
    FIRST,
    GROUND,
    KANE,
    MANY,
    OBLIQUE,
    SECOND,
    TIMES,
    WEIGHT,
    X,
    Y,
    Z,
    check_driven,
    check_specified,
    close,
    hinge,
    in_motion,
    links,
    needed,
    planar_double_pendulum,
    turner,
)
from norms import size


def double_pendulum(drivers):
    """Hinges about y, and about x of the second body, with points and mass centres off the origins."""
    return mbs.Mechanism(
        links(2, 41),
        {
            "O": spatial.Revolute(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), Y),
            "A": spatial.Revolute("a", "b", (0.3, 0.1, 0.0), (-0.2, 0.0, 0.2), (1, 1, 0), X),
        },
        drivers,
        WEIGHT,
    )


@pytest.mark.slow
def test_driving_torques_of_a_double_pendulum_in_space():
    """Both hinges driven, one of them from the outer body: as in `Augmented`, and the balance of the bodies beyond."""
    motors = {
        "shoulder": spatial.RevoluteDriver(GROUND, "a", axis_i=Y, motion=FIRST),
        "elbow": spatial.RevoluteDriver("b", "a", axis_i=X, axis_j=(1, 1, 0), motion=SECOND),
    }
    mech = double_pendulum(motors)
    assert KANE.equations(mech).space.m == 0
    run = mbs.simulate(mech, TIMES, step=0.1, formulation=KANE)
    found = check_driven(mech, run)
    for motor, body, sign, outboard in (("shoulder", "a", 1, "ab"), ("elbow", "b", -1, "b")):
        moving = in_motion(mech, run, body)
        joint = mech.constraints["O" if body == "a" else "A"]
        end, axis = (moving.turn @ np.asarray(s) for s in (joint.point_j, Y if body == "a" else X))
        _, moment = needed(mech, run, outboard, moving.origin + end)
        close(found[motor].effort, sign * np.sum(moment * axis, axis=1), 1e-9)


@pytest.mark.slow
def test_one_hinge_driven_and_one_free():
    """A double pendulum of space with a driven shoulder: the motion as with a multiplier for the driver, reactions as in
    `Augmented`."""
    mech = double_pendulum({"shoulder": spatial.RevoluteDriver(GROUND, "a", axis_i=Y, motion=FIRST)})
    assert KANE.equations(mech).space.m == 1
    run = mbs.simulate(mech, TIMES[:3], v0={"b.wx": 2.0}, step=0.002, formulation=KANE)
    other = mbs.simulate(mech, TIMES[:3], run.q[0], run.v[0], step=0.002, formulation=mbs.JointCoordinates())
    check_driven(mech, run)
    close(run.q, other.q, 1e-9)
    close(run.a, other.a, 1e-7)


ON_I, ON_J, OTHER = (Rotation.random(random_state=k).as_matrix() for k in (51, 52, 53))
AHEAD, BEHIND = (Rotation.from_rotvec([0, 0, angle]).as_matrix() for angle in (0.7, -1.9))

# The joint of one body and its driver.
DRIVEN = {
    "oblique axis": (hinge(axis_i=OBLIQUE), turner(GROUND, "a", axis_i=OBLIQUE, motion=FIRST)),
    "driver from the body": (hinge(axis_i=OBLIQUE), turner("a", GROUND, axis_i=OBLIQUE, motion=FIRST)),
    "joint from the body": (
        spatial.Revolute("a", GROUND, axis_i=OBLIQUE, axis_j=Y),
        turner(GROUND, "a", axis_i=Y, axis_j=OBLIQUE, motion=FIRST),
    ),
    "driver along the negative axis": (hinge(axis_i=Y), turner(GROUND, "a", axis_i=-Y, motion=FIRST)),
    "joint along the negative axis": (hinge(axis_i=-Y), turner("a", GROUND, axis_i=Y, motion=FIRST)),
    "axes that differ in the bodies": (
        hinge(axis_i=OBLIQUE, axis_j=X),
        turner(GROUND, "a", axis_i=OBLIQUE, axis_j=X, motion=FIRST),
    ),
    "frames turned about the axis": (
        hinge(frame_i=ON_I, frame_j=ON_J),
        turner(GROUND, "a", frame_i=ON_I @ AHEAD, frame_j=ON_J @ BEHIND, motion=FIRST),
    ),
    "frames, from the body, upside down": (
        hinge(frame_i=ON_I, frame_j=ON_J),
        turner(
            "a", GROUND, frame_i=ON_J @ BEHIND @ np.diag([1, -1, -1]), frame_j=ON_I @ np.diag([-1, 1, -1]), motion=FIRST
        ),
    ),
    "many turns": (hinge(axis_i=OBLIQUE), turner(GROUND, "a", axis_i=OBLIQUE, motion=MANY)),
    "many turns back, from the body": (hinge(axis_i=Y), turner("a", GROUND, axis_i=-Y, motion=Ramp(-50.0, 70.0))),
    "oblique driver": (hinge(axis_i=Z), turner(GROUND, "a", axis_i=(0.2, 0.1, 1.0), motion=FIRST)),
    "oblique driver, many turns": (
        hinge(axis_i=Z),
        turner("a", GROUND, axis_i=(0.2, 0.1, 1.0), axis_j=(0, -0.3, 1), motion=MANY),
    ),
    "cylindrical": (
        spatial.Cylindrical(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), OBLIQUE),
        turner(GROUND, "a", axis_i=OBLIQUE, motion=FIRST),
    ),
    "screw": (
        spatial.Screw(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), OBLIQUE, pitch=0.4),
        turner("a", GROUND, axis_i=OBLIQUE, motion=FIRST),
    ),
    "prismatic": (
        spatial.Prismatic(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), OBLIQUE, X),
        spatial.TranslationalDriver(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), OBLIQUE, X, motion=FIRST),
    ),
    "prismatic, from the body, other points, oblique": (
        spatial.Prismatic(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), OBLIQUE),
        spatial.TranslationalDriver("a", GROUND, (0.5, 0.1, 0.2), (-0.2, 0.1, 0.1), (1, 1, 0.3), motion=FIRST),
    ),
    "total joint": (
        spatial.TotalJoint(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), ("fixed",) * 3, ("fixed", MANY, "fixed")),
        None,
    ),
}


QUICK = {"frames, from the body, upside down", "oblique driver, many turns", "screw"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in DRIVEN]
)
def test_ways_to_drive_a_joint(name):
    """Drivers from either body, along either axis, with frames, oblique, over many turns: Φ and its rates vanish, and the
    effort times Ċ is the power that the body needs, by Newton's and Euler's equations."""
    joint, driver = DRIVEN[name]
    mech = mbs.Mechanism(links(1, 61), {"joint": joint}, {} if driver is None else {"motor": driver}, WEIGHT)
    assert KANE.equations(mech).space.m == (1 if name == "cylindrical" else 0)
    run = mbs.simulate(mech, TIMES, step=0.05, formulation=KANE)
    check_specified(mech, run)
    found = mbs.reactions(mech, run, formulation=KANE)
    motion = MANY if driver is None else driver.motion
    effort = found["joint"].effort[:, 0] if driver is None else found["motor"].effort
    moving, v = in_motion(mech, run, "a"), np.asarray(run.v)
    force, moment = needed(mech, run, "a", moving.origin)
    power = np.sum(force * v[:, :3], axis=1) + np.sum(moment * np.einsum("tij,tj->ti", moving.turn, v[:, 3:]), axis=1)
    close(effort * np.asarray(jax.vmap(jax.grad(motion))(TIMES)), power, 1e-9)


def test_turns_of_a_driver_are_counted():
    """Over 8 turns in the plane and in space: φ itself where it counts, and Euler parameters that never jump."""
    mech = mbs.Mechanism(
        {"a": planar.Body(1.0, 0.1, (0.3, 0))},
        {"O": planar.Revolute(GROUND, "a", (0, 0), (0, 0))},
        {"motor": planar.RevoluteDriver("a", GROUND, MANY, angle_j=0.5)},
    )
    times = np.linspace(0, 1, 201)
    run = mbs.simulate(mech, times, step=0.005, formulation=KANE)
    assert not run.status.any()
    # Φ = (φ_j + θ_j) − (φ_i + θ_i) − C with the ground as j.
    close(run.position("a.phi"), 0.5 - (50 * times - 1), 1e-13)
    joint, driver = DRIVEN["many turns"]
    run = mbs.simulate(
        mbs.Mechanism(links(1, 61), {"O": joint}, {"motor": driver}), times, step=0.005, formulation=KANE
    )
    steps = np.sum(np.asarray(run.q[1:, 3:] * run.q[:-1, 3:]), axis=1)
    close(steps, np.full(200, np.cos(0.125)), 1e-12)


SECOND_DRIVERS = {"the same": (FIRST, True), "another": (SECOND, False)}


def twice_driven(dimension, motion):
    if dimension == 2:
        pair = {"one": planar.RevoluteDriver(GROUND, "a", FIRST), "two": planar.RevoluteDriver(GROUND, "a", motion)}
        return planar_double_pendulum(pair)
    joints = {"O": hinge(axis_i=Y), "A": spatial.Revolute("a", "b", X, -X)}
    pair = {"one": turner(GROUND, "a", axis_i=Y, motion=FIRST), "two": turner("a", GROUND, axis_i=-Y, motion=motion)}
    return mbs.Mechanism(links(2, 62), joints, pair, WEIGHT)


@pytest.mark.parametrize("name", SECOND_DRIVERS)
@pytest.mark.parametrize("dimension", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_two_drivers_at_the_same_angle(name, dimension):
    """A driver that repeats another is redundant and does no harm; one that contradicts it is seen. With a free body."""
    motion, possible = SECOND_DRIVERS[name]
    mech = twice_driven(dimension, motion)
    run = mbs.simulate(mech, TIMES[:3], step=0.05, formulation=KANE)
    assert all(np.isfinite(x).all() for x in (run.q, run.v, run.a))
    if possible:
        check_specified(mech, run)
        found = mbs.reactions(mech, run, formulation=KANE)
        assert all(
            np.isfinite(np.asarray(x)).all() for x in (found["one"].effort, found["two"].effort, found["O"].force)
        )
    else:
        assert np.all(np.asarray(run.status) != CONVERGED)


def test_driven_angle_without_inertia():
    """A point mass at its pin: the angle has no inertia, but it is known; torques are those of the bodies beyond."""
    mech = mbs.Mechanism(
        {"a": planar.Body(1.0, 0.0), "b": planar.Body(1.0, 0.0, (0.5, 0))},
        {"O": planar.Revolute(GROUND, "a", (0, 0), (0, 0)), "A": planar.Revolute("a", "b", (0.3, 0), (0, 0))},
        {"shoulder": planar.RevoluteDriver(GROUND, "a", FIRST), "elbow": planar.RevoluteDriver("a", "b", SECOND)},
        {"gravity": mbs.Gravity((0, -9.81))},
    )
    run = mbs.simulate(mech, TIMES, step=0.1, formulation=KANE)
    assert not run.status.any()
    by_time = lambda f: np.asarray(jax.vmap(f)(TIMES))
    angle = lambda t: FIRST(t) + SECOND(t)
    place = lambda t: jnp.stack([
        0.3 * jnp.cos(FIRST(t)) + 0.5 * jnp.cos(angle(t)), 0.3 * jnp.sin(FIRST(t)) + 0.5 * jnp.sin(angle(t))
    ])  # fmt: skip
    r, a = by_time(place), by_time(jax.jacfwd(jax.jacfwd(place))) + np.array([0, 9.81])
    found = mbs.reactions(mech, run, formulation=KANE)
    close(found["shoulder"].effort, r[:, 0] * a[:, 1] - r[:, 1] * a[:, 0], 1e-12)
    arm = 0.5 * np.stack([np.cos(by_time(angle)), np.sin(by_time(angle))], axis=1)
    close(found["elbow"].effort, arm[:, 0] * a[:, 1] - arm[:, 1] * a[:, 0], 1e-12)


METHODS = [
    mbs.Adaptive(1e-9, 1e-9),
    mbs.SemiImplicitEuler(),
    mbs.GeneralizedAlpha(0.8),
    mbs.HHT(-0.1),
    mbs.CoordinatePartitioning(),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_nothing_unknown_in_every_method(method):
    """All is known: there is nothing to integrate, and every method gives the specified motion."""
    motors = {
        f"{k}": planar.RevoluteDriver(*ends, c) for k, ends, c in ((1, (GROUND, "a"), FIRST), (2, ("a", "b"), SECOND))
    }
    step = None if isinstance(method, mbs.Adaptive) else 0.05
    run = mbs.simulate(planar_double_pendulum(motors), TIMES, step=step, method=method, formulation=KANE)
    assert not run.status.any()
    first, second = (np.asarray(jax.vmap(c)(TIMES)) for c in (FIRST, SECOND))
    close(run.position("a.phi"), first, 1e-14)
    close(run.position("b.phi"), first + second, 1e-14)


@pytest.mark.parametrize("driven", [range(20), range(17, 20)], ids=["all", "some"])
@pytest.mark.slow
def test_long_chain(driven):
    """Twenty links, a loop in the program: efforts are the multipliers of the coordinates; free ones have none."""
    ends = {k: (f"b{k - 1}" if k else GROUND, f"b{k}") for k in range(20)}
    mech = mbs.Mechanism(
        dict.fromkeys((f"b{k}" for k in range(20)), planar.Body(1.0, 0.1, (0.1, 0.02))),
        {f"J{k}": planar.Revolute(*ends[k], (0.2 * (k > 0), 0), (0, 0)) for k in range(20)},
        {f"D{k}": planar.RevoluteDriver(*ends[k], Ramp(0.1 * (k + 1), 0.05)) for k in driven},
        {"gravity": mbs.Gravity((0, -9.81))},
    )
    run = mbs.simulate(mech, TIMES[:2], step=0.01, formulation=KANE)
    assert not run.status.any()
    assert size(jax.vmap(lambda q, t: mbs.constraints(mech, q, t))(run.q, run.t)) < 1e-12
    multipliers = mbs.kane_multipliers(mech, run)
    found, largest = mbs.reactions(mech, run, formulation=KANE), size(multipliers)
    for k in range(20):
        effort = found[f"D{k}"].effort if k in driven else np.zeros(2)
        assert size(multipliers[:, k] - effort) < 1e-12 * largest


def test_start_that_contradicts_the_specified_motion():
    """Wrong angles, open joints, wrong turns and wrong velocities at the start: drivers and joints hold exactly at once."""
    mech = planar_double_pendulum({"motor": planar.RevoluteDriver("a", GROUND, MANY)})
    q0 = {"a": (0.2, -0.3, 12.0), "b": (0.9, 0.4, -20.0)}
    v0 = mech.velocities({"a.phi": -3.0, "b.phi": 2.0, "b.x": 7.0})
    run = mbs.simulate(mech, TIMES[:2], q0, v0, step=0.01, formulation=KANE)
    check_specified(mech, run)
    close(run.position("a.phi"), -(50 * TIMES[:2] - 1), 1e-13)


@pytest.mark.slow
def test_start_in_space_that_contradicts_the_specified_motion():
    """The same in space."""
    mech = mbs.Mechanism(
        links(1, 81), {"O": hinge(axis_i=OBLIQUE)}, {"motor": turner("a", GROUND, axis_i=OBLIQUE, motion=FIRST)}
    )
    q0 = {"a": spatial.coordinates((0.3, 0.1, -0.2), (0.4, 2.0, 0.3))}
    v0 = mech.velocities({"a.wx": 4.0, "a.y": 2.0})
    check_specified(mech, mbs.simulate(mech, TIMES[:2], q0, v0, step=0.01, formulation=KANE))


def test_velocities_at_the_start_are_the_nearest():
    """v with Φ_q v = ν that is nearest to v0 in the sense of M, by numpy: with a driven and a free joint."""
    mech = planar_double_pendulum({"motor": planar.RevoluteDriver(GROUND, "a", FIRST)})
    t, v0 = 0.3, np.random.default_rng(18).normal(size=6)
    q = mbs.Kane().of(mech).configuration(np.array([FIRST(t), 0.7, 0, 0, 0, 0]))
    run = mbs.simulate(mech, [t], q, v0, formulation=KANE)
    assert run.status[0] == CONVERGED
    close(run.q[0], q, 1e-14)
    jacobian, right = np.asarray(mbs.constraint_jacobian(mech, q, t)), np.asarray(mbs.velocity_rhs(mech, q, t))
    mass = np.asarray(mbs.Augmented().of(mech).mass_matrix(q))
    by_force = np.linalg.solve(mass, jacobian.T)
    close(run.v[0], v0 + by_force @ np.linalg.solve(jacobian @ by_force, right - jacobian @ v0), 1e-12)
