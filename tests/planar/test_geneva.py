"""Polylines that touch, against fine grids; Geneva drives, against their closed form; one-sided contacts."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import cKDTree

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.numerics.plane import rotation_matrix
from jaxmbs.system.equations import state_of

ORIGIN = (0.0, 0.0)
# An angle with a hollow, a triangle, and a bent bar with two ends.
ANGLE = planar.RoundedPolyline([(0, 0), (2, 0), (2, 0.6), (0.6, 0.6), (0.6, 2), (0, 2)], 0.1, closed=True)
TRIANGLE = planar.RoundedPolyline([(-0.3, -0.2), (0.5, -0.1), (0.1, 0.6)], 0.05, closed=True)
BENT = planar.RoundedPolyline([(0, 0), (1, 0), (1.5, 0.7)], 0.1)
DISC = planar.FunctionOutline(0.2)


def touches(outline_i, outline_j):
    """A function of a configuration that gives the depths at all places, and if they count."""
    contact = planar.OutlineContact("a", "b", None, None, outline_i, outline_j, stiffness=1e3, exponent=1.0)
    mech = mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, forces={"contact": contact})

    def found(q):
        places = mech.forces["contact"].contacts(state_of(mech, q, jnp.zeros(6), jnp.zeros(())))
        return jnp.stack([place.depth for place in places]), jnp.stack(
            [jnp.asarray(place.is_active) for place in places]
        )

    return found


def boundary(outline, count=1000):
    """Points of the chain of an outline, and its radius."""
    if isinstance(outline, planar.FunctionOutline):
        return np.zeros((1, 2)), 0.2
    points = outline.points[0]
    ends = np.concatenate([points, points[:1]]) if outline.closed else points
    return np.concatenate([np.linspace(a, b, count) for a, b in pairwise(ends)]), outline.radius


@pytest.mark.parametrize("pair", [(ANGLE, DISC), (DISC, BENT), (ANGLE, TRIANGLE)])
def test_nearest_places_of_polylines(pair):
    """The distance of the solids is the smallest one of all pairs of points of fine grids."""
    rng = np.random.default_rng(0)
    q = np.concatenate([rng.uniform(-2, 3, (40, 2)), rng.uniform(0, 6, (40, 1)), np.zeros((40, 3))], axis=1)
    q[:, [3, 4]] = rng.uniform(-1, 2, (40, 2))
    depths, is_active = map(np.asarray, jax.jit(jax.vmap(touches(*pair)))(q))
    assert np.all(is_active[:, 0])
    curves = [boundary(outline) for outline in pair]
    apart = 0
    for poses, depth in zip(q.reshape(-1, 2, 3), depths[:, 0], strict=True):
        first, second = (
            pose[:2] + curve @ np.asarray(rotation_matrix(pose[2])).T
            for pose, (curve, _) in zip(poses, curves, strict=True)
        )
        gap = np.min(cKDTree(first).query(second)[0])
        if gap > 0.1:  # the chains do not cross
            apart += 1
            np.testing.assert_allclose(sum(radius for _, radius in curves) - gap, depth, atol=1e-5)
    assert apart > 20


def test_ends_backs_hollows_and_faces():
    """Depths of a disc around a bar with ends and in a corner; a box lies on a face at both of its ends."""
    at = lambda x, y: jnp.array([0, 0, 0, x, y, 0.0])
    found = jax.jit(touches(BENT, DISC))
    depth = lambda x, y: float(found(at(x, y))[0][0])
    np.testing.assert_allclose(depth(-0.2, 0.15), 0.3 - 0.25, rtol=1e-12)  # the arc around the first end
    np.testing.assert_allclose([depth(0.5, 0.28), depth(0.5, -0.28)], 0.02, rtol=1e-12)  # both sides
    np.testing.assert_allclose(depth(1.0, -0.3), 0, atol=1e-12)  # the arc around the corner
    corner = jax.jit(touches(ANGLE, DISC))(at(0.85, 0.88))
    np.testing.assert_allclose(corner[0], [0.3 - 0.25, 0.3 - 0.28], rtol=1e-12)  # both flanks of the hollow
    assert np.all(corner[1])
    box = planar.RoundedPolyline([(-0.5, -0.2), (0.5, -0.2), (0.5, 0.2), (-0.5, 0.2)], 0.1, closed=True)
    floor = planar.RoundedPolyline([(-5, 0), (5, 0)], 0.1)
    tilt, height = 1e-3, 0.39
    depths, is_active = jax.jit(touches(floor, box))(jnp.array([0, 0, 0, 0.3, height, tilt]))
    ends = 0.2 - (height - 0.2 * np.cos(tilt) + np.array([-0.5, 0.5]) * np.sin(tilt))
    np.testing.assert_allclose(depths, ends, rtol=1e-9)
    assert np.all(is_active)


def test_many_points_are_one_smooth_curve():
    """A disc that swings in an arc of 90 points keeps its energy; in a ring, its potential has no steps at the corners."""
    arc = lambda angles: 1.1 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    hollow = planar.RoundedPolyline(arc(np.linspace(1.1 * np.pi, 1.9 * np.pi, 90)), 0.1)
    pin = planar.FunctionOutline(0.3)
    touch = planar.OutlineContact("ground", "pin", ORIGIN, ORIGIN, hollow, pin, stiffness=1e5, exponent=1.0)
    mech = mbs.Mechanism({"pin": planar.Body(1.0, 0.01)}, forces={"touch": touch, "weight": mbs.Gravity((0, -9.81))})
    start = (*(0.7 / 1.1 * arc(np.array([1.3 * np.pi]))[0]), 0)
    energy = mbs.simulate(mech, np.linspace(0, 2, 41), {"pin": start}, step=5e-4, throw=True).energy
    assert np.max(energy.kinetic) > 1.3
    np.testing.assert_allclose(energy.kinetic + energy.potential, energy.potential[0], atol=1e-3)
    ring = planar.RoundedPolyline(arc(2 * np.pi * np.arange(40) / 40), 0.1, closed=True)
    angles = np.linspace(0, 2 * np.pi, 4001)
    q = np.zeros((len(angles), 6))
    q[:, 3], q[:, 4] = 0.71 * np.cos(angles), 0.71 * np.sin(angles)
    depths, is_active = jax.jit(jax.vmap(touches(ring, pin)))(q)
    depths = np.where(is_active, np.maximum(depths, 0), 0)
    path = np.hypot(*np.diff(q[:, 3:5], axis=0).T)
    change = np.abs(np.diff(np.sum(depths**2 / 2, axis=1)))
    assert np.min(np.max(depths, axis=1)) > 0.005
    assert np.all(change <= 1.01 * np.max(depths) * path)


def test_places_on_different_curves():
    """Both flanks of a slot with a round end, and two discs of one body on a bar, count; an inactive place is no depth."""
    bend = np.linspace(np.pi, 2 * np.pi, 19)
    slot = [(-0.31, 2), *zip(0.31 * np.cos(bend), 0.31 * np.sin(bend), strict=True), (0.31, 2)]
    discs, bar = planar.RoundedPolyline([[(-1, 0)], [(1, 0)]], 0.1), planar.RoundedPolyline([(-2, 0), (2, 0)], 0.1)
    for first, second, y in ((planar.RoundedPolyline(slot, 0.12), DISC, 1.0), (bar, discs, 0.19)):
        depths, is_active = jax.jit(touches(first, second))(jnp.array([0, 0, 0, 0, y, 0]))
        np.testing.assert_allclose(depths, 0.01, atol=1e-12)
        assert np.all(is_active)
    part = planar.FunctionOutline(0.2, part=(0.1, 1.0))
    contact = planar.OutlineContact("ground", "a", ORIGIN, ORIGIN, part, DISC, stiffness=1.0, exponent=1.0)
    mech = mbs.Mechanism({"a": planar.Body()}, forces={"contact": contact})
    length = lambda x: contact.measures(state_of(mech, jnp.array([x, 0.01, 0]), jnp.zeros(3), jnp.zeros(())))["length"]
    lengths = jax.jit(jax.vmap(length))(jnp.array([0.3, -0.3]))
    assert np.max(lengths) < 0


def test_derivatives_by_points_and_radius():
    """Forward derivatives of the depths as central differences, for both parts of a pair."""
    q = jnp.array([0, 0, 0.2, 1.05, 1.2, 0.7])

    def depths(x):
        first = planar.RoundedPolyline(x[:12].reshape(6, 2), x[12], closed=True)
        return touches(first, planar.RoundedPolyline(x[13:19].reshape(3, 2), x[19], closed=True))(q)[0]

    x = np.concatenate([ANGLE.points.ravel(), [0.1], TRIANGLE.points.ravel(), [0.05]])
    depths = jax.jit(depths)
    steps = 1e-6 * np.eye(len(x))
    wanted = np.stack([(depths(x + h) - depths(x - h)) / 2e-6 for h in steps], axis=1)
    np.testing.assert_allclose(jax.jacfwd(depths)(x), wanted, atol=1e-8)
    np.testing.assert_allclose(wanted[:, [12, 19]], 1, atol=1e-8)


# Length of the crank, in metres.
CRANK = 0.05
# Speed of the crank, in rad/s: a turn in a second.
SPEED = 2 * np.pi


def geneva(slots, **law):
    """A Geneva drive at constant speed, as a constraint, or as contacts with a law and a brake; and its guess, locked."""
    drive = planar.GenevaDrive("crank", "wheel", ORIGIN, ORIGIN, slots=slots, crank=CRANK)
    forces = drive.contact_forces(pin_radius=0.005, corner_radius=0.003, exponent=1.0, **law) if law else {}
    mech = mbs.Mechanism(
        {"crank": planar.Body(1.0, 1e-3), "wheel": planar.Body(1.0, 1e-4)},
        {
            "O": planar.Revolute("ground", "crank", ORIGIN, ORIGIN),
            "C": planar.Revolute("ground", "wheel", (CRANK / np.sin(np.pi / slots), 0), ORIGIN),
            **({} if law else {"drive": drive}),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(SPEED, -np.pi))},
        forces | {"brake": mbs.JointSpring("C", damping=0.05, stiffness=0.0, free=0.0)},
    )
    return mech, {"crank": (0, 0, -np.pi), "wheel": (float(drive.distance), 0, np.pi + np.pi / slots)}


def closed_form(slots, t):
    """Angle, rate and acceleration of the wheel; the last two in the slot only, else zero."""
    ratio, step = np.sin(np.pi / slots), np.pi / slots
    turns = np.round(t - 0.5)
    theta = SPEED * (t - 0.5 - turns)
    size = 1 - 2 * ratio * np.cos(theta) + ratio**2
    moves = np.abs(theta) < np.pi / 2 - step
    angle = np.where(moves, np.arctan2(ratio * np.sin(theta), 1 - ratio * np.cos(theta)), np.sign(theta) * step)
    rate = np.where(moves, ratio * (np.cos(theta) - ratio) / size, 0)
    curved = np.where(moves, -ratio * (1 - ratio**2) * np.sin(theta) / size**2, 0)
    return np.pi - 2 * step * turns - angle, -SPEED * rate, -(SPEED**2) * curved, theta


@pytest.mark.parametrize("slots", [4, 6])
def test_geneva_constraint(slots):
    """Ten turns as the closed form; the motor's torque has the power of the wheel and its brake."""
    times = np.linspace(0, 10, 1501) + 1e-4
    mech, guess = geneva(slots)
    motion = mbs.kinematics(mech, times, guess, throw=True)
    angle, rate, curved, _ = closed_form(slots, times)
    np.testing.assert_allclose(motion.position("wheel.phi"), angle, atol=1e-12)
    np.testing.assert_allclose(motion.velocity("wheel.phi"), rate, atol=1e-11)
    np.testing.assert_allclose(motion.acceleration("wheel.phi"), curved, atol=1e-9)
    found = mbs.reactions(mech, motion)
    load = 1e-4 * curved + 0.05 * rate
    np.testing.assert_allclose(SPEED * found["motor"].effort, load * rate, atol=1e-9)
    # The pin is the only thing that pushes the wheel along the slot's normal; its bearing carries the opposite force.
    drive = mech.constraints["drive"]
    theta = closed_form(slots, times)[3]
    lever = np.sqrt(drive.distance**2 + CRANK**2 - 2 * drive.distance * CRANK * np.cos(theta))
    moving = rate != 0
    size = np.linalg.norm(found["C"].force, axis=1)
    np.testing.assert_allclose(size[moving], np.abs(load / lever)[moving], atol=1e-9)


