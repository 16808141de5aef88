"""Loads of gear teeth, worms and screws on their bearings, by the formulas of Shigley; teeth with backlash."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

X, Y, Z = np.eye(3)
# Load on driven bodies.
LOAD = 7.0
PRESSURE = np.radians(20.0)
HELIX = np.radians(25.0)


def load_of_teeth(mech, q, turned, torque):
    """Return the force (d,) and the torque of the teeth on b by virtual work, and the direction in which they push.

    `turned` is the velocity of b for which the power of the teeth is `torque`.
    """
    rows, mesh = np.asarray(mbs.constraint_jacobian(mech, q)), mech.constraints["mesh"]
    size = 6 if len(turned) == 6 else 3
    # The multipliers of the rows for extra coordinates: nothing acts along these.
    multipliers = np.ones(1)
    if len(rows) > 1:
        multipliers = np.append(-np.linalg.solve(rows[:2, 12:].T, rows[2, 12:]), 1.0)
    load = (multipliers @ rows)[size : 2 * size]
    load = torque / (load @ turned) * load
    pose = type(mech.bodies["a"]).pose
    k = 7 if size == 6 else 3
    extra = () if len(rows) == 1 else (0.0, 0.0)
    return load, mesh.push(pose(jnp.asarray(q[:k])), pose(jnp.asarray(q[k : 2 * k])), *extra)


def planar_pair(pressure_angle, distance, radii):
    """Return two planar gears and their configuration."""
    teeth = planar.Gear("a", "b", (0, 0), (0, 0), *radii, pressure_angle=pressure_angle)
    mech = mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, {"mesh": teeth})
    return mech, jnp.stack([0.0, 0.0, 0.3, distance * np.cos(0.4), distance * np.sin(0.4), 0.2])


@pytest.mark.parametrize("radii", [(0.3, 0.5), (0.3, -0.5), (-0.5, 0.3)])
def test_planar_gears_press_on_their_bearings(radii):
    """Tangential load T / r and radial load W_r = W_t tan α_w at the working pitch circles; the ratio is R_i / R_j."""
    along = np.array([np.cos(0.4), np.sin(0.4)])
    for sign, stretch in ((1, 1.0), (-1, 1.0), (1, 1.02), (-1, 1.02)):
        mech, q = planar_pair(sign * PRESSURE, stretch * abs(sum(radii)), radii)
        load, push = load_of_teeth(mech, q, Z, sign * np.sign(radii[1]) * LOAD)
        tangential, radial = load[:2] @ np.array([-along[1], along[0]]), load[:2] @ along
        working = np.arccos(np.cos(PRESSURE) / stretch)
        np.testing.assert_allclose(abs(tangential), LOAD / (abs(radii[1]) * stretch), rtol=1e-10)
        np.testing.assert_allclose(radial * np.sign(sum(radii)), abs(tangential) * np.tan(working), rtol=1e-10)
        ratio = mbs.constraint_jacobian(mech, q)[0, [2, 5]]
        np.testing.assert_allclose(ratio[0] / ratio[1], radii[0] / radii[1], rtol=1e-12)
        np.testing.assert_allclose(push, along * np.sign(sum(radii)), rtol=1e-12)


def test_derivatives_by_pressure_angle_and_distance():
    """Bearing load by differences of the closed form: F = T / (R cos α) at any distance of the centres, along the line of
    action at α_w."""

    def computed(b):
        row = mbs.constraint_jacobian(*planar_pair(b[0], b[1], (0.3, 0.5)))[0]
        return LOAD * row[3:5] / row[5]

    def formula(b):
        turned = 0.4 + np.arccos(0.8 * np.cos(b[0]) / b[1]) - np.pi / 2
        return LOAD / (0.5 * np.cos(b[0])) * np.array([np.cos(turned), np.sin(turned)])

    b, h = np.array([PRESSURE, 0.81]), 1e-6
    np.testing.assert_allclose(computed(jnp.asarray(b)), formula(b), rtol=1e-10)
    differences = np.stack([(formula(b + d) - formula(b - d)) / (2 * h) for d in h * np.eye(2)], axis=1)
    np.testing.assert_allclose(jax.jacfwd(computed)(jnp.asarray(b)), differences, rtol=1e-6)


def gears(centre_i, centre_j, axis_j, radii, pressure_angle, helix_angle):
    """Return two gears of space, the first about z, and their configuration."""
    teeth = {"pressure_angle": pressure_angle, "helix_angle": helix_angle}
    mesh = spatial.Gear("a", "b", np.zeros(3), np.zeros(3), Z, axis_j, *radii, **teeth)
    mech = mbs.Mechanism({"a": spatial.Body(), "b": spatial.Body()}, {"mesh": mesh})
    d = centre_j - centre_i
    angles = np.arctan2(d[1], d[0]), np.arctan2(-d[1], d @ np.cross(axis_j, Y)) if axis_j[0] else np.pi
    return mech, np.concatenate([spatial.coordinates(centre_i), spatial.coordinates(centre_j), angles])


def test_gears_of_space_press_on_their_bearings():
    """Helical gears: W_r = W_t tan φ_n / cos ψ, W_a = W_t tan ψ. Bevel gears: W_t tan φ cos γ and W_t tan φ sin γ."""
    for radii in ((0.3, 0.5), (0.3, -0.5)):
        for sign in (1, -1):
            side, torque = np.sign(sum(radii)), sign * np.sign(radii[1]) * LOAD
            mech, q = gears(np.zeros(3), abs(sum(radii)) * X, Z, radii, sign * PRESSURE, HELIX)
            load, push = load_of_teeth(mech, q, np.eye(6)[5], torque)
            tangential = LOAD / 0.5
            np.testing.assert_allclose(load[0], side * tangential * np.tan(PRESSURE) / np.cos(HELIX), rtol=1e-10)
            # The pitch point is at −R x from the centre.
            np.testing.assert_allclose(load[1], -torque / 0.5, rtol=1e-10)
            # A right-handed pinion that pushes a wheel along −y also pushes it along z.
            np.testing.assert_allclose(load[2], -side * load[1] * np.tan(HELIX), rtol=1e-10)
            np.testing.assert_allclose(push, side * X, rtol=1e-12)
    cone, tangential = np.arctan(0.3 / 0.5), LOAD / 0.5
    mech, q = gears(0.5 * Z, 0.3 * X, X, (0.3, 0.5), PRESSURE, 0.0)
    load, push = load_of_teeth(mech, q, np.eye(6)[3], LOAD)
    away = np.array([np.cos(cone), 0, -np.sin(cone)])
    np.testing.assert_allclose(load[:3], tangential * (np.tan(PRESSURE) * away - Y), rtol=1e-10, atol=1e-12)
    # The force acts at the pitch point.
    np.testing.assert_allclose(load[3:], np.cross(0.5 * Z, load[:3]), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(push, away, atol=1e-12)


@pytest.mark.parametrize("radius", [0.4, -0.4])
def test_racks_press_on_their_pinions(radius):
    """Apart with F_t tan φ, in space F_t tan φ_n / cos ψ, and along the axis F_t tan ψ."""
    side = np.sign(radius)
    teeth = planar.RackPinion("a", "b", (0, 0), (0, 0), (2.0, 0), radius, pressure_angle=PRESSURE)
    flat = mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, {"mesh": teeth})
    load, push = load_of_teeth(flat, jnp.array([0, 0, 0, 0.1, radius, 0.3]), Z, LOAD)
    drive = LOAD / radius
    np.testing.assert_allclose(load[:2], [drive, side * LOAD / 0.4 * np.tan(PRESSURE)], rtol=1e-10)
    np.testing.assert_allclose(push, side * Y[:2], atol=1e-12)
    mesh = spatial.RackPinion("a", "b", radius_j=radius, pressure_angle=PRESSURE, helix_angle=HELIX)
    space = mbs.Mechanism({"a": spatial.Body(), "b": spatial.Body()}, {"mesh": mesh})
    q = np.concatenate([spatial.coordinates(), spatial.coordinates((0.1, radius, 0))])
    load, push = load_of_teeth(space, q, np.eye(6)[5], LOAD)
    wanted = [drive, side * LOAD / 0.4 * np.tan(PRESSURE) / np.cos(HELIX), -LOAD / 0.4 * np.tan(HELIX)]
    np.testing.assert_allclose(load[:3], wanted, rtol=1e-10)
    np.testing.assert_allclose(push, side * Y, atol=1e-12)


def test_screw_jack_and_worm_gear():
    """W r tan(λ ± ρ) of both, tan ρ = μ / cos φ_n; the worm's thrust, its efficiency, and the load that it holds."""
    weight, jack, pitch = 1000.0, 0.02, 0.006
    worm, wheel, lead = 0.03, 0.12, 0.02
    distance = worm + wheel

    def run(rate, mu, side):
        """Return the reactions of screw and worm that turn at a rate; the load holds back a rim that is pushed along ±z."""
        turns = mbs.motion.Ramp(rate)
        teeth = {"radius_i": worm, "radius_j": wheel, "pitch": lead, "pressure_angle": side * PRESSURE}
        mech = mbs.Mechanism(
            {name: spatial.Body() for name in ("jack", "worm", "wheel")},
            {
                "thread": spatial.Screw("ground", "jack", axis_i=Z, pitch=pitch),
                "A": spatial.Revolute("ground", "worm", axis_i=Z),
                "B": spatial.Revolute("ground", "wheel", (distance, 0, 0), (0, 0, 0), Y),
                "mesh": spatial.WormGear("worm", "wheel", axis_i=Z, axis_j=Y, **teeth),
            },
            {name: spatial.RevoluteDriver("ground", name, axis_i=Z, motion=turns) for name in ("jack", "worm")},
            {
                "weight": mbs.PointForce("jack", (0, 0, 0), (0, 0, -weight)),
                "load": mbs.Torque("wheel", (0, -wheel * side * weight, 0)),
                "rub": mbs.JointFriction("thread", mu, velocity=1e-4, radius=jack),
                "rub of teeth": mbs.JointFriction("mesh", mu, velocity=1e-4),
            },
        )
        motion = mbs.kinematics(
            mech, np.linspace(0, 1, 2), {"wheel": spatial.coordinates((distance, 0, 0))}, throw=True
        )
        np.testing.assert_allclose(motion.velocity("wheel.wy") * wheel, -rate * lead / (2 * np.pi), rtol=1e-12)
        return mbs.reactions(mech, motion)

    angles = np.arctan(pitch / (2 * np.pi * jack)), np.arctan(lead / (2 * np.pi * worm))
    for rate, mu, side in ((2.0, 0.05, 1), (-2.0, 0.05, 1), (2.0, 0.05, -1), (-2.0, 0.05, -1), (2.0, 0.2, 1)):
        found, drives = run(rate, mu, side), -np.sign(rate) * side
        rho = np.arctan(mu), np.arctan(mu / np.cos(PRESSURE))
        lift = weight * jack * np.tan(angles[0] + np.sign(rate) * rho[0])
        np.testing.assert_allclose(found["jack"].effort, lift, rtol=1e-10)
        effort = -side * weight * worm * np.tan(angles[1] + drives * rho[1])
        np.testing.assert_allclose(found["worm"].effort, effort, rtol=1e-10)
        np.testing.assert_allclose(found["A"].force[:, 2], side * weight, rtol=1e-10)
        assert not np.any(found["mesh"].pulls)
        if drives > 0:
            power = weight * abs(rate) * lead / (2 * np.pi)
            efficiency = np.tan(angles[1]) / np.tan(angles[1] + rho[1])
            np.testing.assert_allclose(power / (found["worm"].effort * rate), efficiency, rtol=1e-10)
        else:
            # The load turns the worm and has to be held back, or the gear locks itself.
            assert np.all((found["worm"].effort * rate < 0) == (angles[1] > rho[1]))


