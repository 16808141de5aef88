"""Equilibrium against closed forms, published numbers, and the balance of forces."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

G = 9.81


def pendulum(mass=2.0):
    """Return a point mass at the distance 1 below a pin."""
    pin = {"pin": planar.Revolute("ground", "bob", (0, 0), (0, 1))}
    return mbs.Mechanism({"bob": planar.Body(mass=mass, inertia=0)}, pin, forces={"gravity": mbs.Gravity((0, -G))})


def falling():
    """Return a body that falls along a line."""
    return mbs.Mechanism({"a": planar.Body()}, {"x": planar.AbsoluteX("a", (0, 0), 0.0)}, forces=pendulum().forces)


def frame(stiffness=50.0):
    """Return a parallelogram frame of three links of 20 lb with a horizontal spring at the middle of the left leg.

    Legs and top are 4 ft long. V = 160 cos θ + 100 sin²θ for 50 lb/ft, with θ from the vertical.
    """
    gravity, mass = 32.2, 20 / 32.2
    link = planar.Body(mass=mass, inertia=mass * 16 / 12)
    pull = lambda t, q, v: jnp.stack([-stiffness * q[0], 0 * q[0]])
    return mbs.Mechanism(
        {"left": link, "right": link, "top": link},
        {
            "O": planar.Revolute("ground", "left", (0, 0), (-2, 0)),
            "C": planar.Revolute("ground", "right", (4, 0), (-2, 0)),
            "A": planar.Revolute("left", "top", (2, 0), (-2, 0)),
            "B": planar.Revolute("right", "top", (2, 0), (2, 0)),
        },
        forces={"gravity": mbs.Gravity((0, -gravity)), "spring": mbs.PointForce("left", (0, 0), pull)},
    )


def frame_guess(theta):
    """Return the configuration of the frame, with legs turned by θ from the vertical."""
    x, y, phi = 2 * np.sin(theta), 2 * np.cos(theta), np.pi / 2 - theta
    return {"left": (x, y, phi), "right": (4 + x, y, phi), "top": (2 + 2 * x, 2 * y, 0)}


FORMULATIONS = [mbs.JointCoordinates(), mbs.Augmented(), mbs.Kane()]


def assert_balanced(mech, rest, atol=1e-9):
    """Q + Φ_qᵀλ = 0 by the public functions."""
    force = mbs.generalized_force(mech, rest.q, jnp.zeros(mech.layout.m))
    np.testing.assert_allclose(force + mbs.constraint_jacobian(mech, rest.q).T @ rest.multipliers, 0, atol=atol)


@pytest.mark.parametrize("formulation", FORMULATIONS, ids=lambda f: type(f).__name__)
def test_frame_with_a_spring(formulation):
    """The frame is stable upright, unstable at cos θ = 0.8; by a published problem of statics."""
    solve = lambda theta, method: mbs.equilibrium(frame(), frame_guess(theta), method=method, formulation=formulation)
    upright = solve(0.4, "descent")
    assert (upright.status, upright.stability) == (0, "stable")
    np.testing.assert_allclose(upright.q, frame_upright(), atol=1e-9)
    leaning = solve(0.7, "newton")
    assert (leaning.status, leaning.stability) == (0, "unstable")
    np.testing.assert_allclose(np.pi / 2 - leaning.q[2], np.arccos(0.8), atol=1e-12)
    # From beyond the barrier the frame falls until it hangs.
    hanging = solve(0.8, "descent")
    assert hanging.stability == "stable"
    np.testing.assert_allclose(abs(np.pi / 2 - hanging.q[2]), np.pi, atol=1e-9)


def frame_upright():
    """Return q of the frame at θ = 0."""
    return np.concatenate(list(frame_guess(0.0).values()))


def test_stiffness_is_the_second_derivative_of_the_potential():
    """V″ = 40 upright and −72 at cos θ = 0.8, by angles of legs."""
    for theta, curvature in ((0.05, 40.0), (0.65, -72.0)):
        rest = mbs.equilibrium(frame(), frame_guess(theta), method="newton")
        # One velocity is independent; the others have a large number on the diagonal.
        values = np.linalg.eigvalsh(rest.stiffness)
        np.testing.assert_allclose(values[np.argmin(np.abs(values - curvature))], curvature, rtol=1e-9)


def truss(load):
    """Return a von Mises truss: two springs of length √2 and stiffness 1 from (±1, 0) to a point that moves vertically."""
    guides = {"x": planar.AbsoluteX("apex", (0, 0), 0.0), "phi": planar.AbsoluteAngle("apex", 0.0)}
    springs = {str(x): mbs.Spring("ground", "apex", (x, 0), (0, 0), stiffness=1.0, free_length=2**0.5) for x in (-1, 1)}
    forces = springs | {"load": mbs.PointForce("apex", (0, 0), (0, -load))}
    return mbs.Mechanism({"apex": planar.Body()}, guides, forces=forces)


def inverted_slider_crank(stiffness=40.0, free=1.2):
    """Return a crank of length 0.5 with a spring in the slide of a rod and a tube, from its end to a point at (1, 0)."""
    light = planar.Body(mass=0, inertia=0)
    return mbs.Mechanism(
        {"crank": planar.Body(mass=1.0, inertia=0.05), "rod": light, "tube": light},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("ground", "tube", (1, 0), (0, 0)),
            "B": planar.Revolute("crank", "rod", (0.5, 0), (0, 0)),
            "slide": planar.Translational("tube", "rod", (0, 0), (0, 0)),
        },
        forces={"spring": mbs.JointSpring("slide", stiffness=stiffness, free=free)},
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("formulation", FORMULATIONS[:2], ids=lambda f: type(f).__name__)
def test_over_centre(formulation):
    """The spring holds the crank on both sides, at cos φ = (a² + l² − s₀²) / (2 a l), and not on the line between them."""
    mech, angle = inverted_slider_crank(), np.arccos((1 + 0.25 - 1.44) / 1.0)
    for start, method, expected, stability in (
        (1.2, "descent", angle, "stable"), (-1.2, "descent", -angle, "stable"), (0.1, "newton", 0.0, "unstable")
    ):  # fmt: skip
        pin = 0.5 * np.array([np.cos(start), np.sin(start)])
        turn = np.arctan2(pin[1], pin[0] - 1)
        guess = {"crank": (0, 0, start), "tube": (1, 0, turn), "rod": (*pin, turn)}
        rest = mbs.equilibrium(mech, guess, method=method, formulation=formulation)
        assert (rest.status, rest.stability) == (0, stability)
        np.testing.assert_allclose(rest.q[2], expected, atol=1e-9)
    # V″ = k (ds/dφ)² where the spring is not stretched, ds/dφ = a l sin φ / s.
    rest = mbs.equilibrium(mech, {"crank": (0, 0, 1.9), "tube": (1, 0, 2.7), "rod": (-0.1, 0.5, 2.7)})
    frequency = mbs.modes(mech, rest.q, damped=False).frequencies[0]
    np.testing.assert_allclose((2 * np.pi * frequency) ** 2 * 0.05, 40 * (0.5 * np.sin(angle) / 1.2) ** 2, rtol=1e-9)


def test_truss_snaps_through():
    """Below the limit load 2 (∛2 − 1)^1.5 the apex stays up; above it, it snaps through."""
    limit = 2 * (2 ** (1 / 3) - 1) ** 1.5
    height = jax.jit(lambda load: mbs.equilibrium(truss(load), {"apex": (0, 1, 0)}))
    for load, sign in ((0.98 * limit, 1), (1.02 * limit, -1)):
        rest = height(load)
        y = float(rest.q[1])
        assert rest.stability == "stable"
        assert np.sign(y) == sign
        np.testing.assert_allclose(2 * (1 - 2**0.5 / np.hypot(1, y)) * y, -load, atol=1e-12)


def test_path_of_the_truss():
    """The path turns back at both folds and reaches the last load, with balanced forces at each point."""
    path = mbs.equilibria(truss, np.linspace(0, 1, 21), {"apex": (0, 1, 0)})
    limit = 2 * (2 ** (1 / 3) - 1) ** 1.5
    assert path.status == 0
    assert [point.kind for point in path.critical] == ["fold", "fold"]
    np.testing.assert_allclose([fold.parameter for fold in path.folds], [limit, -limit], atol=1e-9)
    np.testing.assert_allclose([fold.q[1] for fold in path.folds], [y := (2 ** (1 / 3) - 1) ** 0.5, -y], atol=1e-6)
    y = path.q[:, 1]
    np.testing.assert_allclose(-2 * (1 - 2**0.5 / np.hypot(1, y)) * y, path.parameter, atol=1e-9)
    np.testing.assert_allclose(path.parameter[-1], 1.0, atol=1e-9)
    inner = np.abs(y) < path.folds[0].q[1]
    np.testing.assert_array_equal(path.stability, np.where(inner, "unstable", "stable"))


def test_path_through_a_bifurcation():
    """A bar on a torsion spring buckles at the load k / l."""

    def strut(load):
        forces = {
            "spring": mbs.TorsionSpring("ground", "bar", stiffness=3.0),
            "load": mbs.PointForce("bar", (0, 0), (0, -load)),
        }
        pin = {"pin": planar.Revolute("ground", "bar", (0, 0), (0, -2))}
        return mbs.Mechanism({"bar": planar.Body()}, pin, forces=forces)

    path = mbs.equilibria(strut, np.linspace(0, 3, 31), {"bar": (0, 2, 0)})
    assert [point.kind for point in path.critical] == ["bifurcation"]
    np.testing.assert_allclose(path.critical[0].parameter, 1.5, rtol=1e-9)


def test_equilibria_refuse_bad_values():
    """Too few values, and values that turn back."""
    with pytest.raises(ValueError, match="k ≥ 2"):
        mbs.equilibria(truss, [1.0])
    with pytest.raises(ValueError, match="increase or decrease"):
        mbs.equilibria(truss, [0.0, 1.0, 0.5])
    assert mbs.equilibria(lambda load: falling(), [0.0, 1.0]).status == mbs.Status.NOT_CONVERGED


def four_bar(b):
    """Return a four-bar with uniform links and a spring on its coupler; b: lengths (4,), stiffness, free length."""
    ground, crank, coupler, rocker, stiffness, free_length = b
    rod = lambda length: planar.Body(mass=length, inertia=length**3 / 12)
    return mbs.Mechanism(
        {"crank": rod(crank), "coupler": rod(coupler), "rocker": rod(rocker)},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (-crank / 2, 0)),
            "A": planar.Revolute("crank", "coupler", (crank / 2, 0), (-coupler / 2, 0)),
            "B": planar.Revolute("coupler", "rocker", (coupler / 2, 0), (rocker / 2, 0)),
            "C": planar.Revolute("ground", "rocker", (ground, 0), (-rocker / 2, 0)),
        },
        forces={
            "gravity": mbs.Gravity((0, -G)),
            "spring": mbs.Spring(
                "ground", "coupler", (0, -3), (0.2, 0.3), stiffness=stiffness, free_length=free_length
            ),
        },
    )


LENGTHS = jnp.array([3.0, 1.0, 2.5, 2.0, 20.0, 1.0])
FOUR_BAR_GUESS = {"crank": (0.3, 0.3, 0.9), "coupler": (1.5, 1.2, 0.3), "rocker": (2.8, 0.8, 1.9)}


def test_four_bar_is_at_the_minimum_of_its_potential():
    """dV/dφ = 0 and V″ > 0 along the configurations assembled at given crank angles; V by `energy`."""
    mech = four_bar(LENGTHS)
    rest = mbs.equilibrium(mech, FOUR_BAR_GUESS)
    assert (rest.status, rest.stability) == (0, "stable")

    def potential(phi):
        guess = rest.q.at[2].set(phi)
        q = mbs.assemble(mech, guess, hold=("crank.phi",)).q
        return mbs.energy(mech, q, jnp.zeros(9)).potential

    slope, curvature = jax.grad(potential), jax.grad(jax.grad(potential))
    assert abs(slope(rest.q[2])) < 1e-9
    assert curvature(rest.q[2]) > 0


@pytest.mark.parametrize("formulation", FORMULATIONS[:2], ids=lambda f: type(f).__name__)
def test_forces_balance_and_derivatives_are_differences(formulation):
    """Q + Φ_qᵀλ = 0 with the public functions; dq/db and dλ/db, and the second derivative of q."""
    rest = lambda b: mbs.equilibrium(four_bar(b), FOUR_BAR_GUESS, formulation=formulation)
    found, mech, still = rest(LENGTHS), four_bar(LENGTHS), jnp.zeros(9)
    balance = mbs.generalized_force(mech, found.q, still) + mbs.constraint_jacobian(mech, found.q).T @ found.multipliers
    np.testing.assert_allclose(balance, 0, atol=1e-11)
    assert found.residual < 1e-11
    both = jax.jit(lambda b: jnp.concatenate([(r := rest(b)).q, r.multipliers]))
    direction = jnp.array([0.3, -0.2, 0.4, 0.1, 2.0, -0.3])
    along = lambda s: both(LENGTHS + s * direction)
    h = 1e-4
    slope = jax.jit(lambda s: jax.jvp(along, (s,), (jnp.ones(()),))[1])
    np.testing.assert_allclose(slope(0.0), (along(h) - along(-h)) / (2 * h), rtol=1e-6, atol=1e-6)
    reverse = jax.grad(lambda b: jnp.sum(both(b) * jnp.arange(17)))(LENGTHS) @ direction
    np.testing.assert_allclose(reverse, jnp.sum(slope(0.0) * jnp.arange(17)), rtol=1e-9)
    second = jax.jvp(slope, (0.0,), (1.0,))[1]
    np.testing.assert_allclose(second, (slope(h) - slope(-h)) / (2 * h), rtol=1e-5, atol=1e-5)


def test_space_with_redundant_constraints():
    """The four-bar as bodies in space on hinges, three constraints too many, rests like the planar one."""
    lengths = np.asarray(LENGTHS)
    ground, crank, coupler, rocker, stiffness, free_length = lengths
    rod = lambda length: spatial.Body(mass=length, inertia=np.diag([0.01, length**3 / 12, length**3 / 12]))
    hinge = lambda i, j, at, there: spatial.Revolute(i, j, (*at, 0), (*there, 0), axis_i=(0, 0, 1))
    mech = mbs.Mechanism(
        {"crank": rod(crank), "coupler": rod(coupler), "rocker": rod(rocker)},
        {
            "O": hinge("ground", "crank", (0, 0), (-crank / 2, 0)),
            "A": hinge("crank", "coupler", (crank / 2, 0), (-coupler / 2, 0)),
            "B": hinge("coupler", "rocker", (coupler / 2, 0), (rocker / 2, 0)),
            "C": hinge("ground", "rocker", (ground, 0), (-rocker / 2, 0)),
        },
        forces={
            "gravity": mbs.Gravity((0, -G, 0)),
            "spring": mbs.Spring(
                "ground", "coupler", (0, -3, 0), (0.2, 0.3, 0), stiffness=stiffness, free_length=free_length
            ),
        },
    )
    flat = mbs.assemble(four_bar(LENGTHS), FOUR_BAR_GUESS).q
    start = {
        name: spatial.coordinates((flat[3 * k], flat[3 * k + 1], 0), (0, 0, flat[3 * k + 2]))
        for k, name in enumerate(mech.bodies)
    }
    found, planar_one = mbs.equilibrium(mech, start), mbs.equilibrium(four_bar(LENGTHS), flat)
    assert (found.status, found.stability) == (0, "stable")
    places = lambda q, n: np.asarray(q).reshape(3, n)[:, :2]
    np.testing.assert_allclose(places(found.q, 7), places(planar_one.q, 3), atol=1e-9)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("formulation", FORMULATIONS[:2], ids=lambda f: type(f).__name__)
def test_free_rotations_under_a_constraint(formulation):
    """A body on a ball joint whose tip is at a fixed distance: K is symmetric, and dq/dk is the difference."""

    def hung(k):
        springs = {
            str(n): mbs.Spring("ground", "body", at, point, stiffness=k * (1 + n), free_length=0.3)
            for n, (at, point) in enumerate(
                [((1, 0.2, 0.5), (0.6, 0, 0)), ((0, 1, 0.3), (0, 0.7, 0)), ((0.4, -1, 0), (0, 0, 0.5))]
            )
        }
        return mbs.Mechanism(
            {"body": spatial.Body(com=(0.2, 0.1, -0.3))},
            {
                "ball": spatial.Spherical("ground", "body", (0, 0, 0), (0, 0, 0)),
                "rod": spatial.Distance("ground", "body", (1, 1, 1), (0.5, 0.4, 0.3), 1.3),
            },
            forces={"gravity": mbs.Gravity((0, 0, -G)), **springs},
        )

    rest = jax.jit(
        lambda k: mbs.equilibrium(hung(k), {"body": spatial.coordinates((0, 0, 0))}, formulation=formulation)
    )
    found = rest(10.0)
    assert (found.status, found.stability) == (0, "stable")
    assert_balanced(hung(10.0), found)
    scale = np.abs(found.stiffness).max()
    np.testing.assert_allclose(found.stiffness, found.stiffness.T, atol=1e-9 * scale)
    slope = jax.jacfwd(lambda k: rest(k).q)(10.0)
    np.testing.assert_allclose(slope, (rest(10.001).q - rest(9.999).q) / 0.002, atol=1e-7)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("misfit", "tolerance"), [(0.0, 1e-8), (1e-9, 1e-8), (1e-4, 1e-3)])
def test_inexact_redundant_constraints(misfit, tolerance):
    """Three parallel cranks, one of them too long: the frame hangs as low as it would with equal ones."""
    links = {name: planar.Body() for name in ("a", "b", "c", "bar")}
    joints = {f"foot {n}": planar.Revolute("ground", n, (k, 0), (0, 0)) for k, n in enumerate("abc")}
    lengths = {"a": 1.0, "b": 1.0, "c": 1.0 + misfit}
    joints |= {f"head {n}": planar.Revolute(n, "bar", (lengths[n], 0), (k, 0)) for k, n in enumerate("abc")}
    mech = mbs.Mechanism(links, joints, forces={"push": mbs.PointForce("bar", (0, 0), (3.0, -4.0))})
    start = {n: (k, 0, -0.5) for k, n in enumerate("abc")} | {"bar": (np.cos(0.5), -np.sin(0.5), 0)}
    rest = mbs.equilibrium(mech, start, tolerance=tolerance)
    assert (rest.status, rest.stability) == (0, "stable")
    np.testing.assert_allclose(rest.q[2], np.arctan2(-4, 3), atol=1e-10 + 10 * misfit)


def test_single_precision_runs_as_a_program():
    """In float32 the four-bar rests where it does in float64, without a warning of slow code."""
    single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), four_bar(LENGTHS))
    with warnings.catch_warnings():
        warnings.simplefilter("error", mbs.PerformanceWarning)
        rest = mbs.equilibrium(single, FOUR_BAR_GUESS)
    assert (rest.status, rest.stability, rest.q.dtype) == (0, "stable", np.float32)
    np.testing.assert_allclose(rest.q, mbs.equilibrium(four_bar(LENGTHS), FOUR_BAR_GUESS).q, atol=1e-4)


def test_gears_along_a_path():
    """Two wheels in mesh under a torque on one and a spring on the other, with marks where they touch."""

    def wheels(torque):
        joints = {n: planar.Revolute("ground", n, (3 * k, 0), (0, 0)) for k, n in enumerate("ab")}
        joints["mesh"] = planar.Gear("a", "b", (0, 0), (0, 0), radius_i=1.0, radius_j=2.0)
        forces = {"torque": mbs.Torque("a", torque), "spring": mbs.TorsionSpring("ground", "b", stiffness=5.0)}
        return mbs.Mechanism({n: planar.Body() for n in "ab"}, joints, forces=forces)

    path = mbs.equilibria(wheels, [0.0, 0.25, 0.5], {"a": (0, 0, 0), "b": (3, 0, 0)})
    assert path.status == 0
    # φ_b = −φ_a / 2, and the torque on wheel b is −2 of that on wheel a.
    np.testing.assert_allclose(path.q[-1, [2, 5]], [0.4, -0.2], atol=1e-9)


@pytest.mark.parametrize("steady", [False, True])
def test_nothing_can_move(steady):
    """A body that is fixed to the ground rests where it is; along a path, too."""
    build = lambda load: mbs.Mechanism(
        {"a": spatial.Body()},
        {"weld": spatial.Rigid("ground", "a", (0, 0, 0), (0, 0, 0))},
        forces={"load": mbs.PointForce("a", (0, 0, 0), (0, 0, -load))},
    )
    rest = mbs.equilibrium(build(2.0), steady=steady)
    assert (rest.status, rest.stability) == (0, "stable")
    np.testing.assert_allclose(np.abs(rest.multipliers).max(), 2.0, rtol=1e-12)
    assert mbs.equilibria(build, [0.0, 1.0], steady=steady).status == 0


@pytest.mark.variant
def test_motions_that_are_not_steady():
    """On a shaft that is not vertical the weight of the balls changes its direction."""
    leaning = governor(20.0)
    tilted = mbs.Mechanism(leaning.bodies, leaning.constraints, leaning.drivers, {"gravity": mbs.Gravity((1, 0, -G))})
    assert mbs.equilibrium(tilted, governor_guess(0.9), steady=True).status == mbs.Status.NOT_CONVERGED


def test_two_critical_points_at_once():
    """Two equal struts buckle at one load: the path knows, though the determinant keeps its sign."""

    def struts(load):
        pins = {n: planar.Revolute("ground", n, (k, 0), (0, -2)) for k, n in enumerate("ab")}
        forces = {f"spring {n}": mbs.TorsionSpring("ground", n, stiffness=3.0) for n in "ab"}
        forces |= {f"load {n}": mbs.PointForce(n, (0, 0), (0, -load)) for n in "ab"}
        return mbs.Mechanism({n: planar.Body() for n in "ab"}, pins, forces=forces)

    path = mbs.equilibria(struts, np.linspace(0, 3, 31), {"a": (0, 2, 0), "b": (1, 2, 0)})
    np.testing.assert_allclose([point.parameter for point in path.critical], [1.5], rtol=1e-9)


def test_many_values():
    """A path with many values reaches the last one."""
    path = mbs.equilibria(lambda x: pendulum(1.0 + x), np.linspace(0, 1, 2501), {"bob": (0, -1, 0)})
    assert (path.status, path.parameter[-1].round(9)) == (0, 1.0)


def governor(rate, ball=2.0, sleeve=5.0, length=0.3):
    """Return half of a Porter governor: a ball between two equal arms, and a sleeve on the shaft; `rate` of the shaft."""
    z, y, points = (0, 0, 1), (0, 1, 0), np.zeros((3, 3))
    bodies = {
        "shaft": spatial.Body(),
        "sleeve": spatial.Body(mass=sleeve),
        "upper": spatial.Body(mass=ball, inertia=points, com=(length, 0, 0)),
        "lower": spatial.Body(mass=0, inertia=points),
    }
    joints = {
        "bearing": spatial.Revolute("ground", "shaft", (0, 0, 0), (0, 0, 0), axis_i=z),
        "slide": spatial.Prismatic("shaft", "sleeve", (0, 0, 0), (0, 0, 0), axis_i=z),
        "top": spatial.Revolute("shaft", "upper", (0, 0, 0), (0, 0, 0), axis_i=y),
        "ball": spatial.Revolute("upper", "lower", (length, 0, 0), (0, 0, 0), axis_i=y),
        "pin": spatial.Revolute("lower", "sleeve", (-length, 0, 0), (0, 0, 0), axis_i=y),
    }
    motor = spatial.RevoluteDriver("ground", "shaft", (0, 0, 0), (0, 0, 0), axis_i=z, motion=mbs.motion.Ramp(rate))
    return mbs.Mechanism(bodies, joints, {"motor": motor}, {"gravity": mbs.Gravity((0, 0, -G))})


def governor_guess(angle, length=0.3):
    """Return a configuration of the governor with arms at an angle below the horizontal."""
    return {
        "sleeve": spatial.coordinates((0, 0, -2 * length * np.sin(angle))),
        "upper": spatial.coordinates((0, 0, 0), (0, angle, 0)),
        "lower": spatial.coordinates((length * np.cos(angle), 0, -length * np.sin(angle)), (0, -angle, 0)),
    }


def test_governor():
    """The height of a Porter governor is g (m + M) / (m ω²), with M / 2 on each half; M → 0 gives Watt's governor."""

    def height(rate, sleeve):
        q = mbs.equilibrium(governor(rate, sleeve=sleeve), governor_guess(0.9), steady=True).q
        return -q[governor(1.0).layout.index("sleeve.z")] / 2

    rates, sleeves = jnp.array([18.0, 24.0, 10.0]), jnp.array([5.0, 5.0, 1e-9])
    found, slope = jax.jit(jax.vmap(jax.value_and_grad(height)))(rates, sleeves)
    np.testing.assert_allclose(found, G * (2 + 2 * sleeves) / (2 * rates**2), rtol=1e-9)
    np.testing.assert_allclose(slope, -2 * found / rates, rtol=1e-8)


