"""Haug 3.7, singular configurations: Examples 3.7.1 to 3.7.7, Problems 3.7.3 and 3.7.4."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar


def slider_crank(rod, rate=1.0):
    """Example 3.1.2: crank of length 1 about O₁ = origin, coupler with P₂ at (0, ℓ) whose O₂ stays on the x axis."""
    return mbs.Mechanism(
        {"crank": planar.Body(), "coupler": planar.Body()},
        {
            "O1x": planar.AbsoluteX("crank", (0, 0), 0.0),
            "O1y": planar.AbsoluteY("crank", (0, 0), 0.0),
            "O2": planar.AbsoluteY("coupler", (0, 0), 0.0),
            "P": planar.Revolute("crank", "coupler", (1, 0), (0, rod)),
        },
        {"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(rate))},
    )


def coupler_guess(rod, angle, side=1):
    """(x₂, 0, φ₂) with sin φ₁ = ℓ cos φ₂; side +1 with O₂ to the right of P."""
    phi = side * np.arccos(np.sin(angle) / rod)
    return {"crank": (0, 0, angle), "coupler": (np.cos(angle) + rod * np.sin(phi), 0, phi)}


def one_coordinate(rod, rate=1.0):
    """Example 3.7.3: slider with x₂ = q on the x axis, crank at the origin, the coupler a distance constraint."""
    return mbs.Mechanism(
        {"crank": planar.Body(), "slider": planar.Body()},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "y": planar.AbsoluteY("slider", (0, 0), 0.0),
            "phi": planar.AbsoluteAngle("slider", 0.0),
            "coupler": planar.Distance("crank", "slider", (1, 0), (0, 0), rod),
        },
        {"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(rate))},
    )


GRID = np.linspace(0.1, 3.0, 30)


@pytest.mark.parametrize("rod", [0.5, 0.9])
def test_example_3_7_1_lock_up_where_sin_phi_equals_the_rod(rod):
    mech = slider_crank(rod)
    found = mbs.find_singularities(mech, GRID, coupler_guess(rod, GRID[0]))
    assert found.kinds == ("lock-up",)
    assert found.times[0] == pytest.approx(np.arcsin(rod), abs=1e-12)
    # (3.7.5): φ₂ = 0 there, and x₂ = √(1 − ℓ²).
    np.testing.assert_allclose(found.q[0, 3:], [np.sqrt(1 - rod**2), 0, 0], atol=1e-9)
    assert found.rates[0] > 0.1

    status = np.asarray(mbs.kinematics(mech, GRID, coupler_guess(rod, GRID[0])).status)
    np.testing.assert_array_equal(status == mbs.Status.CONVERGED, np.arcsin(rod) > GRID)
    assert set(status[np.arcsin(rod) < GRID]) == {mbs.Status.LOCKED_UP}


def test_lock_ups_in_single_precision():
    """Over an interval of two turns, where a march comes to a fold in steps that are soon the shortest: each of 500
    four-bars, all of which lock up before the crank points away from the rocker, ends with the right name."""
    jax.config.update("jax_enable_x64", False)

    def last(coupler):
        constraints = {
            "O": planar.Revolute("ground", "crank", (0, 0), (-0.5, 0)),
            "A": planar.Revolute("crank", "coupler", (0.5, 0), (-coupler / 2, 0)),
            "B": planar.Revolute("coupler", "rocker", (coupler / 2, 0), (1.25, 0)),
            "C": planar.Revolute("ground", "rocker", (3.5, 0), (-1.25, 0)),
        }
        motor = {"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(1.0))}
        mech = mbs.Mechanism(dict.fromkeys(("crank", "coupler", "rocker"), planar.Body()), constraints, motor)
        # The triangle of coupler, rocker and the 2.5 between their far ends.
        angle, zero = jnp.arccos(coupler / 5), jnp.zeros_like(coupler)
        x, y = coupler * jnp.cos(angle) / 2, coupler * jnp.sin(angle) / 2
        guess = {"crank": (0.5, 0, 0), "coupler": (1 + x, y, angle), "rocker": (2.25 + x, y, 2 * angle)}
        guess = {name: jnp.stack([x + zero for x in values]) for name, values in guess.items()}
        return mbs.kinematics(mech, jnp.array([0.0, 12.0]), guess).status[-1]

    found = np.asarray(jax.jit(jax.vmap(last))(jnp.linspace(1.2, 1.95, 500)))
    assert np.mean(found == mbs.Status.LOCKED_UP) > 0.99, np.bincount(found)


def test_example_3_7_1_bifurcation_with_rod_one():
    mech = slider_crank(1.0)
    found = mbs.find_singularities(mech, GRID, coupler_guess(1.0, GRID[0]))
    assert found.kinds == ("bifurcation",)
    assert found.times[0] == pytest.approx(np.pi / 2, abs=1e-9)
    assert found.rates[0] < 1e-8
    # The motion goes straight on to the negative x axis, Fig. 3.7.3(b): x₂ = 2 cos φ₁.
    motion = mbs.kinematics(mech, GRID, coupler_guess(1.0, GRID[0]))
    assert np.all(motion.status == mbs.Status.CONVERGED)
    np.testing.assert_allclose(motion.position("coupler.x"), 2 * np.cos(GRID), atol=1e-9)


def test_example_3_7_1_a_longer_rod_has_no_singularity():
    found = mbs.find_singularities(slider_crank(1.2), GRID, coupler_guess(1.2, GRID[0]))
    assert found.times.shape == (0,)
    assert found.kinds == ()


def test_example_3_7_1_driven_backwards_from_lock_up_two_motions_are_possible():
    """The determinant's sign tells them apart: O₂ to the left or to the right of P."""
    angles = np.array([0.5, 0.4, 0.3, 0.2])
    mech = slider_crank(0.5)
    right = mbs.kinematics(mech, angles, coupler_guess(0.5, angles[0], 1)).position("coupler.x")
    left = mbs.kinematics(mech, angles, coupler_guess(0.5, angles[0], -1)).position("coupler.x")
    half = np.sqrt(0.25 - np.sin(angles) ** 2)
    np.testing.assert_allclose(right, np.cos(angles) + half, atol=1e-11)
    np.testing.assert_allclose(left, np.cos(angles) - half, atol=1e-11)


