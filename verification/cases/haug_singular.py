"""Haug 3.7: singular configurations, and changes of design there; section 12.2, a mechanism in space."""

import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
import spatial_problems
from haug_singular import GRID, coupler_guess, five_bar_parallelogram, one_coordinate, parallelogram, slider_crank
from jaxmbs import planar
from verification.case import (
    DIAGNOSIS,
    EQUATIONS,
    KINEMATICS,
    SINGULARITIES,
    Analysis,
    Simulation,
    below,
    case,
    close,
    near,
    same,
)
from verification.cases.common import FORMULATIONS, gap, spin


def statuses(motion):
    """Return the statuses of a motion as an array of whole numbers."""
    return np.asarray(motion.status).tolist()


@case("Haug", "Example 3.7.1: slider-crank that locks up", SINGULARITIES, quick=True)
def lock_up(by):
    """Check time and state of the lock-up of a slider-crank with a rod shorter than the crank."""
    for rod in (0.5, 0.9):
        mech, guess = slider_crank(rod), coupler_guess(rod, GRID[0])
        found = mbs.find_singularities(mech, GRID, guess)
        yield same(f"kind, ℓ = {rod}", found.kinds, ("lock-up",))
        yield close(f"sin φ₁ = ℓ = {rod}", found.times, np.arcsin(rod), 1e-12, "rad")
        yield close(f"x₂ = √(1 − ℓ²), φ₂ = 0 (3.7.5), ℓ = {rod}", found.q[0, 3:], [np.sqrt(1 - rod**2), 0, 0], 1e-9)
        yield same(f"ν is not in the range of Φ_q there, ℓ = {rod}", bool(found.rates[0] > 0.1), True)
        wanted = np.where(np.arcsin(rod) > GRID, mbs.Status.CONVERGED, mbs.Status.LOCKED_UP).tolist()
        yield same(f"status by time, ℓ = {rod}", statuses(mbs.kinematics(mech, GRID, guess)), wanted)


@case("Haug", "Example 3.7.1: bifurcation for ℓ = 1, no singular position for ℓ = 1.2", SINGULARITIES, quick=True)
def bifurcation(by):
    """Check the bifurcation of a slider-crank with equal crank and rod, and that a longer rod has none."""
    mech, guess = slider_crank(1.0), coupler_guess(1.0, GRID[0])
    found = mbs.find_singularities(mech, GRID, guess)
    yield same("kind", found.kinds, ("bifurcation",))
    yield close("φ₁ = π/2", found.times, np.pi / 2, 1e-9, "rad")
    yield below("ν is in the range of Φ_q there", found.rates, 1e-8)
    motion = mbs.kinematics(mech, GRID, guess, throw=True)
    yield close("x₂ = 2 cos φ₁ after the bifurcation", motion.position("coupler.x"), 2 * np.cos(GRID), 1e-9)
    longer = mbs.find_singularities(slider_crank(1.2), GRID, coupler_guess(1.2, GRID[0]))
    yield same("no singular position for ℓ = 1.2", longer.kinds, ())


@case("Haug", "Example 3.7.1: backwards from lock-up, two motions", KINEMATICS, quick=True)
def two_motions(by):
    """Compare the two motions of a slider-crank backwards from its lock-up with closed forms."""
    angles, mech = np.array([0.5, 0.4, 0.3, 0.2]), slider_crank(0.5)
    half = np.sqrt(0.25 - np.sin(angles) ** 2)
    for side, text in ((1, "right"), (-1, "left")):
        found = mbs.kinematics(mech, angles, coupler_guess(0.5, angles[0], side), throw=True).position("coupler.x")
        yield close(f"O₂ to the {text} of P", found, np.cos(angles) + side * half, 1e-11)


@case("Haug", "Example 3.7.2: parallelogram, flat positions", SINGULARITIES, quick=True)
def flat_parallelogram(by):
    """Check the bifurcations of a parallelogram where it is flat."""
    mech, start = parallelogram(), 0.5
    guess = {"crank": (0, 0, start), "coupler": (np.cos(start), np.sin(start), 0), "rocker": (2, 0, start)}
    grid = np.linspace(start, start + 2 * np.pi, 41)
    found = mbs.find_singularities(mech, grid, guess)
    yield same("kinds", found.kinds, ("bifurcation", "bifurcation"))
    yield close("angles π and 2π", found.times, [np.pi, 2 * np.pi], 1e-9, "rad")
    motion = mbs.kinematics(mech, grid, guess, throw=True)
    yield close("angle of the coupler", motion.position("coupler.phi"), 0, 1e-9, "rad")
    # A grid whose 21st time is π.
    status = statuses(mbs.kinematics(mech, np.linspace(start, 2 * np.pi - start, 41), guess))
    yield same("output times with status SINGULAR", [k for k, x in enumerate(status) if x == mbs.Status.SINGULAR], [20])


