"""Haug 3.1 to 3.3 and 3.6: concepts, absolute and relative constraints, position, velocity and acceleration analysis."""

import jax.numpy as jnp
import numpy as np

import haug_analysis
import haug_relative
import jaxmbs as mbs
from haug_analysis import LAST_PLACE, PRINTED
from haug_concepts import (
    LENGTH,
    TENTHS,
    Slide,
    SlideOrthogonal,
    driven_pendulum,
    equations,
    inclined_slider,
    pendulum,
    slider_crank,
)
from jaxmbs import planar
from verification.case import DIAGNOSIS, EQUATIONS, KINEMATICS, Analysis, case, close, same

# Steps of Newton's method on Φ(q) = 0.
NEWTON = Analysis("Newton–Raphson steps")


def compare_motion(motion, q, v, a, tolerances=(1e-12, 1e-11, 1e-10)):
    """Yield comparisons of all positions, velocities and accelerations of a motion with q, v, a.

    q, v, a: lists of columns, (T,) or one number each. tolerances: largest absolute errors of positions, velocities and
    accelerations.
    """
    for quantity, found, wanted, tolerance in zip(
        ("positions", "velocities", "accelerations"), (motion.q, motion.v, motion.a), (q, v, a), tolerances, strict=True
    ):
        yield close(quantity, found, np.stack(np.broadcast_arrays(*wanted), 1), tolerance)


@case("Haug", "Example 3.1.1: pendulum, its equations", EQUATIONS, quick=True)
def pendulum_equations(by):
    """Compare Φ, Φ_q, ν and γ of a driven pendulum with the printed formulas."""
    mech = pendulum(mbs.motion.Polynomial((0.1, 0.7, -0.4)))
    (x, y, phi), (vx, vy, w), t = (0.3, -0.8, 0.6), (0.2, -1.1, 1.7), 0.5
    s, c = np.sin(phi), np.cos(phi)
    found = equations(mech, jnp.array([x, y, phi]), jnp.array([vx, vy, w]), jnp.asarray(t))
    yield close("Φ (3.1.7)", found[0], [x - s, y + c, phi - (0.1 + 0.7 * t - 0.4 * t**2)], 1e-15)
    yield close("Φ_q (3.1.8)", found[1], [[1, 0, -c], [0, 1, -s], [0, 0, 1]], 1e-15)
    yield close("|Φ_q|", np.linalg.det(found[1]), 1, 1e-15)
    yield close("ν", found[2], [0, 0, 0.7 - 0.8 * t], 1e-15)
    yield close("γ", found[3], [-(w**2) * s, w**2 * c, -0.8], 1e-15)


@case("Haug", "Problem 3.1.1: driven pendulum, eleven times", KINEMATICS, quick=True)
def driven_by_a_sine(by):
    """Compare a pendulum driven by a sine with its closed form."""
    mech = pendulum(mbs.motion.Harmonic(1.0, 10.0))
    motion = mbs.kinematics(mech, TENTHS, {"pendulum": (0.1, -0.9, 0.1)}, throw=True)
    phi, w, w_dot = np.sin(10 * TENTHS), 10 * np.cos(10 * TENTHS), -100 * np.sin(10 * TENTHS)
    s, c = np.sin(phi), np.cos(phi)
    a = c * w_dot - s * w**2, s * w_dot + c * w**2, w_dot
    yield from compare_motion(motion, (s, -c, phi), (c * w, s * w, w), a, (1e-12, 1e-10, 1e-9))
    yield same("degrees of freedom without drivers", mbs.diagnose(mech, motion.q[3], TENTHS[3]).dof, 1)