def parallelogram(ground=2.0):
    return mbs.Mechanism(
        {"crank": planar.Body(), "coupler": planar.Body(), "rocker": planar.Body()},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (1, 0), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", (ground, 0), (1, 0)),
            "C": planar.Revolute("ground", "rocker", (ground, 0), (0, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))},
    )


def test_example_3_7_2_parallelogram_bifurcates_when_flat():
    mech, start = parallelogram(), 0.5
    guess = {"crank": (0, 0, start), "coupler": (np.cos(start), np.sin(start), 0), "rocker": (2, 0, start)}
    grid = np.linspace(start, start + 2 * np.pi, 41)
    found = mbs.find_singularities(mech, grid, guess)
    assert found.kinds == ("bifurcation", "bifurcation")
    np.testing.assert_allclose(found.times, [np.pi, 2 * np.pi], atol=1e-9)
    # Straight on: it stays a parallelogram, at the flat position too if the grid meets it.
    motion = mbs.kinematics(mech, grid, guess)
    assert np.all(motion.status == mbs.Status.CONVERGED)
    np.testing.assert_allclose(motion.position("coupler.phi"), 0, atol=1e-9)
    flat = np.linspace(start, 2 * np.pi - start, 41)
    assert flat[20] == pytest.approx(np.pi, abs=1e-14)
    status = np.asarray(mbs.kinematics(mech, flat, guess).status)
    assert status[20] == mbs.Status.SINGULAR
    assert np.all(np.delete(status, 20) == mbs.Status.CONVERGED)


@pytest.mark.parametrize(("rod", "sign"), [(1.5, 1), (1.5, -1), (0.5, 1)])
def test_example_3_7_3_closed_form(rod, sign):
    """(3.7.2): q = cos ωt ± √(cos² ωt + ℓ² − 1)."""
    times = np.linspace(0.1, 0.5 if rod < 1 else 6.0, 20)
    position = lambda t: np.cos(t) + sign * np.sqrt(np.cos(t) ** 2 + rod**2 - 1)
    guess = {"crank": (0, 0, times[0]), "slider": (position(times[0]), 0, 0)}
    motion = mbs.kinematics(one_coordinate(rod), times, guess)
    assert np.all(motion.status == mbs.Status.CONVERGED)
    np.testing.assert_allclose(motion.position("slider.x"), position(times), atol=1e-11)


