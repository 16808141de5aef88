"""Natural frequencies, damping and shapes against closed forms, and against energies of assembled configurations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from designed_four_bar import GUESS, LENGTHS, PLAIN, four_bar
from jaxmbs import planar, spatial

G = 9.81
FORMULATIONS = [mbs.JointCoordinates(), mbs.Augmented(), mbs.Kane(), mbs.Natural()]


def weight():
    return {"gravity": mbs.Gravity((0.0, -G))}


def pendulums(length, count=2):
    """Point masses on massless rods, one below the other."""
    names = [f"p{k}" for k in range(count)]
    pins = {
        name: planar.Revolute(above, name, (0, 0), (0, length))
        for above, name in zip(["ground", *names], names, strict=False)
    }
    mech = mbs.Mechanism({name: planar.Body(mass=1.0, inertia=0) for name in names}, pins, forces=weight())
    return mech, {name: (0, -(k + 1) * length, 0) for k, name in enumerate(names)}


def carts(stiffness, dampings=None, mass=1.0, **more):
    """Equal carts on a line, joined by springs to their neighbours, the first and last one to the ground; and their q."""
    count = len(stiffness) - 1
    names = [f"c{k}" for k in range(count)]
    ends = [("ground", (-1, 0)), *((name, (0, 0)) for name in names), ("ground", (count, 0))]
    forces = {
        f"s{k}": mbs.SpringDamper(
            ends[k][0], ends[k + 1][0], ends[k][1], ends[k + 1][1], stiffness=c, free_length=1.0, damping=d
        )
        for k, (c, d) in enumerate(zip(stiffness, dampings or [0.0] * len(stiffness), strict=True))
    }
    guides = {f"g{name}": planar.Translational("ground", name, (0, 0), (0, 0)) for name in names}
    bodies = {name: planar.Body(mass=mass, inertia=1.0) for name in names}
    return mbs.Mechanism(bodies, guides, forces={**forces, **more}), {f"c{k}": (k, 0, 0) for k in range(count)}


@pytest.mark.parametrize("formulation", FORMULATIONS, ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("damped", [True, False])
def test_double_pendulum(formulation, damped):
    """ω² = (2 ± √2) g/l; the lower mass moves by √2 of the upper one, and √2 against it."""
    length = 0.7
    mech, below = pendulums(length)
    modes = mbs.modes(mech, below, damped=damped, formulation=formulation)
    squares = (2 + np.array([-1, 1]) * np.sqrt(2)) * G / length
    np.testing.assert_allclose((2 * np.pi * modes.frequencies) ** 2, squares, rtol=1e-12)
    np.testing.assert_allclose(modes.damping, 0, atol=1e-12)
    first, second = (modes.shapes[:, mech.layout.velocity_index(f"p{k}.x")] for k in range(2))
    np.testing.assert_allclose(second / first, 1 + np.array([1, -1]) * np.sqrt(2), rtol=1e-9)
    np.testing.assert_allclose(np.abs(first) ** 2 + np.abs(second) ** 2, 1, rtol=1e-12)


def test_derivatives_of_frequencies_of_a_batch():
    """ω² l is constant: dω/dl = −ω/2l. A length that is NaN spoils nothing else."""

    def values(length):
        modes = mbs.modes(*pendulums(length), damped=False)
        return modes.frequencies, modes.status

    lengths = jnp.array([0.5, 2.0, jnp.nan])
    found, status = jax.vmap(values)(lengths)
    slopes, _ = jax.vmap(jax.jacrev(values, has_aux=True))(lengths)
    np.testing.assert_allclose(slopes[:2], -found[:2] / (2 * lengths[:2, None]), rtol=1e-12)
    assert np.all(np.isnan(found[2]))
    assert not np.any(slopes[2])
    assert status.tolist() == [mbs.Status.CONVERGED, mbs.Status.CONVERGED, mbs.Status.NON_FINITE]


def test_damping_below_and_above_the_critical_one():
    """λ² + 2 ζ ω₀ λ + ω₀² = 0, and dω₀/dk = ω₀/2k."""
    mass, stiffness = 2.0, 18.0
    natural = np.sqrt(stiffness / mass)

    def modes(zeta, stiffness=stiffness):
        return mbs.modes(*carts([stiffness, 0.0], [2 * zeta * np.sqrt(18.0 * mass), 0.0], mass))

    light, heavy = modes(0.1), modes(2.5)
    np.testing.assert_allclose(light.damping, 0.1, rtol=1e-12)
    np.testing.assert_allclose(2 * np.pi * light.frequencies, natural, rtol=1e-12)
    np.testing.assert_allclose(light.eigenvalues.imag, natural * np.sqrt(0.99) * np.array([1, -1]), rtol=1e-12)
    np.testing.assert_allclose(heavy.eigenvalues, natural * (-2.5 + np.array([1, -1]) * np.sqrt(5.25)), rtol=1e-12)
    assert heavy.damping == 1.0
    slope = jax.grad(lambda k: modes(0.1, k).frequencies[0])(stiffness)
    np.testing.assert_allclose(slope, natural / (4 * np.pi * stiffness), rtol=1e-12)


def test_damped_carts_are_those_of_numpy():
    """The eigenvalues of [[0, 1], [−K, −C]] for matrices written down; derivatives of simple ones by differences."""
    stiffness, dampings = np.array([3.0, 5.0, 2.0, 4.0]), np.array([0.3, 0.1, 0.7, 0.0])
    chain = lambda k: np.diag(k[:-1] + k[1:]) - np.diag(k[1:-1], 1) - np.diag(k[1:-1], -1)

    def expected(stiffness):
        state = np.block([[np.zeros((3, 3)), np.eye(3)], [-chain(stiffness), -chain(dampings)]])
        values = np.linalg.eigvals(state)
        return np.array(sorted(values[values.imag > 0], key=abs))

    values = lambda k: mbs.modes(*carts(list(k), list(dampings))).eigenvalues[:3]
    np.testing.assert_allclose(values(stiffness), expected(stiffness), rtol=1e-12)
    h, step = 1e-5, np.eye(4)[1]
    differences = (expected(stiffness + h * step) - expected(stiffness - h * step)) / (2 * h)
    found = jax.jvp(values, (jnp.asarray(stiffness),), (jnp.asarray(step),))[1]
    np.testing.assert_allclose(found, differences, atol=1e-9)


@pytest.mark.parametrize("damped", [True, False])
def test_equal_eigenvalues_do_not_spoil_the_derivatives_of_others(damped):
    """Three carts that springs of k₀ = 4, 0, 0, 9 hold: the first two are equal if the middle one has its own spring."""

    def frequencies(k):
        middle = mbs.Spring("ground", "c1", (0, 0), (0, 0), stiffness=4.0, free_length=1.0)
        return mbs.modes(*carts([4.0, 0.0, 0.0, k], middle=middle), damped=damped).frequencies

    np.testing.assert_allclose(2 * np.pi * frequencies(9.0), [2, 2, 3], rtol=1e-12)
    np.testing.assert_allclose(2 * np.pi * jax.jacrev(frequencies)(9.0), [0, 0, 1 / 6], atol=1e-12)


@pytest.mark.parametrize("damped", [True, False])
def test_a_motion_that_nothing_holds(damped):
    """Three carts in a row: zero, k/m and 3k/m."""
    modes = mbs.modes(*carts([0.0, 4.0, 4.0, 0.0]), damped=damped)
    np.testing.assert_allclose((2 * np.pi * modes.frequencies) ** 2, [0, 4, 12], atol=1e-12)


def test_car_axis():
    """A beam on two springs and dampers: M ẍ + C ẋ + K x = 0 for its height and its pitch."""
    mass, inertia, front, rear = 600.0, 900.0, 1.2, 1.6
    arms, stiffness, damping = np.array([front, -rear]), np.array([2e4, 2.5e4]), np.array([900.0, 1400.0])
    forces = {
        f"s{k}": mbs.SpringDamper(
            "ground", "car", (x, -0.5), (x, 0), stiffness=stiffness[k], free_length=0.5, damping=damping[k]
        )
        for k, x in enumerate(arms)
    }
    car = mbs.Mechanism(
        {"car": planar.Body(mass=mass, inertia=inertia)}, {"x": planar.AbsoluteX("car", (0, 0))}, forces=forces
    )
    by_end = np.stack([np.ones(2), arms])
    inverse = np.diag([1 / mass, 1 / inertia])
    k, c = (inverse @ (by_end * x) @ by_end.T for x in (stiffness, damping))
    expected = np.linalg.eigvals(np.block([[np.zeros((2, 2)), np.eye(2)], [-k, -c]]))
    found = mbs.modes(car)
    np.testing.assert_allclose(np.sort_complex(found.eigenvalues), np.sort_complex(expected), rtol=1e-11)
    undamped = mbs.modes(car, damped=False)
    np.testing.assert_allclose((2 * np.pi * undamped.frequencies) ** 2, np.sort(np.linalg.eigvals(k)), rtol=1e-12)


def held_four_bar(length=LENGTHS["crank"], angle=0.7):
    """The four-bar with springs and a damper, held at an angle of the crank by a constant torque; V(φ) of its forces."""
    lengths = {**LENGTHS, "crank": length}
    springs = {
        "spring": mbs.Spring("ground", "coupler", (0.1, 0.4), (0.2, 0.05), stiffness=60.0, free_length=0.1),
        "damper": mbs.TorsionDamper("crank", "coupler", 0.03),
        "hinge": mbs.JointSpring("O", 5.0),
        **weight(),
    }
    mech = four_bar({**PLAIN, "length": lengths}, springs, drivers={})
    at = lambda phi: mbs.assemble(mech, {**GUESS, "crank": (0, 0, phi)}, hold=("crank.phi",)).q
    energy = lambda phi: mbs.energy(mech, at(phi), jnp.zeros(9)).potential
    torque = mbs.Torque("crank", jax.grad(energy)(angle))
    return mbs.Mechanism(mech.bodies, mech.constraints, forces={**mech.forces, "torque": torque}), at(angle), energy


@pytest.mark.variant
def test_four_bar_against_its_potential_energy():
    """ω² = V″ / M: V″ by differences of assembled configurations, M from the velocities for a unit rate of the crank."""
    angle, h = 0.7, 0.01
    mech, q, energy = held_four_bar(angle=angle)
    values = np.array([energy(angle + k * h) for k in range(-3, 4)])
    curvature = np.array([1 / 90, -3 / 20, 3 / 2, -49 / 18, 3 / 2, -3 / 20, 1 / 90]) @ values / h**2
    phi_q = np.asarray(mbs.constraint_jacobian(mech, q))
    v = np.linalg.svd(phi_q)[2][-1]
    v = v / v[2]
    mass = 2 * mbs.energy(mech, q, v).kinetic
    rate = v[5] - v[2]
    expected = np.roots([mass, 0.03 * rate**2, curvature])
    undamped = mbs.modes(mech, q, damped=False)
    np.testing.assert_allclose((2 * np.pi * undamped.frequencies) ** 2, curvature / mass, rtol=1e-8)
    np.testing.assert_allclose(np.sqrt(mass) * np.abs(undamped.shapes[0]), np.abs(v), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(undamped.accelerations, 0, atol=1e-9)
    eigenvalues = {formulation: mbs.modes(mech, q, formulation=formulation).eigenvalues for formulation in FORMULATIONS}
    np.testing.assert_allclose(eigenvalues[FORMULATIONS[0]], sorted(expected, key=lambda x: -x.imag), rtol=1e-8)
    for other in FORMULATIONS[1:]:
        np.testing.assert_allclose(eigenvalues[other], eigenvalues[FORMULATIONS[0]], rtol=1e-9)


@pytest.mark.variant
def test_derivative_by_a_length_with_the_equilibrium():
    """The configuration and the torque that holds it change with the crank: differences of whole computations."""

    def frequency(length):
        mech, q, _ = held_four_bar(length)
        return mbs.modes(mech, q, damped=False).frequencies[0]

    length, h = LENGTHS["crank"], 2e-5
    differences = (frequency(length + h) - frequency(length - h)) / (2 * h)
    np.testing.assert_allclose(jax.grad(frequency)(length), differences, rtol=1e-6)


@pytest.mark.variant
def test_hooke_joint():
    """Shafts at an angle β: the driven one turns with i(φ) = cos β / (1 − sin²β cos²φ); its inertia counts as i²."""
    beta, phi, inertias, stiffness = 0.5, 0.4, (0.3, 0.7), 12.0
    axis = (np.sin(beta), 0.0, np.cos(beta))
    body = lambda x: spatial.Body(mass=1.0, inertia=(1.0, 1.0, x))
    mech = mbs.Mechanism(
        {"a": body(inertias[0]), "b": body(inertias[1])},
        {
            "first": spatial.Revolute("ground", "a", (0, 0, 0), (0, 0, 0), (0, 0, 1), (0, 0, 1)),
            "cross": spatial.Universal("a", "b", (0, 0, 0), (0, 0, 0), (1, 0, 0), (0, 1, 0)),
            "second": spatial.Cylindrical("ground", "b", (0, 0, 0), (0, 0, 0), axis, (0, 0, 1)),
        },
        forces={"spring": mbs.JointSpring("first", stiffness, free=phi)},
    )
    # The arm of the first shaft is in the plane of both shafts at the angle 0.
    guess = {"a": spatial.coordinates(rotated=(0, 0, phi)), "b": spatial.coordinates(rotated=(0, beta, phi))}
    q = mbs.assemble(mech, guess).q
    angle = 2 * np.arctan2(q[6], q[3])
    spring = mbs.JointSpring("first", stiffness, free=angle)
    mech = mbs.Mechanism(mech.bodies, mech.constraints, forces={"spring": spring})
    ratio = np.cos(beta) / (1 - np.sin(beta) ** 2 * np.cos(angle) ** 2)
    expected = np.sqrt(stiffness / (inertias[0] + ratio**2 * inertias[1]))
    for formulation in (mbs.JointCoordinates(), mbs.Augmented()):
        modes = mbs.modes(mech, q, damped=False, formulation=formulation)
        np.testing.assert_allclose(2 * np.pi * modes.frequencies, expected, rtol=1e-10)


def test_whirl_of_a_spinning_disk():
    """Forward and backward whirl ω = √(k/J_t + g²) ± g with g = J_p Ω / 2 J_t: a Campbell diagram, and its slope."""
    stiffness, across, polar = 40.0, 0.5, 0.8

    def frequencies(speed):
        mech = mbs.Mechanism(
            {"frame": spatial.Body(mass=0.0, inertia=0.0), "disk": spatial.Body(3.0, (across, across, polar))},
            {
                "cross": spatial.Universal("ground", "frame", (0, 0, 0), (0, 0, 0), (1, 0, 0), (0, 1, 0)),
                "bearing": spatial.Revolute("frame", "disk", (0, 0, 0), (0, 0, 0), (0, 0, 1), (0, 0, 1)),
            },
            {"spin": spatial.RevoluteDriver("frame", "disk", mbs.motion.Ramp(speed), (0, 0, 1), (0, 0, 1))},
            {f"s{x}": mbs.JointSpring("cross", stiffness, coordinate=x) for x in ("alpha", "beta")},
        )
        spin = jnp.zeros(12).at[11].set(speed)
        return 2 * np.pi * mbs.modes(mech, v=spin, count=2).frequencies

    speeds = jnp.array([0.0, 3.0, 30.0])
    found, slopes = jax.vmap(frequencies)(speeds), jax.vmap(jax.jacfwd(frequencies))(speeds[1:])
    g, signs = np.asarray(speeds)[:, None] * polar / (2 * across), np.array([-1, 1])
    root = np.sqrt(stiffness / across + g**2)
    np.testing.assert_allclose(found, root + signs * g, rtol=1e-10)
    np.testing.assert_allclose(slopes, (g / root + signs)[1:] * polar / (2 * across), rtol=1e-9)


def test_flutter_of_a_column_with_a_follower_force():
    """Ziegler's column: links l with masses 2m and m at their ends, springs c: flutter at P l/c = 7/2 − √2.

    M = [[3, 1], [1, 1]] m l² and K = [[2c − P l, P l − c], [−c, c]].
    """
    mass, length, stiffness = 0.5, 0.8, 3.0
    bodies = {"low": planar.Body(2 * mass, 0.0, com=(length, 0)), "high": planar.Body(mass, 0.0, com=(length, 0))}
    pins = {
        "foot": planar.Revolute("ground", "low", (0, 0), (0, 0)),
        "knee": planar.Revolute("low", "high", (length, 0), (0, 0)),
    }

    def modes(load):
        forces = {
            "push": mbs.PointForce("high", (length, 0), (-load, 0.0), follower=True),
            "foot_spring": mbs.JointSpring("foot", stiffness),
            "knee_spring": mbs.JointSpring("knee", stiffness),
        }
        return mbs.modes(mbs.Mechanism(bodies, pins, forces=forces), {"high": (length, 0, 0)}, count=2)

    flutter = (7 / 2 - np.sqrt(2)) * stiffness / length
    loads = flutter * jnp.array([0.5, 0.999, 1.001])
    found = jax.vmap(modes)(loads)
    assert np.max(found.eigenvalues.real[:2]) < 1e-7
    assert np.max(found.eigenvalues.real[2]) > 0.01
    for load, values in zip(np.asarray(loads), found.eigenvalues, strict=True):
        matrix = mass * length**2 * np.array([[3, 1], [1, 1]])
        force = load * length
        k = np.array([[2 * stiffness - force, force - stiffness], [-stiffness, stiffness]])
        squares = np.linalg.eigvals(np.linalg.solve(matrix, -k)).astype(complex)
        np.testing.assert_allclose(np.sort_complex(values[:2] ** 2), np.sort_complex(squares), rtol=1e-9, atol=1e-9)


def test_wrong_counts_and_batches_with_open_loops():
    """Known numbers are counted, traced ones are checked: a wrong number is SINGULAR, an open loop NOT_ASSEMBLED."""
    mech, q, _ = held_four_bar()
    assert mbs.modes(*pendulums(1.0), count=1, damped=False).status == mbs.Status.SINGULAR
    opened = jax.vmap(lambda q: mbs.modes(mech, q, damped=False))(jnp.stack([q, q.at[3].add(0.1)]))
    assert opened.status.tolist() == [mbs.Status.CONVERGED, mbs.Status.NOT_ASSEMBLED]
    assert np.isfinite(opened.frequencies).tolist() == [[True], [False]]
    driven = four_bar(PLAIN)
    with pytest.raises(ValueError, match="no degree of freedom"):
        mbs.modes(driven, GUESS)
    with pytest.raises(ValueError, match="damped=False"):
        mbs.modes(mech, q, v=jnp.zeros(9), damped=False)


def test_film_of_a_mode(tmp_path):
    mech, below = pendulums(1.0)
    modes = mbs.modes(mech, below, damped=False)
    assert modes.animate(1, tmp_path / "mode.html", frames=6).stat().st_size > 1000
    assert repr(modes) == "Modes(2 modes; status: CONVERGED)"


def uncoupled(stiffnesses, dampings):
    """Return carts that springs and dampers hold to the ground, each for itself, and their configuration."""
    names = [f"c{k}" for k in range(len(stiffnesses))]
    guides = {f"g{name}": planar.Translational("ground", name, (0, 0), (0, 0)) for name in names}
    forces = {
        name: mbs.JointSpring(f"g{name}", stiffness=k, damping=c)
        for name, k, c in zip(names, stiffnesses, dampings, strict=True)
    }
    return mbs.Mechanism({name: planar.Body(1.0, 1.0) for name in names}, guides, forces=forces), {}


def test_modes_of_real_eigenvalues():
    """Upside down each mode of a double pendulum grows or decays; a cart that only decays does not hide an oscillation."""
    mech, _ = pendulums(1.0)
    modes = mbs.modes(mech, {name: (0, k, np.pi) for k, name in enumerate(mech.bodies, 1)})
    rates = np.sqrt(9.81 * (2 + np.array([-1, 1]) * 2**0.5))
    np.testing.assert_allclose(modes.eigenvalues.real, [*rates, -rates[0], -rates[1]], rtol=1e-9)
    np.testing.assert_allclose(modes.damping, [-1, -1], rtol=1e-12)
    modes = mbs.modes(*uncoupled([2.0, 100.0], [3.0, 0.0]))
    np.testing.assert_allclose(modes.eigenvalues[:2], [-1, 10j], atol=1e-12)


def test_slow_modes_beside_fast_ones_in_single_precision():
    """Frequencies of 1, 2 and 100 rad per unit of time."""
    mech = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), uncoupled([1.0, 4.0, 1e4], [0.0, 0.0, 0.0])[0])
    for damped in (True, False):
        modes = mbs.modes(mech, {}, damped=damped)
        assert modes.frequencies.dtype == np.float32
        np.testing.assert_allclose(2 * np.pi * modes.frequencies, [1, 2, 100], rtol=2e-3)


def test_slow_decay_beside_a_fast_one_in_single_precision():
    """λ² + 2·10⁴ λ + 1 = 0: the slow root is −5e-5."""
    mech = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), uncoupled([1.0], [2e4])[0])
    np.testing.assert_allclose(mbs.modes(mech, {}).eigenvalues, [-5e-5, -2e4], rtol=1e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("formulation", [mbs.JointCoordinates(), mbs.Augmented()], ids=lambda f: type(f).__name__)
def test_loop_of_hinges_in_a_tilted_plane(formulation):
    """Constraints that are redundant only to rounding do not count: the loop has the frequency of the planar one."""
    normal = np.array([0.3, 0.5, 0.81]) / np.linalg.norm([0.3, 0.5, 0.81])
    first = np.cross(normal, (0, 0, 1)) / np.linalg.norm(np.cross(normal, (0, 0, 1)))
    frame = np.column_stack([first, np.cross(normal, first), normal])
    lengths, feet = {"crank": 1.0, "coupler": 2.5, "rocker": 2.0}, 3.0
    at = np.array([np.cos(0.9), np.sin(0.9)])
    way = np.array([feet, 0]) - at
    far = np.hypot(*way)
    turn = np.arctan2(way[1], way[0]) + np.arccos((2.5**2 + far**2 - 4.0) / (5 * far))
    end = at + 2.5 * np.array([np.cos(turn), np.sin(turn)])
    poses = {
        "crank": (0, 0, 0.9), "coupler": (*at, turn), "rocker": (feet, 0, np.arctan2(end[1], end[0] - feet))
    }  # fmt: skip
    flat = mbs.Mechanism(
        {name: planar.Body(1.0, 0.3, (x / 2, 0)) for name, x in lengths.items()},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (1.0, 0), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", (2.5, 0), (2.0, 0)),
            "C": planar.Revolute("ground", "rocker", (feet, 0), (0, 0)),
        },
        forces={"spring": mbs.Spring("ground", "crank", (0.5, -2.0), (0.7, 0), 5.0, 0.0)},
    )
    hinge = lambda i, j, at, there, axis: spatial.Revolute(i, j, at, there, axis_i=axis)
    z = (0, 0, 1)
    tilted = mbs.Mechanism(
        {name: spatial.Body(1.0, (0.1, 0.2, 0.3), (x / 2, 0, 0)) for name, x in lengths.items()},
        {
            "O": spatial.Revolute("ground", "crank", (0, 0, 0), (0, 0, 0), axis_i=normal, axis_j=z),
            "A": hinge("crank", "coupler", (1.0, 0, 0), (0, 0, 0), z),
            "B": hinge("coupler", "rocker", (2.5, 0, 0), (2.0, 0, 0), z),
            "C": spatial.Revolute("ground", "rocker", feet * frame[:, 0], (0, 0, 0), axis_i=normal, axis_j=z),
        },
        forces={"spring": mbs.Spring("ground", "crank", frame @ [0.5, -2.0, 0], (0.7, 0, 0), 5.0, 0.0)},
    )
    guess = {}
    for name, (x, y, phi) in poses.items():
        c, s = np.cos(phi), np.sin(phi)
        rotation = frame @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        guess[name] = np.concatenate([frame @ [x, y, 0], np.asarray(mbs.rotation.from_matrix(rotation))])
    rest = mbs.equilibrium(flat, poses)
    tilted_rest = mbs.equilibrium(tilted, guess)
    assert (rest.status, tilted_rest.status) == (0, 0)
    expected, modes = mbs.modes(flat, rest.q), mbs.modes(tilted, tilted_rest.q, formulation=formulation)
    assert modes.status == 0
    np.testing.assert_allclose(modes.frequencies, expected.frequencies, rtol=1e-7)


def test_redundant_constraints_that_nearly_agree():
    """Three parallel cranks, one pin off by 5e-9, have one mode like exact ones."""

    def frequency(misfit):
        links = {name: planar.Body() for name in ("a", "b", "c", "bar")}
        joints = {f"foot {n}": planar.Revolute("ground", n, (k, 0), (0, 0)) for k, n in enumerate("abc")}
        joints |= {
            f"head {n}": planar.Revolute(n, "bar", (1, 0), (k + misfit * (k == 2), 0)) for k, n in enumerate("abc")
        }
        mech = mbs.Mechanism(links, joints, forces={"spring": mbs.JointSpring("foot a", stiffness=3.0, free=0.4)})
        start = {n: (k, 0, 0.4) for k, n in enumerate("abc")} | {"bar": (np.cos(0.4), np.sin(0.4), 0)}
        modes = mbs.modes(mech, start)
        assert (modes.status, modes.frequencies.shape) == (0, (1,))
        return modes.frequencies[0]

    np.testing.assert_allclose(frequency(5e-9), frequency(0.0), rtol=1e-6)


def test_masses_that_do_not_determine_the_motion():
    """A slender rod may spin between its ball joints without inertia; a bob without mass has no frequency."""
    light = mbs.Mechanism(
        {"bob": planar.Body(mass=0, inertia=0)},
        {"pin": planar.Revolute("ground", "bob", (0, 0), (0, 1))},
        forces={"spring": mbs.JointSpring("pin", stiffness=2.0)},
    )
    below = {"bob": (0, -1, 0)}
    assert mbs.modes(light, below).status == mbs.Status.SINGULAR
    with pytest.raises(ValueError, match="masses do not determine"):
        mbs.linearise(light, below, coordinates=("pin.phi",))


def test_motions_of_forces_are_held():
    """A servo with a moving target is at rest where it stands at t; modes and equilibrium agree."""
    servo = mbs.Servo("pin", mbs.motion.Ramp(2.0), 30.0, 3.0)
    arm = mbs.Mechanism(
        {"bob": planar.Body(2.0, 0.1)},
        {"pin": planar.Revolute("ground", "bob", (0, 0), (0, 1))},
        forces={"servo": servo, "gravity": mbs.Gravity((0, -9.81))},
    )
    rest = mbs.equilibrium(arm, {"bob": (0, -1, 0)}, t=0.1)
    np.testing.assert_allclose(mbs.modes(arm, rest.q, 0.1).accelerations, 0, atol=1e-9)
    np.testing.assert_allclose(mbs.linearise(arm, rest.q, t=0.1).rate, 0, atol=1e-9)


def test_refused_arguments():
    """Undamped modes of a motion, and films of modes that do not exist."""
    mech, below = pendulums(1.0)
    run = mbs.simulate(mech, jnp.array([0.0, 0.1]), below, step=0.01)
    with pytest.raises(ValueError, match="needs a mechanism at rest"):
        mbs.modes(mech, jax.tree.map(lambda x: x[1], run), damped=False)
    with pytest.raises(ValueError, match="2 modes, numbered from 0; got 7"):
        mbs.modes(mech, below).animate(7)