@case("Haug", "Example 3.1.2: slider-crank, its equations", EQUATIONS, quick=True)
def slider_crank_equations(by):
    """Compare Φ, Φ_q, ν and γ of a slider-crank with the printed formulas."""
    omega, t = 2.5, 0.3
    q, v = jnp.array([0.1, -0.2, 0.7, 2.1, 0.3, 1.2]), jnp.array([0.4, 0.3, -1.1, 0.2, 0.9, 1.6])
    x1, y1, phi1, x2, y2, phi2 = np.asarray(q)
    s1, c1, s2, c2 = np.sin(phi1), np.cos(phi1), LENGTH * np.sin(phi2), LENGTH * np.cos(phi2)
    Phi, matrix, nu, gamma = equations(slider_crank(omega), q, v, jnp.asarray(t))
    wanted = [x1, y1, y2, x1 - x2 + c1 + s2, y1 - y2 + s1 - c2, phi1 - omega * t]
    yield close("Φ (3.1.11), (3.1.12)", Phi, wanted, 1e-14)
    wanted = np.zeros((6, 6))
    wanted[[0, 1, 2, 3, 3, 4, 4, 5], [0, 1, 4, 0, 3, 1, 4, 2]] = [1, 1, 1, 1, -1, 1, -1, 1]
    wanted[3, [2, 5]], wanted[4, [2, 5]] = [-s1, c2], [c1, s2]
    yield close("Φ_q (3.1.14)", matrix, wanted, 1e-14)
    yield close("|Φ_q| = −ℓ sin φ₂", np.linalg.det(matrix), -s2, 1e-14)
    yield close("ν (3.1.14)", nu, [0, 0, 0, 0, 0, omega], 1e-14)
    w1, w2 = v[2], v[5]
    wanted = [0, 0, 0, w1**2 * c1 + w2**2 * s2, w1**2 * s1 - w2**2 * c2, 0]
    yield close("γ (3.1.15)", gamma, wanted, 1e-14)


@case("Haug", "Example 3.1.2: slider-crank, its motion", KINEMATICS, quick=True)
def slider_crank_motion(by):
    """Compare the motion of a slider-crank with its closed form."""
    omega = 8.0
    motion = mbs.kinematics(slider_crank(omega), TENTHS, {"coupler": (2.5, 0.1, 1.5)}, throw=True)
    phi1 = omega * TENTHS
    s1, c1 = np.sin(phi1), np.cos(phi1)
    phi2 = np.arccos(s1 / LENGTH)
    s2, c2 = LENGTH * np.sin(phi2), LENGTH * np.cos(phi2)
    w2 = -omega * c1 / s2
    w2_dot = (omega**2 * s1 - w2**2 * c2) / s2
    zero = 0 * s1
    q = zero, zero, phi1, c1 + s2, zero, phi2
    v = zero, zero, zero + omega, -omega * s1 + w2 * c2, zero, w2
    a = zero, zero, zero, -(omega**2) * c1 + w2_dot * c2 - w2**2 * s2, zero, w2_dot
    yield from compare_motion(motion, q, v, a)
    yield close("distance of pin P from its circle", motion.point("coupler", (0, LENGTH)), np.stack([c1, s1], 1), 1e-12)
    report = mbs.diagnose(slider_crank(omega), motion.q[4], TENTHS[4])
    yield same("degrees of freedom without drivers", report.dof, 1)


@case("Haug", "Example 3.1.3, Problem 3.2.3: inclined slider", KINEMATICS, quick=True)
def inclined_slider_motion(by):
    """Compare a block on an inclined line with its closed form; its second model is singular at the origin."""
    times = 4 * (TENTHS - 0.5)  # the sixth is exactly 0, where the block passes the origin
    guess = {"block": (-1.0, -1.0, 0.8)}
    good = mbs.kinematics(inclined_slider(Slide), times, guess, throw=True)
    straight = times / 2, times / 2, np.full(11, np.pi / 4)
    yield from compare_motion(good, straight, (0.5, 0.5, 0 * times), 3 * (0 * times,), (1e-12, 1e-12, 1e-12))
    bad = mbs.kinematics(inclined_slider(SlideOrthogonal), times, guess)
    yield close("positions with (3.1.17)", bad.q, np.stack(straight, 1), 1e-12)
    wanted = [int(mbs.Status.SINGULAR if t == 0 else mbs.Status.CONVERGED) for t in times]
    yield same("(3.1.17) is singular at the origin", np.asarray(bad.status).tolist(), wanted)