@case("Haug", "Example 3.7.3: one coordinate, (3.7.2)", KINEMATICS, quick=True)
def one_coordinate_closed_form(by):
    """Compare both branches of a slider-crank with one coordinate with the closed form."""
    for rod, sign in ((1.5, 1), (1.5, -1), (0.5, 1)):
        times = np.linspace(0.1, 0.5 if rod < 1 else 6.0, 20)
        wanted = np.cos(times) + sign * np.sqrt(np.cos(times) ** 2 + rod**2 - 1)
        guess = {"crank": (0, 0, times[0]), "slider": (wanted[0], 0, 0)}
        motion = mbs.kinematics(one_coordinate(rod), times, guess, throw=True)
        yield close(f"q(t), ℓ = {rod}, sign {sign:+d}", motion.position("slider.x"), wanted, 1e-11)


@case("Haug", "Example 3.7.4, Problem 3.7.3: growth towards lock-up", KINEMATICS, quick=True)
def growth(by):
    """Yield comparisons of q, q̇, q̈ up to a lock-up with the closed form; `by`, the case's analysis, is not used."""
    mech, t = one_coordinate(0.5), np.array([0.4, 0.45, 0.5, 0.52, 0.523, 0.5235])
    q = np.cos(t) + np.sqrt(np.cos(t) ** 2 - 0.75)
    guess = {"crank": (0, 0, t[0]), "slider": (q[0], 0, 0)}
    motion = mbs.kinematics(mech, t, guess, throw=True)
    by_q, by_t = 2 * (q - np.cos(t)), -2 * q * np.sin(t)
    velocity = by_t / by_q
    # γ of (3.7.1), differentiated by hand.
    acceleration = -(2 * velocity**2 + 4 * velocity * np.sin(t) + 2 * q * np.cos(t)) / by_q
    yield near("q", motion.position("slider.x"), q, 1e-10)
    yield near("q̇", motion.velocity("slider.x"), velocity, 1e-8)
    yield near("q̈, up to 10⁴", motion.acceleration("slider.x"), acceleration, 1e-7)
    row = mech.layout.row_slices["coupler"]
    matrix = np.stack([mbs.constraint_jacobian(mech, x, s)[row][0] for x, s in zip(motion.q, t, strict=True)])
    yield close("Φ_q = 2 (q − cos t)", matrix[:, mech.layout.index("slider.x")], by_q, 1e-9)
    found = mbs.find_singularities(mech, np.linspace(0.4, 0.6, 5), guess)
    yield same("lock-up", found.kinds, ("lock-up",))
    yield close("angle π/6", found.times, np.pi / 6, 1e-12, "rad")


@case("Haug", "Example 3.7.5, Problem 3.7.4: determinants", EQUATIONS, quick=True)
def determinants(by):
    """Compare determinants of Φ_q of a slider-crank with the closed form."""
    mech, found, wanted = slider_crank(1.3), [], []
    for angle in (0.2, 1.1, 2.5):
        q = mech.coordinates(coupler_guess(1.3, angle))
        found.append(abs(np.linalg.det(mbs.constraint_jacobian(mech, q, angle))))
        wanted.append(abs(1.3 * np.sin(q[5])))
    yield close("|Φ_q| = −ℓ sin φ₂ (3.7.5), up to the order of rows", found, wanted, 1e-13)
    # Through the bifurcation, at 85° and 95°.
    mech, angles = slider_crank(1.0), np.array([1.0, 1.4835, 1.6581])
    motion = mbs.kinematics(mech, angles, coupler_guess(1.0, angles[0]), throw=True)
    found = [np.linalg.det(mbs.constraint_jacobian(mech, *x)) for x in zip(motion.q[1:], angles[1:], strict=True)]
    yield close("|Φ_q| = ∓cos φ₁ for ℓ = 1", np.abs(found), np.abs(np.cos(angles[1:])), 1e-9)
    yield same("its change of sign", found[0] * found[1] < 0, True)


@case("Haug", "Example 3.7.6: change of design at lock-up", Analysis("assemble, design_jacobian"), quick=True)
def change_of_design(by):
    """Compare assemblies of a slider-crank at lock-up with a longer and a shorter rod, and ranks of Φ_q and Φ_b."""
    rod = 0.6
    angle = np.arcsin(rod)
    start = {"crank": (0, 0, angle), "coupler": (np.cos(angle), 0, 0)}
    for side, text in ((1, "one"), (-1, "other")):
        guess = {**start, "coupler": (np.cos(angle) + 0.05 * side, 0, 0.1 * side)}
        longer = mbs.assemble(slider_crank(rod + 0.01), guess, angle, throw=True)
        wanted = np.cos(angle) + side * np.sqrt((rod + 0.01) ** 2 - rod**2)
        yield close(f"x₂ of a longer rod, {text} assembly", longer.q[3], wanted, 1e-9)
    status = int(mbs.assemble(slider_crank(rod - 0.01), start, angle).status)
    yield same("status of the assembly of a shorter rod", status, int(mbs.Status.NOT_ASSEMBLED))
    # (3.7.12): Φ_b is not in the range of Φ_q there, so that no δq follows a change of ℓ.
    q = mbs.assemble(slider_crank(rod), start, angle).q
    matrix = np.asarray(mbs.constraint_jacobian(slider_crank(rod), q, angle))
    by_rod = np.asarray(mbs.design_jacobian(slider_crank, jnp.asarray(rod), q, angle))
    ranks = [int(np.linalg.matrix_rank(m, tol=1e-5)) for m in (matrix, np.column_stack([matrix, by_rod]))]
    yield same("ranks of Φ_q and of (Φ_q, Φ_b) (3.7.12)", ranks, [5, 6])