def test_example_3_7_4_and_problem_3_7_3_growth_towards_lock_up():
    """ℓ = ½, ω = 1: Φ_q = 2 (q − cos t), −Φ_t = −2 q sin t, γ, q̇ and q̈ at the problem's times, then lock-up at π/6."""
    mech = one_coordinate(0.5)
    times = np.array([0.4, 0.45, 0.5, 0.52, 0.523, 0.5235])
    t = times
    q = np.cos(t) + np.sqrt(np.cos(t) ** 2 - 0.75)
    guess = {"crank": (0, 0, t[0]), "slider": (q[0], 0, 0)}
    motion = mbs.kinematics(mech, times, guess)
    assert np.all(motion.status == mbs.Status.CONVERGED)
    by_q, by_t = 2 * (q - np.cos(t)), -2 * q * np.sin(t)
    velocity = by_t / by_q
    # γ of (3.7.1): −(2 q̇² + 4 q̇ sin t + 2 q cos t), differentiated by hand.
    gamma = -(2 * velocity**2 + 4 * velocity * np.sin(t) + 2 * q * np.cos(t))
    acceleration = gamma / by_q
    np.testing.assert_allclose(motion.position("slider.x"), q, rtol=1e-10)
    np.testing.assert_allclose(motion.velocity("slider.x"), velocity, rtol=1e-8)
    np.testing.assert_allclose(motion.acceleration("slider.x"), acceleration, rtol=1e-7)
    assert np.all(np.diff(np.abs(motion.velocity("slider.x"))) > 0)
    assert abs(acceleration[-1]) > 1e4
    # The entries of the library's own system that belong to the distance constraint.
    row = mech.layout.row_slices["coupler"]
    matrix = np.stack([mbs.constraint_jacobian(mech, x, s)[row][0] for x, s in zip(motion.q, times, strict=True)])
    np.testing.assert_allclose(matrix[:, mech.layout.index("slider.x")], by_q, atol=1e-9)
    found = mbs.find_singularities(mech, np.linspace(0.4, 0.6, 5), guess)
    assert found.kinds == ("lock-up",)
    assert found.times[0] == pytest.approx(np.pi / 6, abs=1e-12)


def test_example_3_7_5_determinant():
    """(3.7.5): |Φ_q| = −ℓ sin φ₂ for the reduced coordinates; the absolute constraints add unit rows."""
    mech = slider_crank(1.3)
    for angle in (0.2, 1.1, 2.5):
        q = mech.coordinates(coupler_guess(1.3, angle))
        assert np.max(np.abs(mbs.constraints(mech, q, angle))) < 1e-14
        matrix = np.asarray(mbs.constraint_jacobian(mech, q, angle))
        assert abs(np.linalg.det(matrix)) == pytest.approx(abs(1.3 * np.sin(q[5])), abs=1e-13)


def test_example_3_7_6_effect_of_a_design_change_at_lock_up():
    """A longer rod has two assemblies near the lock-up configuration, a shorter one none."""
    rod = 0.6
    angle = np.arcsin(rod)
    start = {"crank": (0, 0, angle), "coupler": (np.cos(angle), 0, 0)}
    for side in (1, -1):
        near = {**start, "coupler": (np.cos(angle) + 0.05 * side, 0, 0.1 * side)}
        longer = mbs.assemble(slider_crank(rod + 0.01), near, angle)
        assert longer.status == mbs.Status.CONVERGED
        expected = np.cos(angle) + side * np.sqrt((rod + 0.01) ** 2 - rod**2)
        assert longer.q[3] == pytest.approx(expected, abs=1e-9)
    assert mbs.assemble(slider_crank(rod - 0.01), start, angle).status == mbs.Status.NOT_ASSEMBLED
    # (3.7.12): Φ_b is not in the range of Φ_q there, so that no δq follows a change of ℓ.
    q = mbs.assemble(slider_crank(rod), start, angle).q
    matrix = np.asarray(mbs.constraint_jacobian(slider_crank(rod), q, angle))
    by_rod = np.asarray(mbs.design_jacobian(slider_crank, jnp.asarray(rod), q, angle))
    rank = lambda m: np.linalg.matrix_rank(m, tol=1e-5)
    assert rank(matrix) == 5
    assert rank(np.column_stack([matrix, by_rod])) == 6


