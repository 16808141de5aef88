"""Explanations of failures: samples, times, gaps by constraint, singular values of Φ_q, and the nearest lock-up."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from jaxmbs.numerics.results import AnalysisError, Status
from jaxmbs.numerics.scaling import Units, unit_of_length
from jaxmbs.system.broadcast_tree import BroadcastTree
from jaxmbs.system.equations import constraint_jacobian, constraints, velocity_rhs
from jaxmbs.system.mechanism import Mechanism

# Most failed samples of a batch that `Failures.first` describes.
MAX_SAMPLES = 3
# Most constraints with their gaps, and most of the smallest singular values, in the text of one failed sample. The
# largest singular value is added.
MAX_SHOWN = 3
# Constraints whose gap is below this fraction of the largest gap of the sample are left out of its text.
MIN_SHOWN_GAP = 1e-6


@dataclasses.dataclass(frozen=True)
class Failure:
    """A sample that failed.

    Attributes:
        sample: its index in the batch, () for a single one.
        status: see `Status`.
        time: the first time at which it failed.
        reached: the last time before that; None if it failed at the first time.
        gaps: the largest |Φ| of each constraint and driver in the configuration at `time`; the worst first, in units of
            the mechanism.
        singular_values: of Φ_q there with its rows scaled to unit length, in descending order, as in `diagnose`.
        lock_up: time of the nearest lock-up by the fold estimate t + |v| / (2 |a|) from the last good state; None if it
            is not on the way to `time`.
        not_finite: names of constraints and drivers that have numbers that are not finite, or values or rates that are
            not finite at `time`.

    Examples:
        >>> short = {"rod": (1, 0, 0), "slider": (1.5, 0, 0)}
        >>> motion = mbs.kinematics(slider_crank(rod=0.5), jnp.linspace(0, 1, 11), short)
        >>> failure = motion.explain_failure().first[0]
        >>> print(failure.status.name, failure.reached, round(failure.time, 3))  # sin φ > 0.5
        LOCKED_UP 0.5 0.6
    """

    sample: tuple[int, ...]
    status: Status
    time: float
    reached: float | None
    gaps: dict[str, float] = dataclasses.field(default_factory=dict)
    singular_values: Float[np.ndarray, " m"] = dataclasses.field(default_factory=lambda: np.zeros(0))
    lock_up: float | None = None
    not_finite: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"sample {', '.join(map(str, self.sample))}: " if self.sample else ""
        since = "from the start" if self.reached is None else f"all is well until t = {self.reached:.6g}"
        parts = [f"{where}{self.status.name} at t = {self.time:.6g}, {since}"]
        if self.not_finite:
            parts.append(f"not finite: {', '.join(map(repr, self.not_finite))}")
        elif self.status == Status.NON_FINITE:
            parts.append("not finite: numbers of bodies, forces, times or the start; or the motion grew without bound")
        elif self.status == Status.JAMMED:
            parts.append("friction and the reactions that it depends on have no common solution: Painlevé's paradox")
        if self.gaps:
            largest = max(self.gaps.values())
            worst = [f"{name!r} {gap:.3g}" for name, gap in self.gaps.items() if gap > MIN_SHOWN_GAP * largest]
            parts.append(f"largest gaps: {', '.join(worst[:MAX_SHOWN]) or 'none'}")
        if self.singular_values.size:
            smallest = [f"{x:.3g}" for x in self.singular_values[-MAX_SHOWN:]]
            parts.append(
                f"smallest singular values of Φ_q: {', '.join(smallest)}; largest: {self.singular_values[0]:.3g}"
            )
        if self.lock_up is not None:
            parts.append(f"nearest lock-up: about t = {self.lock_up:.6g}")
        return "\n  ".join(parts)


@dataclasses.dataclass(frozen=True)
class Failures:
    """Failed samples of a result; print it. It is false if nothing failed.

    Attributes:
        samples: number of samples.
        counts: number of failed samples, by their first bad status.
        first: the first failed samples, three at most.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, 1.0]), guess)
        >>> print(motion.explain_failure())
        nothing failed
    """

    samples: int
    counts: dict[Status, int]
    first: tuple[Failure, ...]

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __str__(self) -> str:
        if not self:
            return "nothing failed"
        failed = sum(self.counts.values())
        lines = [str(failure) for failure in self.first]
        if self.samples > 1:
            by_status = ", ".join(f"{count} {status.name}" for status, count in self.counts.items())
            lines.insert(0, f"{failed} of {self.samples} samples failed: {by_status}")
        if failed > len(self.first):
            lines.append(f"… and {failed - len(self.first)} more")
        return "\n".join(lines)

    def throw(self, what: str) -> None:
        """Raise `AnalysisError` if anything failed. The message begins with `what`, the name of the analysis."""
        if self:
            names = [status.name for status in self.counts]
            page = f"what to do: docs/troubleshooting.md#{names[0].lower()}"
            raise AnalysisError(f"{what}: {', '.join(names)}\n{self}\n{page}")


def failures(t: Any, q: Any, v: Any, a: Any, status: Any, mechanism: BroadcastTree | None) -> Failures:
    """Return the failures of a motion whose arrays have the leading axes (*batch, T)."""
    if any(isinstance(x, jax.core.Tracer) for x in (t, q, status)):
        raise ValueError("failures are explained outside jit, vmap and grad only; inside, read `.status`")
    t, q, v, a, status = (np.asarray(x) for x in (t, q, v, a, status))
    bad = status != Status.CONVERGED
    counts: dict[Status, int] = {}
    first: list[Failure] = []
    for sample in map(tuple, np.argwhere(np.any(bad, axis=-1)).tolist()):
        row = int(np.argmax(bad[sample]))
        code = Status(int(status[(*sample, row)]))
        counts[code] = counts.get(code, 0) + 1
        if len(first) < MAX_SAMPLES:
            reached = None if row == 0 else float(t[(*sample, row - 1)])
            failure = Failure(sample, code, float(t[(*sample, row)]), reached)
            at = lambda x, k, sample=sample: x[(*sample, k)]
            mech = None if mechanism is None else mechanism.at_index((*sample, row))
            if mech is not None:
                before = None if row == 0 else (at(v, row - 1), at(a, row - 1))
                failure = _with_gaps(failure, mech, at(q, row), before)
            first.append(failure)
    return Failures(int(np.prod(status.shape[:-1], dtype=int)), counts, tuple(first))


def _with_gaps(failure: Failure, mech: Mechanism, q: Any, before: tuple[np.ndarray, np.ndarray] | None) -> Failure:
    """Return a failure with the gaps and singular values at q, and the lock-up estimated from (v, a) `before`."""
    elements = {**mech.constraints, **mech.drivers}
    not_finite = tuple(name for name, element in elements.items() if not _all_finite(jax.tree.leaves(element)))
    if not_finite or not np.isfinite(failure.time) or not elements:
        return dataclasses.replace(failure, not_finite=not_finite)
    phi_q, layout, slices = constraint_jacobian(mech, q, failure.time), mech.layout, mech.layout.row_slices
    gaps, matrix = np.abs(np.asarray(constraints(mech, q, failure.time), float)), np.asarray(phi_q, float)
    rates = np.asarray(velocity_rhs(mech, q, failure.time), float)
    known = np.all(np.isfinite(np.c_[gaps, rates, matrix]), axis=1)
    if not np.all(known):
        names = tuple(name for name in slices if not np.all(known[slices[name]]))
        return dataclasses.replace(failure, not_finite=names)
    units = Units(layout.angular, unit_of_length(phi_q, layout.extent(q), layout.angular))
    relative = gaps / np.asarray(units.rows(phi_q))
    worst = sorted(slices, key=lambda name: -np.max(relative[slices[name]], initial=0))
    lengths = np.linalg.norm(matrix, axis=1)
    return dataclasses.replace(
        failure,
        gaps={name: float(np.max(gaps[slices[name]], initial=0)) for name in worst},
        singular_values=np.linalg.svd(matrix / np.where(lengths > 0, lengths, 1)[:, None], compute_uv=False),
        # Only if the constraints determine the motion: a free one that ends early, by too few steps say, has no lock-up.
        lock_up=None if before is None or len(matrix) < matrix.shape[1] else _lock_up(failure, units, *before),
    )


def _lock_up(failure: Failure, units: Units, v: np.ndarray, a: np.ndarray) -> float | None:
    """Return the time t* of a lock-up, near which coordinates change as √(t* − t): t* − t = |v| / (2 |a|).

    None if it is not between the last good time and that of the failure.
    """
    if failure.status not in (Status.LOCKED_UP, Status.NOT_CONVERGED) or failure.reached is None:
        return None
    v, a = (x / np.asarray(units.vector) for x in (v, a))
    if not a @ a > 0:
        return None
    found = failure.reached + float(v @ a / (2 * a @ a))
    low, high = sorted((failure.reached, failure.time))
    return found if low <= found <= high else None


def _all_finite(leaves: Iterable[Any]) -> bool:
    """Return True if all floating-point numbers in these leaves are finite; other leaves do not count."""
    kinds = ((leaf, getattr(getattr(leaf, "dtype", None), "kind", "")) for leaf in leaves)
    return all(np.all(np.isfinite(leaf)) for leaf, kind in kinds if kind == "f")
