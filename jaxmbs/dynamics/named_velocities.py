"""Named velocities at the start of a simulation that the constraints do not allow, in words."""

from __future__ import annotations

import numpy as np

from jaxmbs.dynamics.methods.method import KEPT
from jaxmbs.numerics.scaling import Units, unit_of_length
from jaxmbs.system.equations import constraint_jacobian, velocity_rhs
from jaxmbs.system.mechanism import Mechanism

# Velocities that a message lists.
SHOWN = 3


def contradiction(mech: Mechanism, q, t, v, named: tuple[bool, ...]) -> str | None:
    """What contradicts what among the named entries of v in a closed configuration, and what to write instead; None if
    nothing does.

    Larger velocities are taken at their word first, angular ones before others; what does not fit to these contradicts.
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
        elif abs(implied - given[k]) > KEPT / 10 * largest:
            rejected.append((k, implied))
    if not rejected:
        return None
    say = lambda k, value: f"{names[k]} = {value * units[k]:.4g}"
    why = f"with {_listed(say(k, given[k]) for k in believed)} " if believed else ""
    implied = _listed(f"{say(k, x)}, not {given[k] * units[k]:.4g}" for k, x in rejected)
    instead = ", ".join(f"{names[k]!r}: {given[k] * units[k]:.6g}" for k in believed)
    return (
        f"v0 contradicts the constraints{' and drivers' if mech.drivers else ''}: {why}they give {implied}. "
        + (f"Write v0={{{instead}}}, and the others follow" if believed else "Leave these out, and they follow")
        + "; or a whole vector v0, to start from the nearest velocities"
    )


def _solutions(matrix, right):
    """The least of the solutions of matrix x = right, and a basis of what may be added, as columns."""
    _, singular, turned = np.linalg.svd(matrix)
    rank = int(np.sum(singular > 1e-8 * max(1.0, *singular, 0.0)))
    return np.linalg.lstsq(matrix, right, rcond=1e-8)[0], turned[rank:].T


def _rank(rows) -> int:
    return int(np.linalg.matrix_rank(rows, tol=1e-6)) if rows.size else 0


def _listed(parts) -> str:
    parts = list(parts)
    more = [f"{len(parts) - SHOWN} more"] if len(parts) > SHOWN else []
    return " and ".join([*parts[:SHOWN], *more])