@case("Haug", "design sensitivity of the slider-crank away from lock-up", Analysis("design_sensitivity"), quick=True)
def sensitivity(by):
    """Compare the derivatives of a slider-crank's q by the rod's length with the closed form."""
    rod, angle = jnp.asarray(1.3), 0.7
    q = mbs.assemble(slider_crank(rod), coupler_guess(1.3, angle), angle, throw=True).q
    found = mbs.design_sensitivity(slider_crank, rod, q, angle)
    # x₂ = cos φ₁ + √(ℓ² − sin² φ₁), cos φ₂ = sin φ₁ / ℓ.
    across = np.sqrt(1.3**2 - np.sin(angle) ** 2)
    yield close("dx₂/dℓ", found[3], 1.3 / across, 1e-12)
    yield close("dφ₂/dℓ", found[5], np.sin(angle) / (1.3 * across), 1e-12)
    yield close("derivatives of all other coordinates", found[jnp.array([0, 1, 2, 4])], 0, 1e-12)


@case("Haug", "Example 3.7.7: redundant bar of a parallelogram", DIAGNOSIS, quick=True)
def redundant_bar(by):
    """Check that a parallelogram with a third bar has one redundant constraint in all positions."""
    mech = five_bar_parallelogram()
    for angle in (0.3, 1.2, 2.8):
        x, y = np.cos(angle), np.sin(angle)
        report = mbs.diagnose(mech, {"bar": (x, y, 0)})
        found = report.rank, report.dof, report.redundant, report.consistent
        yield same(f"rank, freedom, redundant bar at {angle} rad", found, (2, 1, ("third",), True))
        wanted = [[2 * x, 2 * y, 0], [2 * x, 2 * y, 2 * y], [2 * x, 2 * y, 4 * y]]
        matrix = mbs.constraint_jacobian(mech, jnp.array([x, y, 0.0]))
        yield close(f"Φ_q (3.7.14) at {angle} rad", matrix, wanted, 1e-14)


@case("Haug", "Example 3.7.7: motion of the parallelogram with its redundant bar", KINEMATICS, quick=True)
def redundant_bar_moves(by):
    """Compare a parallelogram with a redundant bar, driven by y, with the closed form."""
    held = five_bar_parallelogram()
    driver = planar.AbsoluteYDriver("bar", (0, 0), mbs.motion.Harmonic(0.9, 1.0))
    mech, times = mbs.Mechanism(held.bodies, held.constraints, {"lift": driver}), np.linspace(0.2, 1.4, 7)
    y = 0.9 * np.sin(times)
    motion = mbs.kinematics(mech, times, {"bar": (np.sqrt(1 - y[0] ** 2), y[0], 0)}, throw=True)
    yield close("x", motion.position("bar.x"), np.sqrt(1 - y**2), 1e-11)
    yield close("ẏ", motion.velocity("bar.y"), 0.9 * np.cos(times), 1e-11)
    yield close("angle", motion.position("bar.phi"), 0, 1e-11, "rad")


@case(
    "Haug",
    "section 12.2: spatial slider-crank, 1 s",
    *(Simulation(2e-4, formulation=f) for f in FORMULATIONS),
    references=("spatial_slider_crank",),
)
def spatial_slider_crank(by, problem):
    """Compare the free motion of the spatial slider-crank with the reference table."""
    p, rows = problem["parameters"], np.array(problem["rows_centre_of_mass_at_pivot"])
    mech, start = spatial_problems.slider_crank()
    run = by.run(mech, rows[:, 0], start, {"crank.wx": rows[0, 4]})
    pin = run.point("crank", (0, 0, p["crank_length"])) - np.array(p["A"])
    positions = [run.position("slider.x"), np.arctan2(-pin[:, 1], pin[:, 2]), *run.point("rod").T]
    velocities = [run.velocity("slider.x"), run.velocity("crank.wx"), *spin(run, "rod").T]
    yield close("slider, crank angle, middle of the rod", np.transpose(positions), rows[:, [1, 3, 5, 6, 7]], 1e-9)
    yield close("velocities of slider, crank, rod", np.transpose(velocities), rows[:, [2, 4, 8, 9, 10]], 2e-9)
    yield close("energy", run.energy.total, rows[:, 11], 1e-10, "J")
    yield gap(mech, run)
