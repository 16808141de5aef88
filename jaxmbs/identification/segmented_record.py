"""Residuals of one record: signals, and gaps between segments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.identification.records import Record
from jaxmbs.identification.shooting import (
    ReferenceState,
    SegmentModel,
    SimulatedSegment,
    constraint_jacobian_function,
    first_segment_function,
    later_segment_function,
)
from jaxmbs.numerics.results import Status
from jaxmbs.search import Residuals, gauss_newton

# Largest number of Gauss–Newton steps that fit the initial state of a segment to its signals, for the reference states.
MAX_TRACKING_STEPS = 12
# Weight that holds the initial state of a segment, while it is fitted, to the end of the one before: a difference of 1
# in local coordinates counts like an error of this many standard deviations in a signal.
TRACKING_WEIGHT = 1e-2
# Singular values of Φ_q below this fraction of its largest entry count as zero: their directions are free.
RANK_TOLERANCE = 1e-8


class SegmentedRecord:
    """A record with the model of its motion, cut into segments.

    Args:
        record: the measured signals.
        model: of one segment.
        count: number of segments.
        layout: of the mechanism.

    Attributes:
        length: number of sampling steps in a segment.
        samples: for each segment the rows of the record that belong to it; a segment's first sample, except that of the
            first segment, belongs to the segment before.
        references: reference states of all segments except the first, with axes (S, count − 1, …); None in one piece.
        freedom: degrees of freedom f of the mechanism.
        sizes: (2f,) typical sizes of local coordinates.
        failure: the reason why the first start that could not be simulated failed, or an empty text.
    """

    def __init__(self, record: Record, model: SegmentModel, count: int, layout: Any):
        self.record, self.model, self.count, self.layout = record, model, count, layout
        self.length = len(model.times) - 1
        self.references: ReferenceState | None = None
        self.freedom, self.sizes, self.failure = 0, np.zeros(0), ""
        last = len(record.times) - 1
        self.samples = [
            np.arange(k * self.length + (k > 0), min((k + 1) * self.length, last) + 1) for k in range(count)
        ]

    @property
    def unknowns(self) -> int:
        """Number of unknowns of the initial states of later segments."""
        return (self.count - 1) * 2 * self.freedom

    @property
    def signal_rows(self) -> int:
        """Number of residuals of the signals of one segment."""
        return (self.length + 1) * len(self.model.names)

    @property
    def row_count(self) -> int:
        """Number of all residuals."""
        return self.count * self.signal_rows + self.unknowns

    def _initial_state(self) -> tuple:
        """Return the record's initial time, configuration and velocities, None for those that the model computes."""
        record, model = self.record, self.model
        q = None if model.start is not None else record.start
        v = None if model.velocities is not None else record.velocities
        return record.times[0], q, v

    def find_references(self, x: np.ndarray, deviation: np.ndarray) -> None:
        """Set the reference states for parameters x (S, n): the end of the segment before, fitted to the signals."""
        if self.count == 1:
            return
        segment, _ = first_segment_function(self.model)(jnp.asarray(x), *self._initial_state(), None)
        reference, references = self._reference_state(x, segment.ends[1], 1), []
        for k in range(1, self.count):
            largest_speed = float(np.abs(reference.v).max(initial=0))
            sizes = np.repeat([1.0, max(largest_speed, 1.0)], self.freedom)
            numbers = np.full(len(x), k)

            def residuals(u, k=k, numbers=numbers, reference=reference, sizes=sizes):
                """Return the residuals of segment k at local coordinates u of its initial state, in units of `sizes`."""
                segment, jacobian = self._simulate_later(x, u * sizes, numbers, reference, reference)
                values, by = self._signal_residuals(segment.signals, jacobian[0], [k] * len(x), deviation)
                hold = np.broadcast_to(TRACKING_WEIGHT * np.eye(len(sizes)), (len(x), len(sizes), len(sizes)))
                by = np.concatenate([by[..., x.shape[1] :] * sizes, hold], axis=1)
                values = np.concatenate([values, TRACKING_WEIGHT * u], axis=1)
                return Residuals(values, by, self._is_finite(segment, jacobian, [k] * len(x)))

            u, *_ = gauss_newton(residuals, np.zeros((len(x), len(sizes))), MAX_TRACKING_STEPS)
            segment, _ = self._simulate_later(x, u * sizes, numbers, reference, reference)
            references.append(self._reference_state(x, segment.ends[0], k))
            reference = self._reference_state(x, segment.ends[1], k + 1)
        self.references = _stack(references)
        differences = jax.vmap(jax.vmap(self.layout.difference, (0, None)))(self.references.q, self.references.q[:, 0])
        largest = [float(np.abs(np.asarray(y)).max(initial=0)) or 1.0 for y in (differences, self.references.v)]
        self.sizes = np.repeat(largest, self.freedom)

    def _reference_state(self, x, state: tuple, k: int) -> ReferenceState:
        """Return the states (q, v) of S starts at the start of segment k, with bases of their free directions.

        The first call sets `freedom`.
        """
        t = self.record.times[min(k * self.length, len(self.record.times) - 1)]
        q, v = state
        phi_q = np.asarray(constraint_jacobian_function(self.model)(x, q, t))
        if not self.freedom:
            tolerance = RANK_TOLERANCE * np.abs(phi_q[0]).max(initial=1)
            self.freedom = self.layout.m - int(np.linalg.matrix_rank(phi_q[0], tol=tolerance))
        _, _, axes = np.linalg.svd(np.where(np.isfinite(phi_q), phi_q, 0))
        directions, constrained = jnp.asarray(np.swapaxes(axes, 1, 2)), self.layout.m - self.freedom
        return ReferenceState(q, v, directions[..., constrained:], directions[..., :constrained])

    def recentre(self, x: np.ndarray, u: np.ndarray) -> None:
        """Set the reference state of each segment to its current initial state, for parameters x and unknowns u."""
        if self.references is None:
            return
        coordinates = u.reshape(len(x), self.count - 1, -1) * self.sizes
        references = []
        for k in range(1, self.count):
            reference = jax.tree.map(lambda y, k=k: y[:, k - 1], self.references)
            numbers = np.full(len(x), k)
            segment, _ = self._simulate_later(x, coordinates[:, k - 1], numbers, reference, reference)
            # Starts that have failed keep their reference state.
            state = tuple(
                jnp.where(jnp.isfinite(new), new, old)
                for new, old in zip(segment.ends[0], (reference.q, reference.v), strict=True)
            )
            references.append(self._reference_state(x, state, k))
        self.references = _stack(references)

    def keep_starts(self, rows: np.ndarray) -> None:
        """Drop the reference states of all starts except those with the indices `rows`."""
        if self.references is not None:
            self.references = jax.tree.map(lambda y: y[rows], self.references)

    def _simulate_later(self, x, coordinates, numbers, reference, next_reference):
        """Return later segments with these numbers (B,), and their derivatives by (x, coordinates).

        They start from local coordinates (B, 2f) about the reference states. x (B, n) are the parameters.
        """
        z = np.concatenate([x, coordinates], axis=1)
        t_start = self.record.times[numbers * self.length]
        return later_segment_function(self.model)(z, t_start, reference, next_reference)

    def _is_finite(self, segment: SimulatedSegment, jacobian, numbers) -> np.ndarray:
        """Return a mask (B,) of the segments, with these numbers, that are finite at all their samples.

        The first reason for which one is not is kept in `failure`.
        """
        status, signals, by = np.asarray(segment.status), np.asarray(segment.signals), np.asarray(jacobian[0])
        is_finite = np.ones(len(status), bool)
        for b, k in enumerate(numbers):
            rows = self.samples[k] - k * self.length
            failed = status[b, rows][status[b, rows] != Status.CONVERGED]
            finite_signals = np.isfinite(signals[b, rows]).all(axis=0) & np.isfinite(by[b, rows]).all(axis=(0, 2))
            ends = k == self.count - 1 or all(np.isfinite(y[b]).all() for y in (segment.last, jacobian[2]))
            is_finite[b] = not failed.size and finite_signals.all() and ends
            if not is_finite[b] and not self.failure:
                name = self.model.names[int(np.argmin(finite_signals))]
                not_finite = f"{name!r}, or its derivative, is not a finite number"
                self.failure = Status(int(failed[0])).name if failed.size else not_finite
        return is_finite

    def _signal_residuals(self, signals, by, numbers, deviation):
        """Return the residuals (B, T s) of signals (B, T, s) in standard deviations, and their derivatives.

        `by` are the derivatives of the signals. Residuals at times without a sample are zero.
        """
        signals, by = np.asarray(signals), np.asarray(by)
        measured, weight = np.zeros_like(signals), np.zeros(signals.shape[:2])
        for b, k in enumerate(numbers):
            rows = self.samples[k] - k * self.length
            measured[b, rows], weight[b, rows] = self.record.values[self.samples[k]], 1
        scaled = weight[:, :, None] / deviation
        values = np.where(weight[:, :, None] > 0, signals - measured, 0) * scaled
        by = np.where(weight[:, :, None, None] > 0, by, 0) * scaled[..., None]
        return values.reshape(len(values), -1), by.reshape(len(values), -1, by.shape[-1])

    def residuals(self, x: np.ndarray, u: np.ndarray, deviation: np.ndarray, weight: float) -> Residuals:
        """Return all residuals with their derivatives by x and u: first segment, then signals and gap of each later one.

        Args:
            x: (S, n) parameters.
            u: (S, unknowns) local coordinates of the initial states of later segments, in units of `sizes`.
            deviation: (s,) standard deviations of the signals.
            weight: of the gaps between segments.

        Returns:
            The residuals of S starts.
        """
        count, n, f = len(x), x.shape[1], 2 * self.freedom
        next_reference = None if self.references is None else jax.tree.map(lambda y: y[:, 0], self.references)
        first_function = first_segment_function(self.model)
        first, jacobian = first_function(jnp.asarray(x), *self._initial_state(), next_reference)
        values, by = self._signal_residuals(first.signals, jacobian[0], [0] * count, deviation)
        finite = self._is_finite(first, jacobian, [0] * count)
        if self.references is None:
            return Residuals(values, by, finite)
        later_count, sizes = self.count - 1, self.sizes
        u = u.reshape(count * later_count, f)
        flat = lambda y: jnp.reshape(y, (count * later_count, *y.shape[2:]))
        references = jax.tree.map(flat, self.references)
        next_references = jax.tree.map(lambda y: flat(jnp.concatenate([y[:, 1:], y[:, -1:]], axis=1)), self.references)
        numbers = np.tile(np.arange(1, self.count), count)
        later, later_jacobian = self._simulate_later(
            np.repeat(x, later_count, axis=0), u * sizes, numbers, references, next_references
        )
        later_values, later_by = self._signal_residuals(later.signals, later_jacobian[0], numbers, deviation)
        later_finite = self._is_finite(later, later_jacobian, numbers)
        finite = finite & later_finite.reshape(count, later_count).all(axis=1)
        split = lambda array: np.asarray(array).reshape(count, later_count, *np.shape(array)[1:])
        later_values, later_by = split(later_values), split(later_by)
        begins, begins_by, ends, ends_by = map(split, (later.first, later_jacobian[1], later.last, later_jacobian[2]))
        total = n + self.unknowns
        own = [slice(n + k * f, n + (k + 1) * f) for k in range(later_count)]
        all_values = [values]
        all_by = [np.concatenate([by, np.zeros((*by.shape[:2], self.unknowns))], axis=2)]
        for k in range(later_count):
            signals_by = np.zeros((count, later_values.shape[2], total))
            signals_by[..., :n], signals_by[..., own[k]] = later_by[:, k, :, :n], later_by[:, k, :, n:] * sizes
            all_values.append(later_values[:, k])
            all_by.append(signals_by)
            before, before_by = (first.last, jacobian[2]) if k == 0 else (ends[:, k - 1], ends_by[:, k - 1])
            before_by = np.asarray(before_by)
            gap_by = np.zeros((count, f, total))
            gap_by[..., :n] = before_by[..., :n] - begins_by[:, k, :, :n]
            gap_by[..., own[k]] = -begins_by[:, k, :, n:] * sizes
            if k > 0:
                gap_by[..., own[k - 1]] = before_by[..., n:] * sizes
            all_values.append(weight * (np.asarray(before) - begins[:, k]) / sizes)
            all_by.append(weight * gap_by / sizes[:, None])
        return Residuals(np.concatenate(all_values, axis=1), np.concatenate(all_by, axis=1), finite)

    def predicted_signals(self, values: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """Return the signals (T, s) of the model from the residuals (row_count,) of one start."""
        width = self.signal_rows
        step = width + 2 * self.freedom
        predicted = np.zeros_like(self.record.values)
        for k, samples in enumerate(self.samples):
            at = 0 if k == 0 else width + (k - 1) * step
            missed = values[at : at + width].reshape(self.length + 1, -1)
            predicted[samples] = self.record.values[samples] + missed[samples - k * self.length] * deviation
        return predicted

    def largest_gap(self, values: np.ndarray) -> float:
        """Return the largest weighted gap between segments from the residuals (row_count,) of one start."""
        block, width = self.signal_rows, 2 * self.freedom
        gaps = [values[(k + 2) * block + k * width :][:width] for k in range(self.count - 1)]
        return max((float(np.abs(gap).max(initial=0)) for gap in gaps), default=0.0)


def _stack(states: list[ReferenceState]) -> ReferenceState:
    """Return the reference states of several segments with the segments on axis 1."""
    return ReferenceState(*(jnp.stack(field, axis=1) for field in zip(*states, strict=True)))