def elastic(play, stiffness, variation=None):
    """Two gears with 30 and 50 teeth, a tooth of the first in a gap of the second."""
    teeth = {"radius_i": 0.3, "radius_j": 0.5, "teeth_i": 30, "pressure_angle": PRESSURE}
    mesh = mbs.GearMesh("a", "b", **teeth, backlash=play, stiffness=stiffness, variation=variation)
    return mbs.Mechanism(
        {"a": planar.Body(1.0, 0.1), "b": planar.Body(1.0, 0.3)},
        {
            "A": planar.Revolute("ground", "a", (0, 0), (0, 0)),
            "B": planar.Revolute("ground", "b", (0.8, 0), (0, 0)),
        },
        forces={"mesh": mesh},
    )


def test_elastic_teeth_with_backlash():
    """No force in the play; beyond it the transmission error T / (R² k cos² φ) on either flank; k of each phase; energy."""
    play, stiffness = 2e-3, 1e6
    mech = elastic(play, stiffness, lambda phase: 1 + 0.3 * jnp.cos(2 * jnp.pi * phase))
    force = jax.jit(lambda turned: mbs.generalized_force(mech, turned, jnp.zeros(6)))
    for teeth in (0.0, 1.0, 0.5, -3.25):
        phase = 2 * np.pi / 30 * teeth
        for torque in (LOAD, -LOAD):
            factor = 1 + 0.3 * np.cos(2 * np.pi * teeth)
            error = np.sign(torque) * play / 2 + torque / (0.5**2 * factor * stiffness * np.cos(PRESSURE) ** 2) * 0.5
            b = -phase * 0.3 / 0.5 - error / 0.5
            load = force(jnp.array([0, 0, phase, 0.8, 0, b]))
            np.testing.assert_allclose(load[5], torque, rtol=1e-9)
            np.testing.assert_allclose(load[2], torque * 0.3 / 0.5, rtol=1e-9)
            np.testing.assert_allclose(load[3], abs(load[4]) * np.tan(PRESSURE), rtol=1e-9)
            inside = force(jnp.array([0, 0, phase, 0.8, 0, b + 1.001 * (error / 0.5 - 0.999 * np.sign(torque) * play)]))
            np.testing.assert_array_equal(inside, 0)
    mech = elastic(play, stiffness)
    run = mbs.simulate(mech, np.linspace(0, 0.1, 101), {"b": (0.8, 0, 0)}, {"a.phi": 1.0}, step=2e-5, throw=True)
    element = mbs.force_elements(mech, run)["mesh"]
    a, b = run.velocity("a.phi"), run.velocity("b.phi")
    energy = 0.05 * a**2 + 0.15 * b**2 + element.potential
    np.testing.assert_allclose(energy, 0.05, rtol=2e-4)
    assert np.any(b < -0.1)  # there was a collision
    # Teeth of both gears get the same impulse along the pitch circles.
    np.testing.assert_allclose(0.1 * (a - 1.0) / 0.3, 0.3 * b / 0.5, rtol=1e-9, atol=1e-12)