def test_driver_is_frozen():
    """A driver and a prescribed force have their values at t; the driving torque holds the weight."""
    motor = planar.RevoluteDriver("ground", "bob", (0, 0), (0, 1), mbs.motion.Ramp(rate=3.0))
    base = pendulum()
    mech = mbs.Mechanism(base.bodies, base.constraints, {"motor": motor}, base.forces)
    rest = mbs.equilibrium(mech, {"bob": (0.5, -0.9, 0.5)}, t=0.2)
    assert (rest.status, rest.stability) == (0, "stable")
    np.testing.assert_allclose(rest.q[2], 0.6, atol=1e-12)
    np.testing.assert_allclose(rest.multipliers[2], 2 * G * np.sin(0.6), rtol=1e-12)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("com", [0.0, 0.3], ids=["idle", "loaded"])
def test_rod_between_two_balls(com):
    """Its spin makes no equilibrium singular; if its centre of mass is off the line, the rod turns until it hangs."""
    rod = spatial.Body(mass=1.0, inertia=0.3 * np.eye(3), com=(com, 0, 0))
    weight = spatial.Body(inertia=0.1 * np.eye(3))
    mech = mbs.Mechanism(
        {"rod": rod, "weight": weight},
        {
            "top": spatial.Spherical("ground", "rod", (0, 0, 0), (0, 0, 1)),
            "bottom": spatial.Spherical("rod", "weight", (0, 0, -1), (0, 0, 0)),
            "guide": spatial.Prismatic("ground", "weight", (0, 0, -1), (0, 0, 0), axis_i=(0, 0.6, 0.8)),
        },
        forces={
            "spring": mbs.Spring("ground", "weight", (0, 1, 0), (0, 0, 0), stiffness=100.0, free_length=0.5),
            "gravity": mbs.Gravity((0, -G, 0)),
        },
    )
    start = {"rod": spatial.coordinates((0, 0, -1), (0, 0, 0.4)), "weight": spatial.coordinates((0, 0, -2))}
    rest = mbs.equilibrium(mech, start)
    assert (rest.status, rest.stability) == (0, "stable")
    assert_balanced(mech, rest)
    rod = mech.poses(rest.q)["rod"]
    if com:
        # The centre of mass is in the vertical plane of the rod, below it.
        axis, arm = rod.direction((0, 0, 1)), rod.direction((com, 0, 0))
        np.testing.assert_allclose(np.cross(axis, (0, 1, 0)) @ arm, 0, atol=1e-9)
        assert arm[1] < 0