@case("Haug", "Example 3.2.1: pendulum of length 2", KINEMATICS, quick=True)
def pendulum_of_length_two(by):
    """Compare Φ, Φ_q, γ and the motion of a pendulum of length 2 with formulas."""
    mech = driven_pendulum((1, 1), (1, 0), mbs.motion.Harmonic(1.2, 3.0, offset=2.0))
    (x, y, phi), w = (0.4, -0.3, 0.9), 1.7
    s, c = np.sin(phi), np.cos(phi)
    Phi, matrix, _, gamma = equations(mech, jnp.array([x, y, phi]), jnp.array([0.3, 0.2, w]), jnp.zeros(()))
    yield close("Φ (3.2.3)", Phi[:2], [x + c - 1, y + s - 1], 1e-15)
    yield close("Φ_q (3.2.4)", matrix[:2], [[1, 0, -s], [0, 1, c]], 1e-15)
    yield close("γ (3.2.5)", gamma[:2], [c * w**2, s * w**2], 1e-14)
    motion = mbs.kinematics(mech, TENTHS, {"pendulum": (1.4, 0.1, 2.0)}, throw=True)
    phi = 2 + 1.2 * np.sin(3 * TENTHS)
    w, w_dot = 3.6 * np.cos(3 * TENTHS), -10.8 * np.sin(3 * TENTHS)
    s, c = np.sin(phi), np.cos(phi)
    a = s * w_dot + c * w**2, -c * w_dot + s * w**2, w_dot
    yield from compare_motion(motion, (1 - c, 1 - s, phi), (s * w, -c * w, w), a, (1e-12, 1e-12, 1e-11))
    yield close("displacement of the pivot", motion.point("pendulum", (1, 0)), 1, 1e-12)


@case("Haug", "Example 3.2.2: slider on the x axis", KINEMATICS, quick=True)
def slider_on_the_axis(by):
    """Compare a slider on the x axis with its closed form."""
    mech = mbs.Mechanism(
        bodies={"slider": planar.Body()},
        constraints={
            "on the axis": planar.AbsoluteY("slider", (0, 0), 0.0),
            "without turning": planar.AbsoluteAngle("slider", 0.0),
        },
        drivers={"push": planar.AbsoluteXDriver("slider", (0, 0), mbs.motion.Polynomial((0.2, -1.0, 3.0)))},
    )
    q, v = jnp.array([0.3, -0.7, 0.4]), jnp.array([1.1, 0.5, -2.0])
    Phi, matrix, _, gamma = equations(mech, q, v, jnp.zeros(()))
    yield close("Φ", Phi[:2], [-0.7, 0.4], 1e-15)
    yield close("Φ_q", matrix[:2], [[0, 1, 0], [0, 0, 1]], 1e-15)
    yield close("γ", gamma[:2], 0, 1e-15)
    motion = mbs.kinematics(mech, TENTHS, q, throw=True)
    x, zero = 0.2 - TENTHS + 3 * TENTHS**2, 0 * TENTHS
    yield from compare_motion(
        motion, (x, zero, zero), (-1 + 6 * TENTHS, zero, zero), (6 + zero, zero, zero), (1e-13, 1e-13, 1e-12)
    )
    report = mbs.diagnose(mech, motion.q[0])
    yield same("degrees of freedom, rank", (report.dof, report.rank, report.redundant), (1, 3, ()))


def relative(problem, make, guess, points, closed_form, counts):
    """Register a model of section 3.3: motion of its points, and nc, nh as the book counts them."""

    @case("Haug", problem, KINEMATICS, quick=True)
    def model(by):
        """Compare the motion of two points, and the counts of coordinates and constraints."""
        mech = make()
        motion = mbs.kinematics(mech, haug_relative.TENTHS, guess, throw=True)
        found = haug_relative.points_in_motion(motion, points)
        for quantity, got, wanted in zip(
            ("positions", "velocities", "accelerations"), found, closed_form(), strict=True
        ):
            yield close(f"{quantity} of two pins", got, wanted, 1e-10)
        report = mbs.diagnose(mech, motion.q[0])
        numbers = mech.layout.n, mech.layout.kinematic_rows, report.dof, report.free, report.redundant
        yield same("coordinates minus constraints = 1", numbers, (*counts, 1, 0, ()))


def from_parts(guess, joints, drivers):
    """Return a function that builds the mechanism of these joints and drivers."""
    return lambda: mbs.Mechanism(dict.fromkeys(guess, planar.Body()), joints, drivers)