def test_whole_number_of_teeth():
    """Known radii must make whole teeth; for traced ones neither energy nor force depends on turns of the second gear."""
    bodies = {"a": planar.Body(), "b": planar.Body()}
    teeth = {"teeth_i": 20, "pressure_angle": PRESSURE, "stiffness": 1e6}

    def build(radius_i, radius_j, **more):
        """Return two bodies with these teeth."""
        mesh = mbs.GearMesh("a", "b", radius_i=radius_i, radius_j=radius_j, **{**teeth, **more})
        return mbs.Mechanism(bodies, forces={"mesh": mesh})

    for radii, more, message in (
        ((0.3, 0.609), {}, "radius_j makes 40.6 teeth"),
        ((0.3, -0.3), {}, "must not be zero"),
        ((-0.3, -0.6), {}, "one of the radii"),
        ((0.3, 0.6), {"backlash": 0.1}, "less than the pitch of the teeth, 0.0942478"),
    ):
        with pytest.raises(ValueError, match=message):
            build(*radii, **more)

    @jax.jit
    def load_and_energy(radius_j, b):
        """Return forces and energy of gears with flanks in each other, the second one turned by b."""
        q = jnp.array([0, 0, 0.1, 0.9, 0, b])
        mech = build(0.3, radius_j)
        force = mbs.generalized_force(mech, q, jnp.zeros(6))
        return jnp.append(force, mbs.energy(mech, q, jnp.zeros(6)).potential)

    for radius in (0.6, 0.605):
        wanted = load_and_energy(radius, -0.049)
        assert np.abs(wanted).min() > 0.1
        for turns in (1, -3):
            np.testing.assert_allclose(load_and_energy(radius, -0.049 + 2 * np.pi * turns), wanted, rtol=1e-9)
        # Here the direction of the line of centres in the frame of the second gear jumps by a full turn.
        across = [load_and_energy(radius, b) for b in (-1e-13, 1e-13)]
        np.testing.assert_allclose(*across, rtol=1e-8)
    slope = jax.jit(jax.jacfwd(load_and_energy))(0.605, -0.049)
    ahead, behind = (load_and_energy(0.605 + h, -0.049) for h in (1e-7, -1e-7))
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-7, rtol=1e-6, atol=1e-3)


