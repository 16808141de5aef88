"""Curves as shapes, polylines through points regardless of timing, and distances between two of them."""

from __future__ import annotations

from typing import Any

import numpy as np

# Number of points, evenly spaced by length, of each curve when `curve_distances` compares two.
COMPARED_POINTS = 2000
# Number of starting points from which `curve_distances` resamples a closed drawn curve, evenly spaced over one step between
# its points. The largest of the distances counts.
RESAMPLING_STARTS = 8
# Number of segments whose distances from points are computed at once, to limit memory.
SEGMENTS_PER_BLOCK = 1000
# Largest gap between the ends of a closed curve, in typical steps between neighbouring points.
MAX_GAP_IN_STEPS = 1.5
# The typical step between neighbouring points, for `MAX_GAP_IN_STEPS`, is this quantile of all steps.
GAP_QUANTILE = 0.9
# Largest gap between the ends of a closed curve, in units of the curve's extent.
MAX_GAP_OF_EXTENT = 0.15


def resample(points: np.ndarray, count: int, closed: bool, shift: float = 0.0) -> np.ndarray:
    """Return points (count, d) at equal distances along the polyline through `points`, which is closed or open.

    shift: distance of the first one from the first of `points`, in units of their spacing, from 0 to 1; 0 if open.
    """
    if closed:
        points = np.concatenate([points, points[:1]])
    along = np.append(0, np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1)))
    at = np.linspace(0, along[-1], count, endpoint=not closed) + shift * along[-1] / count
    return np.column_stack([np.interp(at, along, column) for column in points.T])


def distances_from(places: np.ndarray, points: np.ndarray, closed: bool) -> np.ndarray:
    """Return the distances (n,) of places (n, d) from the polyline through `points` (T, d), along its segments."""
    begin, end = (points, np.roll(points, -1, axis=0)) if closed else (points[:-1], points[1:])
    v, out = end - begin, np.full(len(places), np.inf)
    square = np.maximum((v**2).sum(axis=1), 1e-300)
    for rows in np.array_split(np.arange(len(v)), len(v) // SEGMENTS_PER_BLOCK + 1):
        away = places[:, None] - begin[rows]
        part = np.clip((away * v[rows]).sum(axis=2) / square[rows], 0, 1)
        out = np.minimum(out, np.linalg.norm(away - part[..., None] * v[rows], axis=2).min(axis=1))
    return out


def chamfer_distance(drawn: np.ndarray, wanted: np.ndarray) -> float:
    """Return the mean distance of the points of one curve to the nearest of the other, summed over both directions."""
    from scipy.spatial import KDTree

    return float(KDTree(wanted).query(drawn)[0].mean() + KDTree(drawn).query(wanted)[0].mean())


def ordered_distance(drawn: np.ndarray, wanted: np.ndarray) -> float:
    """Return 2π times the mean squared distance of points (n, d) of two curves, paired in their order.

    The pairing with the least distance counts, over all first points and both directions.
    """
    squares = (drawn**2).sum() + (wanted**2).sum()
    other = np.fft.rfft(wanted, axis=0)
    products = [
        np.fft.irfft((np.fft.rfft(curve, axis=0).conj() * other).sum(axis=1), len(wanted)).max()
        for curve in (drawn, drawn[::-1])
    ]
    return float(2 * np.pi * max(squares - 2 * max(products), 0.0) / len(wanted))


def curve_distances(drawn: np.ndarray, closed_drawn: bool, wanted: np.ndarray, closed: bool) -> tuple[float, float]:
    """Return the Chamfer and the ordered distance of two curves, in units of the wanted one's spread.

    Both curves are resampled to `COMPARED_POINTS` points by length. Measures of LInK, Heyrani Nobari et al. 2024. A closed
    curve has no first point. The distances depend on the one that is taken, the Chamfer distance by up to the spacing of
    the points. They are the largest ones from `RESAMPLING_STARTS` starting points of the drawn curve.
    """
    b = resample(wanted, COMPARED_POINTS, closed)
    centre = b.mean(axis=0)
    size = np.sqrt(((b - centre) ** 2).sum(axis=1).mean())
    shifts = np.arange(RESAMPLING_STARTS) / RESAMPLING_STARTS if closed_drawn else [0.0]
    sampled = [(resample(drawn, COMPARED_POINTS, closed_drawn, shift) - centre) / size for shift in shifts]
    b = (b - centre) / size
    return max(chamfer_distance(a, b) for a in sampled), max(ordered_distance(a, b) for a in sampled)


def curve_points(targets: Any, closed: bool | None, columns: tuple[int, ...] = (2,)) -> tuple[np.ndarray, bool]:
    """Return the points (T, d) of a curve without repeated ones, and True if it is closed; `columns` are the allowed d.

    If `closed` is None, the curve is closed if the gap between its ends is small.

    Raises:
        ValueError: another shape; numbers that are not finite; fewer than three different points; the segment that closes
            the curve crosses it.
    """
    try:
        points = np.asarray(targets, float)
    except (TypeError, ValueError):
        raise ValueError("targets must be numbers, equally many for each point") from None
    if points.ndim != 2 or points.shape[1] not in columns:
        shapes = " or ".join(f"(T, {count})" for count in columns)
        raise ValueError(f"targets must be points of a curve, shape {shapes}, got shape {points.shape}")
    if not np.all(np.isfinite(points)):
        row = int(np.argmin(np.isfinite(points).all(axis=1)))
        raise ValueError(f"targets must be finite, got {points[row].tolist()} in row {row}")
    moved = np.linalg.norm(np.diff(points, axis=0), axis=1) > 1e-12 * np.abs(points - points[:1]).max(initial=0)
    points = points[np.append(True, moved)]
    if len(np.unique(points, axis=0)) < 3:
        raise ValueError("targets must have at least three different points")
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    gap = float(np.linalg.norm(points[-1] - points[0]))
    extent = float(np.linalg.norm(np.ptp(points, axis=0)))
    near = gap <= min(MAX_GAP_IN_STEPS * float(np.quantile(steps, GAP_QUANTILE)), MAX_GAP_OF_EXTENT * extent)
    if closed and not near and points.shape[1] == 2 and _closing_segment_crosses(points):
        crosses = "the line from the last point to the first crosses the curve"
        raise ValueError(f"targets cannot be closed: {crosses}; omit closed=True, or add the missing points")
    closed = near if closed is None else bool(closed)
    if closed and gap <= 1e-9 * steps.max():
        points = points[:-1]
    return points, closed


def _closing_segment_crosses(points: np.ndarray) -> bool:
    """Return True if the segment from the last of the points (T, 2) to the first crosses another segment."""
    a, b, p, q = points[-1], points[0], points[1:-2], points[2:-1]

    def side(a, b, c):
        """Return 1 where c is to the left of the line from a to b, −1 where it is to the right, 0 on the line."""
        v, w = b - a, c - a
        return np.sign(v[..., 0] * w[..., 1] - v[..., 1] * w[..., 0])

    return bool(np.any((side(a, b, p) * side(a, b, q) < 0) & (side(p, q, a) * side(p, q, b) < 0)))