for _name, _counts in {
    "three bodies": (9, 8),
    "crank and rocker": (6, 5),
    "crank and coupler": (6, 5),
    "coupler": (3, 2),
    "four bodies": (12, 11),
}.items():
    _guess, _joints, _drivers, _points = haug_relative.FOUR_BARS[_name]
    relative(
        f"Example 3.3.{3 if _name == 'four bodies' else 2}: four-bar, model of {_name}",
        from_parts(_guess, _joints, _drivers),
        _guess,
        _points,
        haug_relative.four_bar_closed_form,
        _counts,
    )

# Free end of the crank, which several models share, as (body, point).
_END = ("crank", (2, 0))
for _problem, _make, _guess, _points, _counts in (
    (
        "Example 3.3.1: slider-crank of two bodies",
        lambda: haug_relative.two_body_slider_crank(lambda *ij: haug_relative.common_pin("P", *ij)),
        {"rod": (9.9, 0.1, np.pi / 2)},
        [("crank", (haug_relative.CRANK_LENGTH, 0)), ("rod", (0, 0))],
        (6, 5),
    ),
    (
        "Example 3.3.4: slider-crank of four bodies",
        haug_relative.slider_crank_with_slider,
        {"crank": (2, 0, 0), "rod": (7, 0.1, 0.1), "slider": (10, 0, 0.1)},
        [_END, ("slider", (0, 0))],
        (12, 11),
    ),
    (
        "Example 3.3.5: slider-crank with a composite joint",
        haug_relative.slider_crank_with_composite,
        {"crank": (2, 0, 0), "rod": (7, 0.1, 0.1)},
        [_END, ("rod", (3, 0))],
        (9, 8),
    ),
):
    relative(_problem, _make, _guess, _points, haug_relative.slider_crank_closed_form, _counts)


@case("Haug", "Example 3.6.1: redundant constraints of a block", DIAGNOSIS, quick=True)
def redundant_block(by):
    """Compare rank, redundancy and consistency of a block with one constraint too many."""
    start = mbs.assemble(haug_analysis.block(), {"block": (0.7, 0.1, 0.2)}, throw=True)
    yield close("assembled", start.q, [0.7, 0, 0], 1e-10)
    for angle, text in ((None, "without φ₁"), (0.0, "with φ₁ = 0"), (0.1, "with φ₁ = 0.1")):
        mech = haug_analysis.block(**({} if angle is None else {"angle": planar.AbsoluteAngle("block", angle)}))
        report = mbs.diagnose(mech, start.q)
        found = report.rank, report.redundant, report.consistent, report.dof
        yield same(
            f"rank, redundant, consistent, {text}", found, (2, () if angle is None else ("angle",), angle != 0.1, 1)
        )
    status = mbs.assemble(mech, {"block": (0.7, 0.1, 0.2)}).status
    yield same("status of the assembly with φ₁ = 0.1", int(status), int(mbs.Status.NOT_ASSEMBLED))


@case("Haug", "Example 3.6.2: double pendulum, Newton–Raphson from the book's estimate", NEWTON, quick=True)
def newton(by):
    """Compare the first steps of Newton's method with those printed."""
    # The book solves each step with printed numbers and continues from the rounded result.
    printed_form, estimate = haug_analysis.printed_form, haug_analysis.ESTIMATE
    Phi, matrix, _, _ = printed_form(estimate)
    right = [0, 0, -0.0102, -0.0087, 0, 0]
    first, second = np.array([0, 0, 0, -0.0089, 0, 0.0088]), np.array([0, 0, 0, -0.0001, 0, 0])
    yield close("Φ_q at the estimate as printed", matrix, haug_analysis.PRINTED_AT_ESTIMATE, PRINTED)
    yield close("−Φ at the estimate as printed", -Phi, right, PRINTED)
    yield close("first correction as printed", np.linalg.solve(matrix, -Phi), first, LAST_PLACE)
    Phi, matrix, _, _ = printed_form(estimate + first)
    yield close("second correction as printed", np.linalg.solve(matrix, -Phi), second, PRINTED)
    yield close("Φ after the second correction", printed_form(estimate + first + second)[0], 0, 1e-4)