def five_bar_parallelogram():
    """Example 3.7.7: one bar held by three distance constraints to the ground, points 0, 1 and 2 along it."""
    distance = lambda k: planar.AbsoluteDistance("bar", (k, 0), (k, 0), 1.0)
    return mbs.Mechanism({"bar": planar.Body()}, {"first": distance(0), "second": distance(1), "third": distance(2)})


@pytest.mark.parametrize("angle", [0.3, 1.2, 2.8])
def test_example_3_7_7_redundant_third_bar(angle):
    mech = five_bar_parallelogram()
    report = mbs.diagnose(mech, {"bar": (np.cos(angle), np.sin(angle), 0)})
    assert report.rank == 2
    assert report.dof == 1
    assert report.redundant == ("third",)
    assert report.consistent
    # (3.7.14), with φ = 0.
    x, y = np.cos(angle), np.sin(angle)
    expected = [[2 * x, 2 * y, 0], [2 * x, 2 * y, 2 * y], [2 * x, 2 * y, 4 * y]]
    matrix = mbs.constraint_jacobian(mech, jnp.array([x, y, 0.0]))
    np.testing.assert_allclose(matrix, expected, atol=1e-14)


def test_example_3_7_7_moves_in_spite_of_the_redundant_bar():
    held = five_bar_parallelogram()
    driver = planar.AbsoluteYDriver("bar", (0, 0), mbs.motion.Harmonic(0.9, 1.0))
    mech = mbs.Mechanism(held.bodies, held.constraints, {"lift": driver})
    times = np.linspace(0.2, 1.4, 7)
    y = 0.9 * np.sin(times)
    motion = mbs.kinematics(mech, times, {"bar": (np.sqrt(1 - y[0] ** 2), y[0], 0)})
    assert np.all(motion.status == mbs.Status.CONVERGED)
    np.testing.assert_allclose(motion.position("bar.x"), np.sqrt(1 - y**2), atol=1e-11)
    np.testing.assert_allclose(motion.velocity("bar.y"), 0.9 * np.cos(times), atol=1e-11)
    np.testing.assert_allclose(motion.position("bar.phi"), 0, atol=1e-11)


def test_problem_3_7_4_determinant_changes_sign_through_the_bifurcation():
    """ℓ = 1 at 85° and 95°, with the composite system of Example 3.7.5."""
    mech = slider_crank(1.0)
    angles = np.array([1.0, 1.4835, 1.6581])
    motion = mbs.kinematics(mech, angles, coupler_guess(1.0, angles[0]))
    assert np.all(motion.status == mbs.Status.CONVERGED)
    determinants = [
        np.linalg.det(mbs.constraint_jacobian(mech, q, t)) for q, t in zip(motion.q[1:], angles[1:], strict=True)
    ]
    # Both are −ℓ sin φ₂ = ∓cos φ₁ up to the order of the rows.
    np.testing.assert_allclose(np.abs(determinants), np.abs(np.cos(angles[1:])), atol=1e-9)
    assert determinants[0] * determinants[1] < 0


def test_gradient_stays_finite_next_to_and_past_lock_up():
    """The sample that locks up has zero gradient from then on; before it the derivative is the closed form's."""
    times = jnp.array([0.2, 0.4, 0.5, 0.6, 0.8])

    def positions(rod):
        guess = {"crank": (0, 0, 0.2), "slider": (1.4, 0, 0)}
        return mbs.kinematics(one_coordinate(rod), times, guess).position("slider.x")

    of_rod = jax.jit(jax.jacfwd(positions))(0.5)
    expected = 0.5 / np.sqrt(np.cos(times[:3]) ** 2 - 0.75)
    np.testing.assert_allclose(of_rod[:3], expected, rtol=1e-8)
    assert np.all(of_rod[3:] == 0)