def test_bad_gears():
    """Involute teeth of radii that cancel each other, and worms without a radius, are refused."""
    worm = {"radius_j": 5.0, "pitch": 0.5}
    for gear, message in (
        (planar.Gear("a", "b", (0, 0), (0, 0), 1.0, -1.0, pressure_angle=PRESSURE), "radius_i [+] radius_j"),
        (spatial.Gear("a", "b", radius_i=1.0, radius_j=-1.0, pressure_angle=PRESSURE), "radius_i [+] radius_j"),
        (spatial.WormGear("a", "b", radius_i=-1.0, **worm), "radius_i must be positive"),
    ):
        body = planar.Body if gear.dimension == 2 else spatial.Body
        with pytest.raises(ValueError, match=message):
            mbs.Mechanism({"a": body(), "b": body()}, {"gear": gear})
    mech = mbs.Mechanism(
        {"a": spatial.Body(), "b": spatial.Body()}, {"gear": spatial.WormGear("a", "b", radius_i=1.0, **worm)}
    )
    with pytest.raises(ValueError, match=r"'gear'.*parallel"):
        mbs.with_marks(mech, {"b": spatial.coordinates((6, 0, 0))})


def test_elastic_teeth_of_space():
    """The forces of helical teeth, at a distance that is not the nominal one, are the derivatives of their energy."""
    axis, turned = np.array([0.2, 0.3, 0.8]), (0.3, -0.5, 0.7)
    points = np.array([0.1, 0.2, 0.3]), np.array([0.3, -0.1, 0.2])
    first = spatial.coordinates((0.4, 0.5, 0.6), rotated=turned)
    pose = spatial.Body.pose(jnp.asarray(first))
    unit = axis / np.linalg.norm(axis)
    across = np.cross(unit, X) / np.linalg.norm(np.cross(unit, X))
    moves = np.zeros((12, 8))
    moves[:3, :3] = moves[6:9, 3:6] = np.eye(3)
    moves[3:6, 6] = moves[9:, 7] = unit

    def mesh_and_place(radii):
        """Return gears and their configuration: the bodies are parallel, the gears a little apart along the axis."""
        centre = pose.point(points[0] + 1.01 * abs(sum(radii)) * across + 0.2 * unit)
        q = jnp.concatenate([first, spatial.coordinates(centre - pose.direction(points[1]), rotated=turned)])
        teeth = {"radius_i": radii[0], "radius_j": radii[1], "teeth_i": 20, "angle_i": 0.23, "axis_i": axis}
        law = {"pressure_angle": PRESSURE, "helix_angle": HELIX, "stiffness": 1e4, "exponent": 1.5}
        mesh = mbs.GearMesh("a", "b", *points, **teeth, **law)
        return mbs.Mechanism({"a": spatial.Body(), "b": spatial.Body()}, forces={"mesh": mesh}), q

    @jax.jit
    def energies(mech, q, changes):
        """Return the potential energy at displaced configurations."""
        at = lambda change: mbs.energy(mech, mech.layout.retract(q, change), jnp.zeros(12)).potential
        return jax.vmap(at)(changes)

    h = 1e-6
    for radii in ((1.0, 2.0), (1.0, -2.0)):
        mech, q = mesh_and_place(radii)
        loads = moves.T @ mbs.generalized_force(mech, q, jnp.zeros(12))
        assert np.abs(loads).min() > 1
        slopes = (energies(mech, q, h * moves.T) - energies(mech, q, -h * moves.T)) / (2 * h)
        np.testing.assert_allclose(loads, -slopes, rtol=1e-6)
