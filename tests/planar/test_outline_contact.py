"""Outlines that touch as a force, against closed forms, fine grids and differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.numerics.plane import rotation_matrix
from jaxmbs.system.equations import state_of

DISC = planar.FunctionOutline(1.0)
ROLLER = planar.FunctionOutline(0.5)
ANGLES = np.linspace(0, 2 * np.pi, 12, endpoint=False)
RADII = 1 + 0.25 * np.cos(ANGLES) + 0.08 * np.cos(2 * ANGLES)
LAW = {"stiffness": 2e5, "exponent": 1.5, "restitution": 0.8, "impact_velocity": 0.5}
# The coefficient of the penetration rate in the law of Lankarani and Nikravesh.
DAMPING = 3 * (1 - 0.8**2) / (4 * 0.5)


class Ellipse(planar.AbstractOutline):
    """An ellipse with half axes a along x and b along y."""

    a: float
    b: float

    def radius(self, alpha):
        return self.a * self.b / jnp.hypot(self.b * jnp.cos(alpha), self.a * jnp.sin(alpha))


def outlines_touch(outline_i, outline_j, point_i=None, point_j=None, **options):
    """Two free bodies with a contact."""
    contact = planar.OutlineContact("a", "b", point_i, point_j, outline_i, outline_j, **{**LAW, **options})
    return mbs.Mechanism({"a": planar.Body(1.0, 0.3), "b": planar.Body(2.0, 0.5)}, forces={"contact": contact})


def touch_of(mech, q):
    """The contact at rest in a configuration."""
    state = state_of(mech, q, jnp.zeros(mech.layout.m), jnp.zeros(()))
    return mech.forces["contact"].contacts(state)[0]


def loads(mech, q, v):
    """Generalized forces (2, 3) on both bodies."""
    return np.asarray(mbs.generalized_force(mech, np.asarray(q, float), np.asarray(v, float))).reshape(2, 3)


def test_two_discs():
    """Depth, rate and force by their closed form; forces and moments of both bodies add up to zero."""
    friction, slow = 0.3, 0.01
    mech = outlines_touch(DISC, ROLLER, (0.1, -0.2), (0.05, 0.1), friction=friction, velocity=slow)
    q = np.array([0.2, -0.1, 0.7, 0, 0, -1.1])
    v = np.array([0.3, 0.2, -0.4, -0.5, 0.1, 2.0])
    arm_i, arm_j = (np.asarray(rotation_matrix(phi)) @ p for phi, p in ((0.7, (0.1, -0.2)), (-1.1, (0.05, 0.1))))
    n, depth = np.array([0.6, 0.8]), 0.004
    q[3:5] = q[:2] + arm_i + (1.5 - depth) * n - arm_j
    place = q[:2] + arm_i + (1 - depth / 2) * n
    across = lambda r: np.array([-r[1], r[0]])
    apart = v[3:5] + v[5] * across(place - q[3:5]) - v[:2] - v[2] * across(place - q[:2])
    rate = -apart @ n
    slip = apart + rate * n
    pressure = 2e5 * depth**1.5 * (1 + DAMPING * rate)
    assert pressure > 0
    force = pressure * n - pressure * friction * np.tanh(4 * np.linalg.norm(slip) / slow) * slip / np.linalg.norm(slip)
    on_i, on_j = loads(mech, q, v)
    moment = lambda r, f: r[0] * f[1] - r[1] * f[0]
    np.testing.assert_allclose(on_j, [*force, moment(place - q[3:5], force)], rtol=1e-9)
    np.testing.assert_allclose(on_i, [*-force, moment(place - q[:2], -force)], rtol=1e-9)
    total = on_i[2] + moment(q[:2], on_i[:2]) + on_j[2] + moment(q[3:5], on_j[:2])
    np.testing.assert_allclose(total, 0, atol=1e-9)
    q[3:5] += 2 * depth * n
    assert not np.any(loads(mech, q, v))


def test_same_law_as_a_pin_with_clearance():
    """A disc inside a ring, with and without the smoothing for steps, is a pin in its hole."""
    bodies = {"a": planar.Body(1.0, 0.3), "b": planar.Body(2.0, 0.5)}
    ring = planar.OutlineContact("a", "b", None, None, DISC, ROLLER, inside=True, **LAW)
    pin = mbs.ClearanceRevolute("a", "b", clearance=0.5, **LAW)
    runs = [
        mbs.simulate(
            mbs.Mechanism(bodies, forces={"contact": force}),
            jnp.linspace(0, 0.2, 5),
            {"b": (0.3, 0.3, 0)},
            {"b": (1.0, 0.5, 2.0)},
            step=1e-3,
        ).q
        for force in (ring, pin)
    ]
    assert np.max(np.abs(runs[0][-1, :3])) > 1e-3  # they have touched
    np.testing.assert_allclose(*runs, atol=1e-12)


def test_ellipse_on_a_face():
    """The depth by the support function of the ellipse, for any angle of both bodies."""
    a, b = 1.5, 0.6
    contact = planar.FlatContact("a", "b", None, (0.3, 0.2), Ellipse(a, b), axis_j=(2.0, 1.0), **LAW)
    mech = mbs.Mechanism({"a": planar.Body(1.0, 0.3), "b": planar.Body(2.0, 0.5)}, forces={"contact": contact})
    depths = jax.jit(jax.vmap(lambda q: touch_of(mech, q).depth))
    rng = np.random.default_rng(2)
    q = rng.normal(size=(200, 6))
    tilt = q[:, 5] + np.arctan2(1, 2)
    normal = np.stack([-np.sin(tilt), np.cos(tilt)], -1)
    foot = q[:, 3:5] + np.einsum("kij,j->ki", np.moveaxis(rotation_matrix(jnp.array(q[:, 5])), -1, 0), (0.3, 0.2))
    theta = np.arctan2(normal[:, 1], normal[:, 0]) - q[:, 2]
    support = np.hypot(a * np.cos(theta), b * np.sin(theta))
    wanted = support - np.sum((q[:, :2] - foot) * normal, -1)
    np.testing.assert_allclose(depths(q), wanted, atol=1e-12)
    q, n, wanted = q[0], normal[0], wanted[0]
    q[:2] += (wanted - 0.01) * n
    on_i, on_j = loads(mech, q, np.zeros(6))
    np.testing.assert_allclose(on_i[:2], 2e5 * 0.01**1.5 * n, rtol=1e-9)
    np.testing.assert_allclose(on_j[:2], -on_i[:2], rtol=1e-12)
    q[:2] += 0.011 * n
    assert not np.any(loads(mech, q, np.zeros(6)))


def test_parts():
    """No force outside of the part that touches."""
    half = planar.FunctionOutline(1.0, part=(-np.pi / 2, np.pi / 2))
    mech = outlines_touch(half, ROLLER)
    assert np.any(loads(mech, [0, 0, 0, 1.4 * np.cos(1.5), 1.4 * np.sin(1.5), 0], np.zeros(6)))
    assert not np.any(loads(mech, [0, 0, 0, 1.4 * np.cos(1.7), 1.4 * np.sin(1.7), 0], np.zeros(6)))
    # The line y = 1, whose formula is meaningless beyond its part, from below.
    line = planar.FunctionOutline(lambda alpha: 1 / jnp.sin(alpha), part=(0.5, 2.5))
    mech = outlines_touch(line, ROLLER, inside=False)
    np.testing.assert_allclose(touch_of(mech, jnp.array([0, 0, 0, 0.7, 1.4, 0])).depth, 0.1, rtol=1e-9)
    beyond = jnp.array([0, 0, 0, 3.0, 1.4, 0])
    assert np.all(np.isfinite(jax.jacfwd(lambda q: mbs.generalized_force(mech, q, jnp.ones(6)))(beyond)))
    assert not np.any(loads(mech, beyond, np.zeros(6)))


def test_bounce():
    """Speed after an impact by the first integral of the law, d v₁ + ln(1 − d v₁) = ln(1 + d v₀) − d v₀."""
    speed = 0.5
    contact = planar.FlatContact("a", "ground", outline_i=Ellipse(0.2, 0.1), **LAW)
    mech = mbs.Mechanism({"a": planar.Body(2.0, 0.1)}, forces={"contact": contact})
    start = {"a": (0, 0.101, 0)}
    run = mbs.simulate(mech, jnp.array([0, 0.06]), start, {"a.y": -speed}, step=1e-5, throw=True)
    lost = DAMPING * speed - np.log(1 + DAMPING * speed)
    left = brentq(lambda v: -DAMPING * v - np.log(1 - DAMPING * v) - lost, 1e-9, (1 - 1e-9) / DAMPING)
    np.testing.assert_allclose(run.velocity("a.y")[-1], left, rtol=1e-6)


# Radius of the eccentric disc, in metres.
RADIUS = 0.05
# Distance of its centre from its shaft, in metres.
ECCENTRICITY = 0.02
# Its angular velocity, in radians per second.
SPEED = 200 * 2 * np.pi / 60
# Stiffness of the follower's spring, in N/m.
SPRING = 10.0
# Force of the spring in the lowest position, in N.
PRELOAD = 0.2
# Damping of the follower of 1 kg, a tenth of the critical one, in N s/m.
DAMPER = 0.2 * np.sqrt(10.0)


def rigid_flight():
    """Times at which a rigid follower of 1 kg leaves an eccentric disc and lands on it again."""
    x, omega = ECCENTRICITY, SPEED
    lift = lambda t: x * (1 - np.cos(omega * t))
    rate = lambda t: x * omega * np.sin(omega * t)
    push = lambda t: x * omega**2 * np.cos(omega * t) + DAMPER * rate(t) + SPRING * lift(t) + PRELOAD
    leaves = brentq(push, 0, np.pi / omega)
    decay, free = DAMPER / 2, np.sqrt(SPRING - DAMPER**2 / 4)
    rest = -PRELOAD / SPRING
    c = lift(leaves) - rest
    s = (rate(leaves) + decay * c) / free

    def gap(t):
        """Height of the follower above the disc in free flight."""
        since = t - leaves
        return rest + np.exp(-decay * since) * (c * np.cos(free * since) + s * np.sin(free * since)) - lift(t)

    times = leaves + np.linspace(1e-3, 1.0, 4000)
    first = np.argmax(gap(times) < 0)
    return leaves, brentq(gap, times[first - 1], times[first])


def elastic_flight(stiffness):
    """Times at which the depth of the simulated contact changes its sign."""
    x, r = ECCENTRICITY, RADIUS
    disc = planar.FunctionOutline(lambda a: x * jnp.cos(a) + jnp.sqrt(r**2 - (x * jnp.sin(a)) ** 2))
    loss = {"restitution": 0.5, "impact_velocity": 0.1}
    contact = planar.FlatContact(
        "cam", "lifter", outline_i=disc, axis_j=(-1.0, 0.0), stiffness=stiffness, exponent=1.0, **loss
    )
    mech = mbs.Mechanism(
        {"cam": planar.Body(1.0, 1e-3), "lifter": planar.Body(1.0, 0.1)},
        {
            "shaft": planar.Revolute("ground", "cam", (0, 0), (0, 0)),
            "guide": planar.Translational("ground", "lifter", (0, 0), (0, 0), (0, 1)),
        },
        {"motor": planar.RevoluteDriver("ground", "cam", mbs.motion.Ramp(SPEED, -np.pi / 2))},
        {"spring": mbs.JointSpring("guide", SPRING, r - x - PRELOAD / SPRING, DAMPER), "touch": contact},
    )
    pressed = (x * SPEED**2 + PRELOAD) / stiffness
    times = np.concatenate([[0], np.linspace(0.077, 0.080, 31), np.linspace(0.919, 0.922, 31)])
    start = {"cam.phi": -np.pi / 2, "lifter.y": r - x - pressed}
    run = mbs.simulate(mech, times, start, {"cam.phi": SPEED}, step=1e-4, throw=True)
    depth = np.asarray(mbs.force_elements(mech, run)["touch"].length)
    (k,), (m,) = np.nonzero((depth[1:-1] > 0) & (depth[2:] <= 0)), np.nonzero((depth[1:-1] <= 0) & (depth[2:] > 0))
    zero = lambda k: times[k] - depth[k] * (times[k + 1] - times[k]) / (depth[k + 1] - depth[k])
    return zero(k[0] + 1), zero(m[0] + 1)


def test_cam_jump():
    """A follower leaves its cam and lands as in the closed form with a rigid contact, within an error of 1 / stiffness."""
    rigid = rigid_flight()
    np.testing.assert_allclose(rigid, [0.07870, 0.92008], atol=5e-6)
    soft, stiff = (np.abs(np.subtract(elastic_flight(k), rigid)) for k in (1e5, 1e6))
    # The depth of at most 9 N / k passes at the speeds of the two bodies relative to each other, 0.2 m/s at the landing.
    assert np.all(soft < 9 / 1e5 / 0.2)
    assert np.all(stiff < 9 / 1e6 / 0.2)
    np.testing.assert_allclose(soft[1] / stiff[1], 10, rtol=0.2)


def test_derivatives_by_knots_distance_and_stiffness():
    """Of the force, and of a motion in contact, as central differences."""
    v = jnp.array([0.3, 0.2, -0.4, -0.5, 0.1, 2.0])

    def build(x):
        rub = {"friction": 0.3, "velocity": 0.5}
        return outlines_touch(planar.SplineOutline(x[2:]), ROLLER, stiffness=x[1], **rub)

    def force(x):
        return mbs.generalized_force(build(x), jnp.zeros(6).at[2].set(0.4).at[3].set(x[0]).at[4].set(0.5), v)

    def end(x):
        start = jnp.zeros(6).at[2].set(0.4).at[3].set(x[0]).at[4].set(0.5)
        return mbs.simulate(build(x), np.array([0, 0.01]), start, 0.1 * v, step=1e-3).q[-1]

    def force_of_a_face(x):
        laws = LAW | {"stiffness": x[1], "friction": 0.3, "velocity": 0.5}
        face = planar.FlatContact("b", "a", (0.1, 0), (0, 0.3), planar.SplineOutline(x[2:]), axis_j=(1.0, 0.2), **laws)
        mech = mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, forces={"contact": face})
        return mbs.generalized_force(mech, jnp.zeros(6).at[4].set(x[0] - 0.3), v)

    x = np.array([1.52, 3e3, *RADII])
    assert touch_of(build(x), jnp.array([0, 0, 0.4, x[0], 0.5, 0])).depth > 0.03
    for function in (force, end, force_of_a_face):
        function = jax.jit(function)
        found = np.asarray(jax.jacfwd(function)(x))
        for k in (0, 1, 2, 3, 13):
            h = 1e-5 * np.eye(len(x))[k] * x[k]
            wanted = np.asarray(function(x + h) - function(x - h)) / (2 * h[k])
            np.testing.assert_allclose(found[:, k], wanted, atol=1e-6 * np.max(np.abs(wanted)), err_msg=f"{k}")


def test_second_derivatives_of_the_depth():
    """Differences of first derivatives, and symmetric."""
    mech = outlines_touch(planar.SplineOutline(RADII), ROLLER)
    depth = jax.jit(lambda x: touch_of(mech, jnp.array([0, 0, 0.4, 1.52, 0.5, 0]).at[:5].add(x)).depth)
    rate = jax.jit(jax.grad(depth))
    hessian = np.asarray(jax.jacfwd(jax.grad(depth))(jnp.zeros(5)))
    h = 1e-5
    wanted = [(rate(jnp.zeros(5).at[k].set(h)) - rate(jnp.zeros(5).at[k].set(-h))) / (2 * h) for k in range(5)]
    np.testing.assert_allclose(hessian, np.stack(wanted), atol=1e-7)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)


def test_energy_of_a_bouncing_disc():
    """Without losses: its error has the order 4 of the method, within a contact and over a bounce."""
    law = {"stiffness": 1e5, "exponent": 2.0}
    hill = planar.OutlineContact("ground", "a", None, None, Ellipse(0.4, 0.2), planar.FunctionOutline(0.1), **law)
    forces = {"contact": hill, "weight": mbs.Gravity((0, -9.81))}
    mech = mbs.Mechanism({"a": planar.Body(1.0, 0.01)}, forces=forces)

    def error(height, time, step):
        """Change of the energy, relative to its value at the beginning, and the velocity along x at the end."""
        start = {"a": (0.1, height, 0)}
        run = mbs.simulate(mech, np.array([0, time]), start, {"a.y": -1.0}, step=step, throw=True)
        total = np.asarray(run.energy.total)
        return abs(total[1] / total[0] - 1), run.velocity("a.x")[-1]

    (coarse, _), (fine, _) = (error(0.28, 0.02, step) for step in (4e-4, 2e-4))
    assert fine < 1e-10
    assert coarse / fine > 12
    coarse, middle, fine = (error(0.35, 0.2, step) for step in (4e-3, 2e-3, 1e-3))
    assert fine[1] > 0.3
    assert fine[0] < 1e-8
    assert coarse[0] / middle[0] > 16
    assert middle[0] / fine[0] > 16


def test_random_poses():
    """Depths by their closed form and by all pairs of a fine grid of angles; the force never pulls."""
    cam, roller, radius, count = planar.SplineOutline(RADII), planar.FunctionOutline(0.3), 0.3, 360
    mech = outlines_touch(cam, roller)
    fine = jnp.linspace(0, 2 * jnp.pi, count, endpoint=False)
    curve_i, curve_j = jax.vmap(cam.point)(fine), jax.vmap(roller.point)(fine)

    def found(q, v):
        touch = touch_of(mech, q)
        turned = [rotation_matrix(q[2]) @ curve_i.T, rotation_matrix(q[5]) @ curve_j.T]
        x, y = q[3:5] - q[:2]
        apart = turned[1][:, :, None] - turned[0][:, None, :]
        nearest = jnp.sqrt(jnp.min((x + apart[0]) ** 2 + (y + apart[1]) ** 2))
        return touch.depth, touch.normal, nearest, mbs.generalized_force(mech, q, v)

    rng = np.random.default_rng(0)
    q, v = rng.uniform(0, 2 * np.pi, (1000, 6)), rng.normal(size=(1000, 6))
    alpha, gap = rng.uniform(0, 2 * np.pi, 1000), rng.uniform(-0.25, 0.6, 1000)
    # The roller's centre on a normal of the cam, which is convex.
    points, tangents = (np.asarray(jax.vmap(f)(alpha)) for f in (cam.point, cam.tangent))
    normals = np.stack([tangents[:, 1], -tangents[:, 0]], -1) / np.linalg.norm(tangents, axis=1, keepdims=True)
    centres = points + (radius + gap)[:, None] * normals
    q[:, 3:5] = q[:, :2] + np.einsum("ijk,kj->ki", rotation_matrix(jnp.array(q[:, 2])), centres)
    batches = jax.jit(lambda q, v: jax.lax.map(lambda x: found(*x), (q, v), batch_size=20))
    depth, normal, nearest, force = map(np.asarray, batches(q, v))
    np.testing.assert_allclose(depth, -gap, atol=1e-12)
    apart = gap > 0
    # Half a step along each outline, and the distance from a chord to its arc.
    np.testing.assert_allclose(nearest[apart], gap[apart], atol=1.4 * np.pi / count)
    assert np.all(np.isfinite(force))
    assert not np.any(force[apart])
    assert np.all(np.sum(force[:, 3:5] * normal, -1) <= 0)
    assert np.any(force[~apart])


BAD = [
    ({"stiffness": None}, "stiffness is missing"),
    ({"outline_j": None}, "outline_j is missing"),
    ({"outline_j": 0.5}, "outline_j must be an outline"),
    ({"outline_i": planar.FunctionOutline(-1.0)}, "outline_i: .*radius must be positive"),
    ({"outline_i": planar.SplineOutline((1.0, 0.5, 1.0, 1.0)), "outline_j": planar.FunctionOutline(2.0)}, "hollow"),
    ({"inside": True, "outline_j": planar.FunctionOutline(2.0)}, "outline_j must be more curved"),
    ({"exponent": 0.5}, "exponent must be at least 1"),
    ({"restitution": 1.5}, "restitution must not be above 1"),
    ({"friction": 0.1}, "velocity is missing"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_input(options, message):
    given = {"outline_i": DISC, "outline_j": ROLLER} | options
    with pytest.raises(ValueError, match=f"force 'contact' .*{message}"):
        outlines_touch(given.pop("outline_i"), given.pop("outline_j"), **given)


def test_bad_face():
    for options, message in (
        ({"outline_i": None}, "outline_i is missing"),
        ({"axis_j": (0.0, 0.0)}, "axis_j has no length"),
        ({"outline_i": planar.SplineOutline((1.0, 0.5, 1.0, 1.0))}, "not convex"),
    ):
        face = planar.FlatContact("a", "ground", **{"outline_i": DISC, "stiffness": 1.0, **options})
        with pytest.raises(ValueError, match=f"force 'contact' .*{message}"):
            mbs.Mechanism({"a": planar.Body()}, forces={"contact": face})
