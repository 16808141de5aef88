"""Degrees of freedom, rank, and which named constraints are redundant; Haug 3.6.1 and 3.7."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxmbs.analyses.assembly import assembled_configuration
from jaxmbs.analyses.branches import linearise, max_singular_distance, singular_near, tangents
from jaxmbs.numerics.arrays import is_concrete
from jaxmbs.numerics.results import Status, check_outside
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE, Units, gap_limit, unit_of_length
from jaxmbs.system.equations import constraint_jacobian, constraints
from jaxmbs.system.idle import idle_spins
from jaxmbs.system.inputs import analysis_inputs
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.trajectory import Trajectory

# Number of configurations beside a given one that are diagnosed to tell whether Φ_q is singular only there.
NEIGHBOURS = 3
# Distance of these neighbours from the given configuration, in radians and sizes of the mechanism.
NEIGHBOUR_DISTANCE = 0.3
# Number of Newton steps that close the constraints at each neighbour.
NEIGHBOUR_CLOSING_STEPS = 12
# A message names a body as movable if an entry for it in a null vector of Φ_q, of unit length, is larger than this.
MIN_MOVING_ENTRY = 1e-4


class Diagnosis(NamedTuple):
    """Rank, degrees of freedom and redundant constraints of a mechanism in one configuration.

    Attributes:
        dof: degrees of freedom of the mechanism without its drivers: m − rank of the other rows of Φ_q.
        rank: rank of the whole Φ_q, drivers included.
        free: degrees of freedom that no driver determines, m − rank.
        singular_values: of Φ_q with its rows scaled to unit length, in descending order.
        redundant: names of constraints and drivers with a row that depends on rows before it, in order.
        consistent: True if those rows agree with the others, so that Φ = 0 can be satisfied close by.
        misfits: the largest |Φ_k| of each constraint and driver whose gap is more than rounding, the largest first. In an
            assembled configuration these are redundant constraints that contradict each other.
        tangents: (b, m) velocities of the motions that meet in a singular configuration, the slowest first, Haug (3.7.10);
            none in a regular one, at a lock-up, or where drivers are missing. Pass one of them to `kinematics` as
            `branch` to follow that motion.

    Examples:
        >>> walls = {"wall": planar.AbsoluteX("a", (0, 0), 1.0), "other": planar.AbsoluteX("a", (0, 0), 2.0)}
        >>> diagnosis = mbs.diagnose(mbs.Mechanism({"a": planar.Body()}, walls), {"a": (1, 0, 0)})
        >>> diagnosis.redundant, diagnosis.consistent
        (('other',), False)
    """

    dof: int
    rank: int
    free: int
    singular_values: np.ndarray
    redundant: tuple[str, ...]
    consistent: bool
    misfits: dict[str, float]
    tangents: np.ndarray


def diagnose(mech: Mechanism, q: Coordinates, t: ArrayLike = 0.0, *, tolerance: float = DEFAULT_TOLERANCE) -> Diagnosis:
    """Return rank, degrees of freedom, redundant constraints and branches of a mechanism in an assembled configuration.

    Rows of Φ_q are taken in order, constraints before drivers. So if several rows depend on each other, the last one is
    named as redundant. If there is a singular configuration within 1e-5 of q, in radians and sizes of the mechanism, that
    one is diagnosed instead: an assembly cannot tell them apart. If q has a gap δ, this distance is 4 √δ.
    All numbers of the mechanism must be known.

    Args:
        mech: the mechanism.
        q: configuration (n,), or a mapping of names to coordinates; see `Mechanism.coordinates`.
        t: time.
        tolerance: accuracy of the geometry, relative to the size of the mechanism. Rows of Φ_q count as dependent if they
            differ by no more than about this from rows that are.

    Returns:
        Rank, degrees of freedom, names of redundant constraints and drivers, and the velocities (b, m) of branches; see
        `Diagnosis`.

    Raises:
        ValueError: a call inside jit, vmap or grad; an unknown name in q, or a wrong number of values; or numbers of Φ
            or Φ_q that are not finite: the message names the constraints and drivers.

    Examples:
        >>> diagnosis = mbs.diagnose(mech, guess)
        >>> diagnosis.dof, diagnosis.rank, diagnosis.free, diagnosis.redundant
        (1, 9, 0, ())
    """
    check_outside("diagnose", "inside, look at `constraint_jacobian`", mech, q, t)
    mech, q, t = analysis_inputs(mech, q, t)
    report = _diagnose(mech, q, t, tolerance)
    free = len(mech.layout.row_owners) + len(idle_spins(mech)) < mech.layout.m
    if free or report.singular_values[-1] > max_singular_distance(tolerance):
        return report
    q = singular_near(mech, q, t)
    return _diagnose(mech, q, t, tolerance)._replace(tangents=tangents(mech, q, t))


@eqx.filter_jit
def _jacobian_gaps_and_size(mech: Mechanism, q: Array, t: Array) -> tuple[Array, Array, Array]:
    """Return Φ_q (rows, m), Φ (rows,), and the size of the mechanism."""
    return constraint_jacobian(mech, q, t), constraints(mech, q, t), mech.size(q)


def _diagnose(mech: Mechanism, q: Array, t: Array, tolerance: float) -> Diagnosis:
    """Return the `Diagnosis` of exactly this configuration, with no tangents."""
    layout, eps = mech.layout, float(jnp.finfo(q.dtype).eps)
    matrix, value, size = (np.asarray(x, float) for x in _jacobian_gaps_and_size(mech, q, t))
    bad = dict.fromkeys(layout.row_owners[k] for k in np.flatnonzero(~np.isfinite(np.c_[matrix, value]).all(axis=1)))
    if bad:
        raise ValueError(f"not finite: {', '.join(map(repr, bad))}")
    lengths = np.linalg.norm(matrix, axis=1)
    scale = np.where(lengths > 0, lengths, 1)
    rows, gaps = matrix / scale[:, None], value / scale
    # At singular positions, coordinates and values that should vanish have errors of about √eps. Redundant
    # constraints that contradict each other by the tolerance also have rows that differ by about as much.
    small = max(rows.shape) * max(eps**0.5, tolerance)
    dependent = _dependent_rows(rows, small)
    singular_values = np.linalg.svd(rows, compute_uv=False) if rows.size else np.zeros(0)
    rank = int(np.sum(singular_values > small))
    kinematic = rows[: layout.kinematic_rows]
    kinematic_rank = int(np.sum(np.linalg.svd(kinematic, compute_uv=False) > small)) if kinematic.size else 0
    redundant = tuple(dict.fromkeys(layout.row_owners[k] for k in dependent))
    return Diagnosis(
        dof=layout.m - kinematic_rank,
        rank=rank,
        free=layout.m - rank,
        singular_values=singular_values,
        redundant=redundant,
        consistent=_is_consistent(rows, gaps, small),
        misfits=_misfits(mech, value, gap_limit(q.dtype, 0.0) * float(size)),
        tangents=np.zeros((0, layout.m)),
    )


def _misfits(mech: Mechanism, value: np.ndarray, rounding: float) -> dict[str, float]:
    """Return the largest |Φ_k| of each constraint and driver whose gap is more than `rounding`, the largest first."""
    gaps = {name: float(np.max(np.abs(value[rows]), initial=0)) for name, rows in mech.layout.row_slices.items()}
    return {name: gap for name, gap in sorted(gaps.items(), key=lambda item: -item[1]) if gap > rounding}


def _dependent_rows(rows: np.ndarray, small: float) -> list[int]:
    """Return the indices of rows whose part orthogonal to all rows before them is below `small`, by Gram–Schmidt twice."""
    basis = np.zeros((0, rows.shape[1]))
    dependent = []
    for k, row in enumerate(rows):
        rest = row - basis.T @ (basis @ row)
        rest = rest - basis.T @ (basis @ rest)
        size = np.linalg.norm(rest)
        if size > small:
            basis = np.vstack([basis, rest / size])
        else:
            dependent.append(k)
    return dependent


def _is_consistent(rows: np.ndarray, gaps: np.ndarray, small: float) -> bool:
    """Return True if |βᵀΦ| ≤ `small` for an orthonormal basis of vectors β with βᵀΦ_q = 0; rows and gaps are scaled."""
    if not rows.size:
        return True
    u, s, _ = np.linalg.svd(rows)
    left_null = u[:, int(np.sum(s > small)) :]
    left = np.max(np.abs(left_null.T @ gaps), initial=0.0)
    return bool(left <= small)


def check_driven(mech: Mechanism, motion: Trajectory, tolerance: float) -> None:
    """Raise `ValueError` if the drivers of a computed motion are too few, or if one of them is redundant.

    A single configuration may happen to be singular. So up to three configurations of the motion, or some near the only
    one reached, have to show the fault.

    Raises:
        ValueError: with a text about the fault.
    """
    status, q, t = (np.asarray(x) for x in (motion.status, motion.q, motion.t))
    if status[0] == Status.NON_FINITE:
        return
    reached = np.flatnonzero((status == Status.CONVERGED) | (status == Status.SINGULAR))
    spins = len(idle_spins(mech))
    is_determined = lambda report: report.free == spins and not set(report.redundant) & set(mech.drivers)
    faults = []
    if len(reached) == 0:
        # Even a configuration that is not assembled shows drivers that contradict each other.
        reports = (report for report in _reports(mech, q[0], t[0], tolerance) if report.dof > spins)
        faults = [report for report in reports if report.dof - spins < mech.layout.driver_rows][:1]
    elif len(reached) == 1:
        for report in _reports(mech, q[reached[0]], t[reached[0]], tolerance):
            if is_determined(report):
                return
            faults.append(report._replace(consistent=True))
    else:
        for k in dict.fromkeys(reached[np.linspace(0, len(reached) - 1, 3).astype(int)].tolist()):
            report = _diagnose(mech, q[k], t[k], tolerance)
            if is_determined(report):
                return
            faults.append(report)
    if faults:
        report = min(faults, key=lambda r: r.free)
        at = reached[0] if len(reached) else 0
        fault = _fault(mech, report._replace(free=report.free - spins), q[at], t[at])
        raise ValueError(f"the drivers do not determine the motion: {fault}")


def missing_drivers(mech: Mechanism, count: int, q: Array, t: Array) -> str:
    """Return a text with the number of missing drivers and, if all numbers are known, the bodies that can move.

    The mechanism is assembled near q for that.
    """
    text = f"{count} driver(s) missing"
    if not all(is_concrete(leaf) for leaf in (*jax.tree.leaves(mech), q, t)):
        return text
    names = _movable_bodies(mech, assembled_configuration(mech, q, t, (), DEFAULT_TOLERANCE)[0], t)
    return f"{text}; these bodies can move: {', '.join(map(repr, names))}" if names else text


def _movable_bodies(mech: Mechanism, q: Array, t: Array) -> list[str]:
    """Return the names of the bodies that move in some v with Φ_q v = 0 and without idle spins."""
    layout = mech.layout
    matrix = linearise(mech, q[None], jnp.asarray(t, q.dtype)[None])[1][0]
    units = Units(layout.angular, unit_of_length(matrix, layout.extent(q), layout.angular))
    scaled = np.asarray(matrix, float) * np.asarray(units.vector) / np.asarray(units.rows(matrix))[:, None]
    _, s, right = np.linalg.svd(scaled)
    null = right[int(np.sum(s > max(scaled.shape) * float(jnp.finfo(q.dtype).eps) ** 0.5)) :]
    largest = {name: np.max(np.abs(null[:, own]), initial=0) for name, own in layout.velocity_slices.items()}
    return [name for name, entry in largest.items() if entry > MIN_MOVING_ENTRY]


def _reports(mech: Mechanism, q: Array, t: Array, tolerance: float) -> Iterator[Diagnosis]:
    """Yield diagnoses of q and of configurations beside it, if they show the rank that Φ_q has along a motion.

    Configurations in which the constraints, without the drivers, are not closed are left out: rows that are redundant
    along a motion, such as those of a loop of hinges in space, need not be redundant there. In the plane this is rare,
    so a report without redundant constraints is used.
    """
    layout, small = mech.layout, max(float(jnp.finfo(q.dtype).eps) ** 0.5, tolerance)
    for near in (q, *_neighbours(mech, q, t)):
        report = _diagnose(mech, near, t, tolerance)
        independent = layout.dimension == 2 and report.dof == layout.m - layout.kinematic_rows
        if independent or np.max(np.abs(_kinematic_rows(mech, near, t)[1]), initial=0) <= small:
            yield report


def _kinematic_rows(mech: Mechanism, q: Array, t: Array) -> tuple[np.ndarray, ...]:
    """Return Φ_q and Φ without drivers, rows and coordinates scaled, and the units of the coordinates (m,)."""
    layout = mech.layout
    matrix, value = (x[: layout.kinematic_rows] for x in _jacobian_gaps_and_size(mech, q, t)[:2])
    units = Units(layout.angular, unit_of_length(matrix, layout.extent(q), layout.angular))
    rows, unit = np.asarray(units.rows(matrix)), np.asarray(units.vector)
    return np.asarray(matrix) * unit / rows[:, None], np.asarray(value) / rows, unit


def _neighbours(mech: Mechanism, q: Array, t: Array) -> Iterator[Array]:
    """Yield configurations (n,) beside q, displaced in directions that the constraints without drivers leave free.

    They are closed again where that is possible. If q is singular, these are not.
    """
    layout, small = mech.layout, float(jnp.finfo(q.dtype).eps) ** 0.5
    matrix, _, unit = _kinematic_rows(mech, q, t)
    _, s, turned = np.linalg.svd(matrix)
    free = turned[np.sum(s > max(matrix.shape) * small) :]
    for k in range(1, NEIGHBOURS + 1):
        # Multiples of the golden angle: no coordinate is special.
        direction = free.T @ (free @ np.sin(2.399963 * k * np.arange(1, layout.m + 1)))
        step = NEIGHBOUR_DISTANCE * unit * direction / max(np.max(np.abs(direction), initial=0), small)
        moved = closed = layout.retract(q, jnp.asarray(step, q.dtype))
        for _ in range(NEIGHBOUR_CLOSING_STEPS):
            matrix, value, unit = _kinematic_rows(mech, closed, t)
            step = -unit * (np.linalg.pinv(matrix, rcond=small) @ value)
            closed = layout.retract(closed, jnp.asarray(step, q.dtype))
        gap = np.max(np.abs(_kinematic_rows(mech, closed, t)[1]), initial=0)
        yield closed if gap <= small else moved


def _fault(mech: Mechanism, report: Diagnosis, q: Array, t: Array) -> str:
    """Return a text with the number of missing drivers and the names of redundant drivers and constraints."""
    parts = [missing_drivers(mech, report.free, q, t)] if report.free else []
    for kind, names in (("driver", mech.drivers), ("constraint", mech.constraints)):
        surplus = [repr(name) for name in report.redundant if name in names]
        parts += [f"redundant {kind}(s): {', '.join(surplus)}"] if surplus else []
    parts += [] if report.consistent else ["they contradict each other"]
    return "; ".join(parts)