@pytest.mark.parametrize("sense", [1, -1])
def test_geneva_on_a_carrier(sense):
    """Seen from an arm that makes ten turns, the wheel has the angle of a drive on the ground, also at coarse outputs."""
    drive = planar.GenevaDrive("crank", "wheel", ORIGIN, ORIGIN, slots=np.int64(3), crank=CRANK)
    distance, times = float(drive.distance), sense * np.linspace(0, 20 * np.pi, 201)
    mech = mbs.Mechanism(
        {"arm": planar.Body(), "crank": planar.Body(), "wheel": planar.Body()},
        {
            "O": planar.Revolute("ground", "arm", ORIGIN, ORIGIN),
            "A": planar.Revolute("arm", "crank", ORIGIN, ORIGIN),
            "B": planar.Revolute("arm", "wheel", (distance, 0), ORIGIN),
            "drive": drive,
        },
        {
            "arm": planar.RevoluteDriver("ground", "arm", mbs.motion.Ramp(1.0)),
            "crank": planar.RevoluteDriver("arm", "crank", mbs.motion.Ramp(3.0)),
        },
    )
    motion = mbs.kinematics(mech, times, {"wheel": (distance, 0, np.pi)}, throw=True)
    wanted = np.pi + times - drive.wheel_angle(jnp.asarray(3 * times))
    np.testing.assert_allclose(motion.position("wheel.phi"), wanted, atol=1e-12)