@pytest.mark.parametrize(
    ("guess", "status", "stability"),
    [
        ((0.0, 1.0, np.pi), 0, "unstable"),
        ((1e-6, 1.0, np.pi - 1e-6), 0, "stable"),
        ((0.0, jnp.nan, 0.0), mbs.Status.NON_FINITE, "unknown"),
    ],
)
def test_starts(guess, status, stability):
    """A start at the unstable equilibrium stays there, one beside it falls; NaN has its status."""
    rest = mbs.equilibrium(pendulum(), {"bob": guess})
    assert (rest.status, rest.stability) == (status, stability)


def test_neutral():
    """Without gravity the pendulum rests everywhere; a spring of zero free length balances it in every position."""
    pin = pendulum().constraints
    assert (
        mbs.equilibrium(mbs.Mechanism({"bob": planar.Body()}, pin), {"bob": (0.6, -0.8, 0.6435)}).stability == "neutral"
    )
    spring = mbs.Spring("ground", "bob", (0, 1), (0, 0), stiffness=2 * G, free_length=0.0)
    lamp = mbs.Mechanism(pendulum().bodies, pin, forces={**pendulum().forces, "spring": spring})
    rest = mbs.equilibrium(lamp, {"bob": (0.6, -0.8, 0.6435)})
    assert (rest.status, rest.stability) == (mbs.Status.SINGULAR, "neutral")
    assert rest.residual < 1e-12
    with pytest.raises(mbs.AnalysisError, match=r"SINGULAR.*nothing holds the mechanism"):
        mbs.equilibrium(lamp, {"bob": (0.6, -0.8, 0.6435)}, throw=True)


