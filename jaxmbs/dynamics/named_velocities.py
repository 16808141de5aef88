"""Named velocities at the start of a simulation that the constraints do not allow, in words."""

from __future__ import annotations

import numpy as np

from jaxmbs.dynamics.methods.method import MAX_NAMED_VELOCITY_GAP
from jaxmbs.numerics.scaling import Units, unit_of_length
from jaxmbs.system.equations import constraint_jacobian, velocity_rhs
from jaxmbs.system.mechanism import Mechanism

# Most velocities that a message lists; it gives the number of the others.
MAX_LISTED = 3
# Singular values of the scaled Φ_q count as zero below this fraction of the largest, or below this value itself.
MAX_ZERO_SINGULAR_VALUE = 1e-8
# Named velocities count as dependent if a singular value of their rows in the free directions is below this.
MIN_INDEPENDENT_SINGULAR_VALUE = 1e-6


def contradiction(mech: Mechanism, q, t, v, named: tuple[bool, ...]) -> str | None:
    """Return a message about named entries of v that contradict each other in a closed configuration; None if none do.

    It says what to write instead. Larger velocities are believed first, angular ones before others; those that the
    believed ones do not allow are rejected.
    """
    names, angular = mech.layout.velocities, mech.layout.angular
    phi_q = constraint_jacobian(mech, q, t)
    units = np.asarray(Units(angular, unit_of_length(phi_q, mech.layout.extent(q), angular)).vector, float)
    given = np.asarray(v, float) / units
    least, free = _solutions(np.asarray(phi_q, float) * units, np.asarray(velocity_rhs(mech, q, t), float))
    believed: list[int] = []
    rejected: list[tuple[int, float]] = []
    order = sorted(np.flatnonzero(named).tolist(), key=lambda k: (-round(abs(given[k]), 9), not angular[k]))
    largest = max(1e-300, *np.abs(given[order]), *np.abs(least))
    for k in order:
        part = np.linalg.lstsq(free[believed], (given - least)[believed], rcond=None)[0] if believed else 0 * free[0]
        implied = (least + free @ part)[k]
        if _rank(free[[*believed, k]]) > len(believed):
            believed.append(k)
        elif abs(implied - given[k]) > MAX_NAMED_VELOCITY_GAP / 10 * largest:
            rejected.append((k, implied))
    if not rejected:
        return None
    equation = lambda k, value: f"{names[k]} = {value * units[k]:.4g}"
    why = f"with {_join(equation(k, given[k]) for k in believed)} " if believed else ""
    implied = _join(f"{equation(k, x)}, not {given[k] * units[k]:.4g}" for k, x in rejected)
    instead = ", ".join(f"{names[k]!r}: {given[k] * units[k]:.6g}" for k in believed)
    return (
        f"v0 contradicts the constraints{' and drivers' if mech.drivers else ''}: {why}they give {implied}. "
        + (f"Write v0={{{instead}}}, and the others follow" if believed else "Leave these out, and they follow")
        + "; or a whole vector v0, to start from the nearest velocities"
    )


def _solutions(matrix, right):
    """Return the smallest x with matrix x = right, and a basis of the null space of the matrix, as columns."""
    _, singular, rotated = np.linalg.svd(matrix)
    rank = int(np.sum(singular > MAX_ZERO_SINGULAR_VALUE * max(1.0, *singular, 0.0)))
    return np.linalg.lstsq(matrix, right, rcond=MAX_ZERO_SINGULAR_VALUE)[0], rotated[rank:].T


def _rank(rows) -> int:
    """Return the rank of some rows of free directions; 0 for no rows."""
    return int(np.linalg.matrix_rank(rows, tol=MIN_INDEPENDENT_SINGULAR_VALUE)) if rows.size else 0


def _join(parts) -> str:
    """Return the first texts joined by "and", then the number of the others."""
    parts = list(parts)
    more = [f"{len(parts) - MAX_LISTED} more"] if len(parts) > MAX_LISTED else []
    return " and ".join([*parts[:MAX_LISTED], *more])