@pytest.mark.parametrize("slots", [4, 6])
def test_geneva_contacts(slots):
    """Right rests over ten turns; in the slot the motion nears the closed form as 1 / stiffness."""
    entry = np.pi / 2 - np.pi / slots

    def differences(stiffness, times, step):
        """Errors of angle, rate and acceleration, and the angle of the crank from the line of centres."""
        mech, guess = geneva(slots, stiffness=stiffness)
        run = mbs.simulate(mech, times, guess, {"crank.phi": SPEED}, step=step, throw=True)
        *wanted, theta = closed_form(slots, times)
        found = (run.position("wheel.phi"), run.velocity("wheel.phi"), run.acceleration("wheel.phi"))
        return np.abs(np.subtract(found, wanted)), np.abs(theta)

    found, theta = differences(1e5, np.linspace(0, 10, 2001), 4e-4)
    assert np.max(found[0, theta > 2 * entry + 0.1]) < 1e-6
    assert found[0, -1] < 1e-9
    # Away from the ends of the slot, where the force changes from one flank to the other and the wheel oscillates.
    soft, stiff = (
        np.max(found[:, theta < 0.5 * entry], axis=1)
        for found, theta in (differences(k, np.linspace(0, 0.6, 241), 4e-5) for k in (1e5, 1e6))
    )
    np.testing.assert_allclose(soft / stiff, 10, rtol=0.1)