def test_bad_samples_of_a_batch():
    """A body that falls, a NaN and a loop that cannot close have their own status and do not touch the others."""
    assert mbs.equilibrium(falling()).status == mbs.Status.NOT_CONVERGED
    bad = jnp.stack([LENGTHS, LENGTHS.at[4].set(jnp.nan), LENGTHS.at[0].set(30.0)])
    rest = jax.vmap(lambda b: mbs.equilibrium(four_bar(b), FOUR_BAR_GUESS))(bad)
    np.testing.assert_array_equal(rest.status, [0, mbs.Status.NON_FINITE, mbs.Status.NOT_ASSEMBLED])
    assert list(rest.stability) == ["stable", "unknown", "unknown"]
    alone = mbs.equilibrium(four_bar(LENGTHS), FOUR_BAR_GUESS)
    np.testing.assert_allclose(rest.q[0], alone.q, atol=1e-12)


def test_bad_arguments():
    """An unknown method, forces with states, coordinates that rotate in a steady motion, and traced answers."""
    with pytest.raises(ValueError, match="'descent', 'newton'"):
        mbs.equilibrium(pendulum(), method="fast")
    inductive = mbs.Motor("pin", 1.0, 1.0, 5.0, inductance=0.1)
    with pytest.raises(ValueError, match=r"states.*motor\.current"):
        mbs.equilibrium(mbs.Mechanism(pendulum().bodies, pendulum().constraints, forces={"motor": inductive}))
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(lambda k: mbs.equilibria(truss, k).parameter)(jnp.ones(3))
    with pytest.raises(ValueError, match="needs joint coordinates"):
        mbs.equilibrium(pendulum(), steady=True, formulation=mbs.Augmented())
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(lambda m: mbs.equilibrium(pendulum(m), throw=True).q)(1.0)
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(lambda m: mbs.equilibrium(pendulum(m)).stability == "stable")(1.0)
    jax.grad(lambda m: len(repr(mbs.equilibrium(pendulum(m)))) * m)(1.0)