@case("Haug", "Example 3.6.2: double pendulum at t = 0", EQUATIONS, quick=True)
def double_pendulum_at_start(by):
    """Compare the assembled double pendulum, its velocities and accelerations with the printed ones."""
    # The book computes with rounded numbers, and one right side has the wrong sign: its own φ̈₂ = −0.2490 needs +0.2468.
    start = mbs.assemble(haug_analysis.double_pendulum(), haug_analysis.ESTIMATE, throw=True)
    q, v, a = haug_analysis.pendulum_closed_form(np.zeros(()))
    yield close("positions as printed", start.q, [0.5, -0.8660, haug_analysis.UPPER_ANGLE, 1.4910, -1, 6.1488], PRINTED)
    yield close("positions, closed form", start.q, q, 1e-12)
    _, matrix, nu, _ = haug_analysis.printed_form(start.q)
    velocity = np.linalg.solve(matrix, nu)
    yield close("Φ_q as printed", matrix, haug_analysis.PRINTED_AT_START, PRINTED)
    yield close("velocities as printed", velocity, [0.4534, 0.2618, 0.5236, 0.4180, 0, -0.2642], LAST_PLACE)
    yield close("velocities, closed form", velocity, v, 1e-12)
    gamma = haug_analysis.printed_form(start.q, velocity)[3]
    acceleration = np.linalg.solve(matrix, gamma)
    yield close("γ as printed", gamma, [-0.1371, 0.2374, -0.2063, 0.2468, 0, 0], LAST_PLACE)
    yield close("accelerations as printed", acceleration, [-0.1371, 0.2374, 0, -0.2397, 0, -0.2490], LAST_PLACE)
    yield close("accelerations, closed form", acceleration, a, 1e-12)


@case("Haug", "Example 3.6.2: double pendulum, its motion", KINEMATICS, quick=True)
def double_pendulum_motion(by):
    """Compare the motion of the double pendulum with its closed form."""
    times = 1.5 * TENTHS
    motion = mbs.kinematics(haug_analysis.double_pendulum(), times, haug_analysis.ESTIMATE, throw=True)
    yield from compare_motion(motion, *(x.T for x in haug_analysis.pendulum_closed_form(times)), (1e-11, 1e-11, 1e-11))


@case("Haug", "Problem 3.6.2: pendulum on a slider", KINEMATICS, quick=True)
def pendulum_on_a_slider(by):
    """Compare the motion of a pendulum on a slider with its closed form."""
    # The figure is missing: the slider keeps its angle 0, the pendulum of length 2 hangs from its origin, its frame at the
    # free end with y′ towards the pin. Driven by x₁ = 0.2t and φ₂ = φ₁ + π/6 + t/10.
    mech = mbs.Mechanism(
        bodies={"slider": planar.Body(), "pendulum": planar.Body()},
        constraints={
            "on the axis": planar.AbsoluteY("slider", (0, 0), 0.0),
            "without turning": planar.AbsoluteAngle("slider", 0.0),
            "pin": planar.Revolute("slider", "pendulum", (0, 0), (0, 2)),
        },
        drivers={
            "push": planar.AbsoluteXDriver("slider", (0, 0), mbs.motion.Ramp(0.2)),
            "swing": planar.RevoluteDriver("slider", "pendulum", mbs.motion.Ramp(0.1), angle_i=np.pi / 6),
        },
    )
    times = 5 * TENTHS
    estimate = {"slider": (0, 0, 0.001), "pendulum": (0.45, -1.73, np.pi / 6)}
    motion = mbs.kinematics(mech, times, estimate, throw=True)
    phi, zero = np.pi / 6 + times / 10, 0 * times
    s, c = np.sin(phi), np.cos(phi)
    q = 0.2 * times, zero, zero, 0.2 * times + 2 * s, -2 * c, phi
    v = zero + 0.2, zero, zero, 0.2 + 0.2 * c, 0.2 * s, zero + 0.1
    a = zero, zero, zero, -0.02 * s, 0.02 * c, zero
    yield from compare_motion(motion, q, v, a, (1e-12, 1e-12, 1e-12))
