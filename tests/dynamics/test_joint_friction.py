"""Friction in joints: closed forms, equations derived by hand, and all formulations against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.formulations.reactive import may_be_redundant

G = 9.81
FORMULATIONS = [mbs.Augmented(), mbs.JointCoordinates(), mbs.Kane(), mbs.Natural()]


def brown_mcphee(u, dynamic, static):
    return dynamic * np.tanh(4 * u) + (static - dynamic) * u / (u**2 / 4 + 0.75) ** 2


def block(slope, guide=None, **friction):
    """A block of 2 on a slope, x down the slope."""
    down = (np.cos(slope), -np.sin(slope))
    guide = guide or planar.Translational("ground", "block", (0, 0), (0, 0), axis_i=down, axis_j=(1, 0))
    forces = {"gravity": mbs.Gravity((0, -G)), "rub": mbs.JointFriction("guide", **friction)}
    return mbs.Mechanism({"block": planar.Body(mass=2.0, inertia=0.3)}, {"guide": guide}, forces=forces)


def test_block_slides_down_a_slope():
    """x = v₀ t + ½ g (sin α − μ cos α) t², to rounding while it slides; pressed by its own reaction m g cos α."""
    slope, mu, v_0 = 0.6, 0.3, 0.5
    mech = block(slope, dynamic=mu, velocity=1e-3)
    start = {"block": (0, 0, -slope)}
    v = {"block.x": v_0 * np.cos(slope), "block.y": -v_0 * np.sin(slope), "block.phi": 0.0}
    run = mbs.simulate(mech, jnp.array([0.0, 0.4, 1.0]), start, v, step=0.01)
    a = G * (np.sin(slope) - mu * np.cos(slope))
    x = v_0 * run.t + a * run.t**2 / 2
    np.testing.assert_allclose(run.joint("guide").slide, x, atol=1e-8)
    rub = mbs.force_elements(mech, run)["rub"]
    np.testing.assert_allclose(rub.force, -mu * 2 * G * np.cos(slope), rtol=1e-10)
    np.testing.assert_allclose(rub.power, rub.force * (v_0 + a * run.t), rtol=1e-9)


def test_block_comes_to_rest_and_creeps():
    """On a slope that is not steep enough it creeps with the speed u v_t at which μ(u) = tan α."""
    slope, v_t = 0.2, 1e-2
    mech = block(slope, dynamic=0.3, static=0.4, velocity=v_t)
    v = {"block.x": 0.5 * np.cos(slope), "block.y": -0.5 * np.sin(slope), "block.phi": 0.0}
    run = mbs.simulate(mech, jnp.array([0.0, 2.0]), {"block": (0, 0, -slope)}, v, step=2e-4)
    u = brentq(lambda u: brown_mcphee(u, 0.3, 0.4) - np.tan(slope), 0, 1)
    np.testing.assert_allclose(run.joint("guide").slide_rate[-1], u * v_t, rtol=1e-8)


def test_the_curve_of_brown_and_mcphee():
    """μ(1) = μ_s but for 1 − tanh 4, and μ_d far beyond; the law itself at all speeds, with a given pressure."""
    mech = block(0.0, dynamic=0.3, static=0.5, velocity=0.1, preload=7.0, viscous=0.2)
    speed = np.array([-2.0, -0.1, 0.0, 0.03, 0.1, 0.5, 3.0])
    q = mech.coordinates({"block": (0, 0, 0)})
    force = jax.vmap(lambda v: mbs.generalized_force(mech, q, jnp.array([v, 0, 0]))[0])(speed)
    wanted = -np.sign(speed) * 7 * brown_mcphee(np.abs(speed) / 0.1, 0.3, 0.5) - 0.2 * speed
    np.testing.assert_allclose(force, wanted, atol=1e-14)
    assert abs(-float(force[4]) / 7 - 0.2 * 0.1 / 7 - 0.5) < 0.3 * (1 - np.tanh(4)) + 1e-12


def test_a_spring_loses_as_much_in_each_half_swing():
    """A block of m on a spring of k: each half swing loses 2 μ m g / k of amplitude, whatever it is."""
    k, mu = 50.0, 0.1
    forces = {
        "gravity": mbs.Gravity((0, -G)),
        "rub": mbs.JointFriction("guide", mu, velocity=1e-5),
        "spring": mbs.JointSpring("guide", stiffness=k),
    }
    guide = planar.Translational("ground", "block", (0, 0), (0, 0))
    mech = mbs.Mechanism({"block": planar.Body(mass=2.0)}, {"guide": guide}, forces=forces)
    half = np.pi * np.sqrt(2 / k)
    run = mbs.simulate(mech, half * jnp.arange(4), {"block": (1.0, 0, 0)}, step=half / 20000)
    lost = 2 * mu * 2 * G / k
    swings = (-1.0) ** np.arange(4) * (1 - lost * np.arange(4))
    np.testing.assert_allclose(run.position("block.x"), swings, atol=2e-6)


def test_pendulum_with_a_dry_pin():
    """By hand: N² = (m (g cos θ + l ω²))² + (m (g sin θ + l θ̈))², (I + m l²) θ̈ = −m g l sin θ − μ r N."""
    m, inertia, length, mu, r, v_t = 2.0, 0.1, 1.0, 0.3, 0.05, 1e-2

    def angular(theta, omega):
        friction = r * brown_mcphee(r * abs(omega) / v_t, mu, mu) * np.sign(omega)

        def gap(a):
            along, across = m * (G * np.cos(theta) + length * omega**2), m * (G * np.sin(theta) + length * a)
            left = (inertia + m * length**2) * a + m * G * length * np.sin(theta)
            return left + friction * np.hypot(along, across)

        return brentq(gap, -100, 100, xtol=1e-14)

    times = np.linspace(0, 2, 9)
    given = {"rtol": 1e-11, "atol": 1e-12, "t_eval": times}
    wanted = solve_ivp(lambda t, y: [y[1], angular(*y)], (0, 2), [1.2, 0.0], **given).y[0]
    mech = mbs.Mechanism(
        {"bob": planar.Body(mass=m, inertia=inertia)},
        {"pin": planar.Revolute("ground", "bob", (0, 0), (0, length))},
        forces={"gravity": mbs.Gravity((0, -G)), "rub": mbs.JointFriction("pin", mu, velocity=v_t, radius=r)},
    )
    start = {"bob": (np.sin(1.2), -np.cos(1.2), 1.2)}
    run = mbs.simulate(mech, jnp.asarray(times), start, step=5e-4, formulation=mbs.JointCoordinates())
    np.testing.assert_allclose(run.position("bob.phi"), wanted, atol=1e-8)


def ladder(mu):
    """A ladder of length 2 and mass 3 on a floor and a wall, at 0.5 from the vertical; its foot slides away."""
    place = (np.sin(0.5), np.cos(0.5), 0.5)
    slots = {
        "floor": planar.RevoluteTranslational("ground", "ladder", (0, 0), (0, -1), axis_i=(1, 0)),
        "wall": planar.RevoluteTranslational("ground", "ladder", (0, 0), (0, 1), axis_i=(0, 1)),
    }
    forces = {"gravity": mbs.Gravity((0, -G))}
    forces |= {
        name: mbs.JointFriction(slot, mu, velocity=1e-4, radius=0.0) for name, slot in zip("fw", slots, strict=True)
    }
    return mbs.Mechanism({"ladder": planar.Body(mass=3.0, inertia=1.0)}, slots, forces=forces), {"ladder": place}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("formulation", FORMULATIONS[:3], ids=lambda f: type(f).__name__)
def test_sliding_ladder(formulation):
    """Newton and Euler for a foot that slides away: with friction μ N at both ends three linear equations."""
    mu, theta, omega, m, inertia = 0.2, 0.5, 0.7, 3.0, 1.0
    s, c = np.sin(theta), np.cos(theta)
    # The centre is at (s, c), the foot at (2 s, 0), the top at (0, 2 c): ẍ = c α − s ω², ÿ = −s α − c ω². The floor pushes
    # up with N and holds the foot back with μ N, the wall pushes away with W and holds the top up with μ W.
    rows = [[m * c, mu, -1], [-m * s, -1, -mu], [inertia, -s + mu * c, c + mu * s]]
    right = [m * s * omega**2, -m * G + m * c * omega**2, 0]
    alpha, floor, wall = np.linalg.solve(rows, right)
    mech, start = ladder(mu)
    v = {"ladder.phi": omega, "ladder.x": omega * c, "ladder.y": -omega * s}
    run = mbs.simulate(mech, jnp.array([0.0]), start, v, formulation=formulation)
    np.testing.assert_allclose(run.acceleration("ladder.phi")[0], alpha, rtol=1e-9)
    loads = mbs.reactions(mech, run)
    np.testing.assert_allclose(np.linalg.norm(loads["floor"].force[0]), abs(floor), rtol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(loads["wall"].force[0]), abs(wall), rtol=1e-8)


@pytest.mark.variant
def test_painleve():
    """A rod whose tip slides on a rough line, ahead of its centre: p₀ N − μ |N| p₁ = q. Where p₀ < μ p₁ and q > 0 there is
    no solution."""
    length, m, tilt = 1.0, 1.0, 1.0
    slot = planar.RevoluteTranslational("ground", "rod", (0, 0), (-length, 0), axis_i=(1, 0))

    def rod(mu):
        forces = {"gravity": mbs.Gravity((0, -G)), "rub": mbs.JointFriction("slot", mu, velocity=1e-4, radius=0.0)}
        body = planar.Body(mass=m, inertia=m * length**2 / 3)
        return mbs.Mechanism({"rod": body}, {"slot": slot}, forces=forces)

    def run(mu, turned):
        start = {"rod": (length * np.cos(tilt), length * np.sin(tilt), tilt)}
        v = {"rod.x": turned, "rod.y": 0.0, "rod.phi": 0.0}
        return mbs.simulate(rod(mu), jnp.array([0.0, 0.01]), start, v, step=0.001)

    s, c = np.sin(tilt), np.cos(tilt)
    p_0, p_1 = 1 + 3 * c**2, 3 * s * c
    assert run(0.9 * p_0 / p_1, -1.0).status[0] == mbs.Status.CONVERGED
    jammed = run(1.5 * p_0 / p_1, -1.0)
    assert jammed.status[0] == mbs.Status.JAMMED
    assert "Painlevé" in str(jammed.of(rod(1.0)).explain_failure())
    # The other way all is well.
    assert run(1.5 * p_0 / p_1, 1.0).status[0] == mbs.Status.CONVERGED
    # In a batch the others are not touched, nor are their derivatives.
    q = lambda mu: jnp.sum(jax.vmap(lambda mu: run(mu, -1.0).position("rod.x")[-1])(mu))
    slopes = jax.grad(q)(jnp.array([0.5, 1.5 * p_0 / p_1]))
    np.testing.assert_allclose(slopes[0], jax.grad(q)(jnp.array([0.5]))[0], rtol=1e-12)
    assert np.all(np.isfinite(slopes))


def test_of_two_solutions_the_one_that_grows_out_of_no_friction():
    """A rod drawn behind a light foot: N = m g / (1 + 3 c² + 3 μ s c) for all μ, though another equation has a solution,
    too, where the guide pulls."""
    length, tilt = 1.0, 1.0
    s, c = np.sin(tilt), np.cos(tilt)
    bodies = {"foot": planar.Body(mass=1e-9, inertia=1e-9), "rod": planar.Body(mass=1.0, inertia=length**2 / 12)}
    joints = {
        "guide": planar.Translational("ground", "foot", (0, 0), (0, 0)),
        "pin": planar.Revolute("foot", "rod", (0, 0), (-length / 2, 0)),
    }
    start = {"foot": (0, 0, 0), "rod": (length / 2 * c, length / 2 * s, tilt)}
    for mu in (0.5, 1.5, 3.0):
        forces = {"gravity": mbs.Gravity((0, -G)), "rub": mbs.JointFriction("guide", mu, velocity=1e-4)}
        mech = mbs.Mechanism(bodies, joints, forces=forces)
        run = mbs.simulate(mech, jnp.array([0.0]), start, {"foot.x": 1.0, "rod.phi": 0.0})
        assert run.status[0] == mbs.Status.CONVERGED
        wanted = G / (1 + 3 * c**2 + 3 * mu * s * c)
        np.testing.assert_allclose(mbs.reactions(mech, run)["guide"].force[0, 1], wanted, rtol=1e-6)


def test_which_reactions_may_not_be_unique():
    """By loops: a spatial four-bar of hinges is redundant wherever it stands, a planar one is not, nor is an open chain."""
    hinge = lambda i, j: spatial.Revolute(i, j, axis_i=(0, 0, 1))
    bar = {"O": ("base", "a"), "A": ("a", "b"), "B": ("b", "c"), "C": ("base", "c")}
    bodies = {name: spatial.Body() for name in ("base", "a", "b", "c", "tail")}
    loop = {name: hinge(*ends) for name, ends in bar.items()}
    assert may_be_redundant(mbs.Mechanism(bodies, loop))
    assert may_be_redundant(mbs.Mechanism(bodies, {**loop, "on": spatial.Spherical("ground", "tail")}))
    assert not may_be_redundant(mbs.Mechanism(bodies, {name: loop[name] for name in "OAB"} | {"t": hinge("c", "tail")}))
    mixed = {
        "O": hinge("base", "a"),
        "A": spatial.Spherical("a", "b"),
        "B": spatial.Spherical("b", "c"),
        "C": loop["C"],
    }
    assert not may_be_redundant(mbs.Mechanism(bodies, mixed))
    assert not may_be_redundant(four_bar(NUMBERS))


def four_bar(numbers):
    """A four-bar with friction in all pins, of different kinds."""
    mu, static, viscous = numbers
    lengths = {"crank": 0.1, "coupler": 0.35, "rocker": 0.25}
    bodies = {name: planar.Body(mass=10 * x, inertia=10 * x**3 / 12) for name, x in lengths.items()}
    joints = {
        "O": planar.Revolute("ground", "crank", (0, 0), (-0.05, 0)),
        "A": planar.Revolute("coupler", "crank", (-0.175, 0), (0.05, 0)),
        "B": planar.Revolute("coupler", "rocker", (0.175, 0), (0.125, 0)),
        "C": planar.Revolute("rocker", "ground", (-0.125, 0), (0.4, 0)),
    }
    rub = lambda name: mbs.JointFriction(name, mu, static, velocity=2e-2, radius=0.01, viscous=viscous)
    forces = {"gravity": mbs.Gravity((0, -G)), **{f"rub {name}": rub(name) for name in joints}}
    return mbs.Mechanism(bodies, joints, forces=forces)


def four_bar_start(angle=0.7):
    a, b, c, g = 0.1, 0.35, 0.25, 0.4
    pin = a * np.exp(1j * angle)
    line = g - pin
    along = line / abs(line)
    coupler = along * np.exp(1j * np.arccos((b**2 + abs(line) ** 2 - c**2) / (2 * b * abs(line))))
    top = pin + b * coupler
    rocker = (top - g) / c
    middle = lambda z, e: (z.real, z.imag, np.angle(e))
    crank, rod = middle(pin / 2, pin), middle((pin + top) / 2, coupler)
    return {"crank": crank, "coupler": rod, "rocker": middle((top + g) / 2, rocker)}


NUMBERS = jnp.array([0.15, 0.2, 0.1])


@pytest.mark.variant
def test_formulations_agree_and_reactions_are_those_that_rub():
    mech, start, v = four_bar(NUMBERS), four_bar_start(), {"crank.phi": 20.0}
    formulations = [mbs.Augmented(), mbs.JointCoordinates(), mbs.Natural()]
    runs = [mbs.simulate(mech, jnp.array([0.0]), start, v, formulation=f) for f in formulations]
    for run in runs[1:]:
        np.testing.assert_allclose(run.a, runs[0].a, atol=1e-9 * np.abs(runs[0].a).max())
    loads, rub = mbs.reactions(mech, runs[0]), mbs.force_elements(mech, runs[0])
    for name in "OABC":
        pressure, element = np.linalg.norm(loads[name].force[0]), rub[f"rub {name}"]
        speed = 0.01 * element.rate[0]
        wanted = -0.01 * (np.sign(speed) * brown_mcphee(abs(speed) / 2e-2, 0.15, 0.2) * pressure + 0.1 * speed)
        np.testing.assert_allclose(element.torque[0], wanted, rtol=1e-9)
        assert element.power[0] < 0


@pytest.mark.slow
def test_gradient():
    """Against differences."""
    start, v = four_bar_start(), {"crank.phi": 20.0}
    at_end = lambda x: mbs.simulate(four_bar(x), jnp.array([0.0, 0.05]), start, v, step=1e-3).position("crank.phi")[-1]
    slopes, h = jax.grad(at_end)(NUMBERS), 1e-5
    differences = [(at_end(NUMBERS + d) - at_end(NUMBERS - d)) / (2 * h) for d in h * jnp.eye(3)]
    np.testing.assert_allclose(slopes, differences, atol=1e-7 * np.abs(slopes).max())


def test_energy():
    """The power of friction is the rate at which energy is lost, by its derivative along the motion."""
    mech = four_bar(NUMBERS)
    run = mbs.simulate(mech, jnp.array([0.0]), four_bar_start(), {"crank.phi": 20.0})
    lost = sum(x.power[0] for name, x in mbs.force_elements(mech, run).items() if name != "gravity")
    total = lambda q, v: mbs.energy(mech, q, v).total
    rate = jax.jvp(total, (run.q[0], run.v[0]), (mech.layout.rate(run.q[0], run.v[0]), run.a[0]))[1]
    np.testing.assert_allclose(rate, lost, rtol=1e-9)
    assert lost < -1


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("joint", "speeds"),
    [
        (spatial.Cylindrical, ((0, 0, 0.3), (0, 0, 2.0))),
        (spatial.Prismatic, ((0, 0, 0.3), (0, 0, 0.0))),
        (spatial.Spherical, ((0, 0, 0.0), (0.5, -1.0, 2.0))),
        (spatial.Revolute, ((0, 0, 0.0), (0, 0, 2.0))),
    ],
)
def test_joints_in_space(joint, speeds):
    """A body with its centre of mass at the joint, pressed by its weight: by hand, friction against the sliding velocity
    (ṡ, r ω), and all formulations agree."""
    mu, r, v_t, m = 0.3, 0.02, 1e-3, 2.0
    friction = mbs.JointFriction("joint", mu, velocity=v_t, radius=None if joint is spatial.Prismatic else r)
    mech = mbs.Mechanism(
        {"a": spatial.Body(mass=m, inertia=(0.4, 0.4, 0.4))},
        {"joint": joint("ground", "a")},
        forces={"gravity": mbs.Gravity((0, -G, 0)), "rub": friction},
    )
    v = jnp.array([*speeds[0], *speeds[1]])
    w = np.array([speeds[0][2], *(r * np.array(speeds[1]))])
    pressure = m * G
    load = -mu * np.tanh(4 * np.linalg.norm(w) / v_t) * pressure * w / np.linalg.norm(w)
    wanted = np.array([0, 0, load[0] / m, *(r * load[1:] / 0.4)])
    for formulation in FORMULATIONS[:2]:
        run = mbs.simulate(mech, jnp.array([0.0]), {"a": spatial.coordinates()}, v, formulation=formulation)
        np.testing.assert_allclose(run.a[0], wanted, atol=1e-8)
    if joint is spatial.Revolute:
        np.testing.assert_allclose(mbs.force_elements(mech, run)["rub"].torque[0], r * load[3], rtol=1e-9)


@pytest.mark.variant
def test_torque_on_a_long_guide():
    """A bracket: a force F at the distance e from the guide presses on both ends of its length ℓ with F e / ℓ."""
    e, length, m, mu, push = 0.5, 0.2, 2.0, 0.1, 7.0
    guide = planar.Translational("ground", "a", (0, 0), (0, 0), axis_i=(0, 1), axis_j=(0, 1))
    forces = {
        "push": mbs.PointForce("a", (e, 0), (0.0, -push)),
        "rub": mbs.JointFriction("guide", mu, velocity=1e-4, length=length),
    }
    mech = mbs.Mechanism({"a": planar.Body(mass=m, inertia=0.1)}, {"guide": guide}, forces=forces)
    for formulation in FORMULATIONS[:2]:
        v = {"a.y": -1.0, "a.x": 0.0, "a.phi": 0.0}
        run = mbs.simulate(mech, jnp.array([0.0]), {"a": (0, 0, 0)}, v, formulation=formulation)
        np.testing.assert_allclose(run.acceleration("a.y")[0], push * (2 * mu * e / length - 1) / m, rtol=1e-9)
    # In space the same, with the push along y and its lever along x.
    solid = mbs.Mechanism(
        {"a": spatial.Body(mass=m)},
        {"guide": spatial.Prismatic("ground", "a", axis_i=(0, 1, 0))},
        forces={"push": mbs.PointForce("a", (e, 0, 0), (0.0, -push, 0.0)), "rub": forces["rub"]},
    )
    run = mbs.simulate(solid, jnp.array([0.0]), {"a": spatial.coordinates()}, jnp.array([0, -1.0, 0, 0, 0, 0]))
    np.testing.assert_allclose(run.acceleration("a.y")[0], push * (2 * mu * e / length - 1) / m, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dynamic": -0.1}, "dynamic must not be negative"),
        ({"radius": -1.0}, "radius must not be negative"),
        ({"velocity": 0.0}, "velocity must be positive"),
        ({"velocity": None}, "velocity is missing"),
        ({"static": 0.1}, "static must not be below dynamic"),
        ({"radius": None}, "radius is missing"),
        ({"length": 0.1}, "has no axis"),
        ({"joint": "fixed"}, "lets nothing move"),
        ({"joint": "rod"}, "no angle or slide"),
        ({"joint": "pinn"}, "pinn"),
        ({"dynamic": np.nan}, "finite"),
    ],
)
def test_bad_input(options, message):
    given = {"joint": "pin", "dynamic": 0.2, "velocity": 1e-3, "radius": 0.1} | options
    joints = {
        "pin": spatial.Spherical("ground", "a"),
        "fixed": spatial.Rigid("a", "b"),
        "rod": spatial.Distance("ground", "b", (0, 0, 0), (1, 0, 0), distance=1.0),
    }
    bodies, forces = {"a": spatial.Body(), "b": spatial.Body()}, {"rub": mbs.JointFriction(**given)}
    with pytest.raises(ValueError, match=f"force 'rub' .JointFriction.*{message}"):
        mbs.Mechanism(bodies, joints, forces=forces)
