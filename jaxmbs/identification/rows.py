"""What a model misses of its records, as rows of least squares: signals, gaps between segments, priors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.identification.records import Record
from jaxmbs.identification.shooting import Around, Model, Shot, jacobians, segment, whole
from jaxmbs.numerics.results import Status
from jaxmbs.search.gauss_newton import Rows, minimised

# Steps by which a segment's beginning is fitted to its signals, and how hard it is held to where it is (in parts of σ⁻¹).
TRACKING, HOLD = 12, 1e-2


class Run:
    """A record with the model of its motion, cut into segments.

    Args:
        record: what was measured. model: of one segment. count: how many segments. layout: of the mechanism.
    """

    def __init__(self, record: Record, model: Model, count: int, layout: Any):
        self.record, self.model, self.count, self.layout = record, model, count, layout
        self.length = len(model.after) - 1
        self.around: Around | None = None
        self.freedom, self.size, self.why = 0, np.zeros(0), ""
        last = len(record.times) - 1
        # Samples of each segment; the first of a later one is the last of the one before.
        self.samples = [
            np.arange(k * self.length + (k > 0), min((k + 1) * self.length, last) + 1) for k in range(count)
        ]

    @property
    def unknowns(self) -> int:
        """How many numbers the states at the beginnings of segments are."""
        return (self.count - 1) * 2 * self.freedom

    def _given(self) -> tuple:
        begin, record = self.record.times[0], self.record
        return (
            begin,
            None if self.model.start is not None else record.start,
            None if self.model.velocities is not None else record.velocities,
        )

    def _begins(self) -> np.ndarray:
        return self.record.times[np.arange(1, self.count) * self.length]

    def track(self, x: np.ndarray, deviation: np.ndarray) -> None:
        """Find where segments begin, for parameters x (S, n): where the one before ends, and then fitted to its signals."""
        if self.count == 1:
            return
        shot, _ = whole(self.model)(jnp.asarray(x), *self._given(), None)
        around, found = self._around(x, shot.ends[1], 1), []
        for k in range(1, self.count):
            size = np.repeat([1.0, max(float(np.abs(around.v).max(initial=0)), 1.0)], self.freedom)

            def rows(moved, k=k, around=around, size=size):
                shot, slopes = self._segments(x, moved * size, np.full(len(x), k), around, around)
                values, by = self._missed(shot.signals, slopes[0], [k] * len(x), deviation)
                hold = np.broadcast_to(HOLD * np.eye(len(size)), (len(x), len(size), len(size)))
                by = np.concatenate([by[..., x.shape[1] :] * size, hold], axis=1)
                return Rows(np.concatenate([values, HOLD * moved], axis=1), by, self._good(shot, slopes, [k] * len(x)))

            moved, *_ = minimised(rows, np.zeros((len(x), len(size))), TRACKING)
            shot, _ = self._segments(x, moved * size, np.full(len(x), k), around, around)
            found.append(self._around(x, shot.ends[0], k))
            around = self._around(x, shot.ends[1], k + 1)
        self.around = _stacked(found)
        away = jax.vmap(jax.vmap(self.layout.difference, (0, None)))(self.around.q, self.around.q[:, 0])
        sizes = [float(np.abs(np.asarray(y)).max(initial=0)) or 1.0 for y in (away, self.around.v)]
        self.size = np.repeat(sizes, self.freedom)

    def _around(self, x, state: tuple, k: int) -> Around:
        """States (S, …) with bases of the directions that the constraints leave free, at the beginning of segment k."""
        t = self.record.times[min(k * self.length, len(self.record.times) - 1)]
        q, v = state
        phi_q = np.asarray(jacobians(self.model)(x, q, t))
        if not self.freedom:
            self.freedom = self.layout.m - int(
                np.linalg.matrix_rank(phi_q[0], tol=1e-8 * np.abs(phi_q[0]).max(initial=1))
            )
        _, _, axes = np.linalg.svd(np.where(np.isfinite(phi_q), phi_q, 0))
        turned, held = jnp.asarray(np.swapaxes(axes, 1, 2)), self.layout.m - self.freedom
        return Around(q, v, turned[..., held:], turned[..., :held])

    def recentre(self, x: np.ndarray, moved: np.ndarray) -> None:
        """Let the states around which segments begin be those where they begin now, for parameters x (S, n)."""
        if self.around is None:
            return
        moved = moved.reshape(len(x), self.count - 1, -1) * self.size
        found = []
        for k in range(1, self.count):
            around = jax.tree.map(lambda y, k=k: y[:, k - 1], self.around)
            shot, _ = self._segments(x, moved[:, k - 1], np.full(len(x), k), around, around)
            # A start that has failed stays where it was; the others go on.
            state = tuple(jnp.where(jnp.isfinite(y), y, at) for y, at in zip(shot.ends[0], around[:2], strict=True))
            found.append(self._around(x, state, k))
        self.around = _stacked(found)

    def of(self, keep: np.ndarray) -> None:
        """Go on with some of the starts."""
        if self.around is not None:
            self.around = jax.tree.map(lambda y: y[keep], self.around)

    def _segments(self, x, moved, number, around, end):
        z = np.concatenate([x, moved], axis=1)
        return segment(self.model)(z, self._begins()[number - 1], around, end)

    def _good(self, shot: Shot, slopes, numbers) -> np.ndarray:
        """Which shots (B,) are numbers at all samples that count; `why` keeps what was wrong with the first other one."""
        status, signals, by = np.asarray(shot.status), np.asarray(shot.signals), np.asarray(slopes[0])
        good = np.ones(len(status), bool)
        for b, k in enumerate(numbers):
            inside = self.samples[k] - k * self.length
            bad = status[b, inside][status[b, inside] != Status.CONVERGED]
            finite = np.isfinite(signals[b, inside]).all(axis=0) & np.isfinite(by[b, inside]).all(axis=(0, 2))
            ends = k == self.count - 1 or all(np.isfinite(y[b]).all() for y in (shot.last, slopes[2]))
            good[b] = not bad.size and finite.all() and ends
            if not good[b] and not self.why:
                name = self.model.names[int(np.argmin(finite))]
                self.why = Status(int(bad[0])).name if bad.size else f"{name!r}, or its derivative, is not a number"
        return good

    def _missed(self, signals, by, numbers, deviation):
        """Rows (B, N) of signals (B, T, s) in their deviations, and their derivatives; places without a sample are zero."""
        signals, by = np.asarray(signals), np.asarray(by)
        wanted, weight = np.zeros_like(signals), np.zeros(signals.shape[:2])
        for b, k in enumerate(numbers):
            inside = self.samples[k] - k * self.length
            wanted[b, inside], weight[b, inside] = self.record.values[self.samples[k]], 1
        scaled = weight[:, :, None] / deviation
        values = np.where(weight[:, :, None] > 0, signals - wanted, 0) * scaled
        by = np.where(weight[:, :, None, None] > 0, by, 0) * scaled[..., None]
        return values.reshape(len(values), -1), by.reshape(len(values), -1, by.shape[-1])

    def rows(self, x: np.ndarray, moved: np.ndarray, deviation: np.ndarray, weight: float) -> Rows:
        """Rows by the parameters x (S, n) and where segments begin (S, unknowns), in units of the states' sizes.

        weight: of the gaps between segments.
        """
        count, n, f = len(x), x.shape[1], 2 * self.freedom
        end = None if self.around is None else jax.tree.map(lambda y: y[:, 0], self.around)
        shot, slopes = whole(self.model)(jnp.asarray(x), *self._given(), end)
        values, by = self._missed(shot.signals, slopes[0], [0] * count, deviation)
        good = self._good(shot, slopes, [0] * count)
        if self.around is None:
            return Rows(values, by, good)
        later, size = self.count - 1, self.size
        moved = moved.reshape(count * later, f)
        flat = lambda y: jnp.reshape(y, (count * later, *y.shape[2:]))
        around = jax.tree.map(flat, self.around)
        ends = jax.tree.map(lambda y: flat(jnp.concatenate([y[:, 1:], y[:, -1:]], axis=1)), self.around)
        number = np.tile(np.arange(1, self.count), count)
        shots, slope = self._segments(np.repeat(x, later, axis=0), moved * size, number, around, ends)
        more, more_by = self._missed(shots.signals, slope[0], number, deviation)
        good = good & self._good(shots, slope, number).reshape(count, later).all(axis=1)
        split = lambda array: np.asarray(array).reshape(count, later, *np.shape(array)[1:])
        more, more_by, first, last = split(more), split(more_by), split(shots.first), split(shots.last)
        first_by, last_by = split(slope[1]), split(slope[2])
        total = n + self.unknowns
        own = [slice(n + k * f, n + (k + 1) * f) for k in range(later)]
        out, out_by = [values], [np.concatenate([by, np.zeros((*by.shape[:2], self.unknowns))], axis=2)]
        for k in range(later):
            wide = np.zeros((count, more.shape[2], total))
            wide[..., :n], wide[..., own[k]] = more_by[:, k, :, :n], more_by[:, k, :, n:] * size
            out.append(more[:, k])
            out_by.append(wide)
            before, before_by = (shot.last, slopes[2]) if k == 0 else (last[:, k - 1], last_by[:, k - 1])
            before_by = np.asarray(before_by)
            gap = np.zeros((count, f, total))
            gap[..., :n] = before_by[..., :n] - first_by[:, k, :, :n]
            gap[..., own[k]] = -first_by[:, k, :, n:] * size
            if k > 0:
                gap[..., own[k - 1]] = before_by[..., n:] * size
            out.append(weight * (np.asarray(before) - first[:, k]) / size)
            out_by.append(weight * gap / size[:, None])
        return Rows(np.concatenate(out, axis=1), np.concatenate(out_by, axis=1), good)

    def predicted(self, rows: Rows, deviation: np.ndarray) -> np.ndarray:
        """The signals (T, s) of the model, from the rows of one start."""
        width = (self.length + 1) * len(self.model.names)
        step = width + 2 * self.freedom
        found = np.zeros_like(self.record.values)
        for k, samples in enumerate(self.samples):
            at = 0 if k == 0 else width + (k - 1) * step
            missed = rows.values[0, at : at + width].reshape(self.length + 1, -1)
            found[samples] = self.record.values[samples] + missed[samples - k * self.length] * deviation
        return found


def _stacked(found: list[Around]) -> Around:
    return Around(*(jnp.stack(part, axis=1) for part in zip(*found, strict=True)))