def test_one_sided_contacts():
    """A pin on a round wall needs to be pulled if its weight is upwards, and a force holds it if not."""
    wall = planar.FunctionOutline(1.0)
    for weight in (10.0, -10.0):
        contact = planar.PointFollower("a", "ground", ORIGIN, ORIGIN, wall, one_sided=True)
        mech = mbs.Mechanism(
            {"a": planar.Body()},
            {"wall": contact, "guide": planar.Translational("ground", "a", ORIGIN, ORIGIN, axis_i=(0, 1))},
            forces={"gravity": mbs.Gravity((0, -weight))},
        )
        still = mbs.kinematics(mech, np.zeros(1), {"a": (0, 1, 0), "wall": np.pi / 2}, throw=True)
        lifts = mbs.reactions(mech, still).lifts
        assert list(lifts) == ["wall"]
        assert bool(lifts["wall"][0]) == (weight < 0)
    force = contact.contact_force(stiffness=1e3, exponent=1.0)
    mech = mbs.Mechanism({"a": planar.Body()}, forces={"wall": force})
    np.testing.assert_allclose(mbs.generalized_force(mech, {"a": (0, 0.99, 0)}, jnp.zeros(3)), [0, 10, 0], atol=1e-9)
    assert not np.any(mbs.generalized_force(mech, {"a": (0, 1.01, 0)}, jnp.zeros(3)))


def test_bad_input():
    touch = lambda i, j, **options: mbs.Mechanism(
        {"a": planar.Body()},
        forces={"it": planar.OutlineContact("a", "ground", None, None, i, j, stiffness=1.0, **options)},
    )
    drive = lambda *numbers: mbs.Mechanism(
        {"a": planar.Body()}, {"it": planar.GenevaDrive("a", "ground", ORIGIN, (3, 0), *numbers)}
    )
    slots = lambda count, crank, pin: planar.GenevaDrive("a", "b", ORIGIN, ORIGIN, count, crank).contact_forces(
        pin_radius=pin, corner_radius=0.01, stiffness=1.0
    )
    for build, message in (
        (lambda: touch(ANGLE, planar.SplineOutline((1.0, 1.1, 1.0))), "only another one, or a circle"),
        (lambda: touch(ANGLE, DISC, inside=True), "inside is not for"),
        (lambda: touch(DISC, planar.RoundedPolyline([(0, 0), (1, 0)], 0.1, closed=True)), "at least 3 points"),
        (lambda: touch(DISC, planar.RoundedPolyline([(0, 0), (0, 0)], 0.1)), "are the same"),
        (lambda: touch(DISC, planar.RoundedPolyline([(0, 0), (1, 0)], 0.0)), "radius must be positive"),
        (lambda: touch(DISC, planar.RoundedPolyline(np.zeros((0, 3, 2)), 0.1)), "points has no polyline"),
        (lambda: planar.RoundedPolyline([[(0, 0), (1, 0)], [(0, 1)]], 0.1), r"shape \(k, 2\) or \(p, k, 2\)"),
        (lambda: drive(2, 1.0), "slots must be an integer from 3 on"),
        (lambda: drive(np.nan, 1.0), "slots must be an integer from 3 on, got nan"),
        (lambda: drive(4, -1.0), "crank must be positive"),
        (lambda: drive(4, np.nan), "crank must be finite"),
        (lambda: slots(12, 0.05, 0.02), "for 0.0276484 at their inner ends, 0.103185 from"),
        (lambda: slots(3, 0.05, 0.02), "the slots meet"),
    ):
        with pytest.raises(ValueError, match=message):
            build()
