"""Curves as shapes: drawn as lines through points, however fast; how far two of them are apart."""

from __future__ import annotations

from typing import Any

import numpy as np

# Points of each curve where two are compared.
COMPARED = 2000
# Segments of a line whose distances are computed at once.
AT_ONCE = 1000
# A curve is closed if its ends are no further apart than this many times most steps between its points, and than this part
# of its extent.
MAX_GAP_IN_STEPS, GAP_QUANTILE, MAX_GAP_OF_EXTENT = 1.5, 0.9, 0.15


def resampled(points: np.ndarray, count: int, closed: bool) -> np.ndarray:
    """Points (count, d) at equal distances along the line through `points`; a closed one comes back to the first."""
    if closed:
        points = np.concatenate([points, points[:1]])
    along = np.append(0, np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1)))
    at = np.linspace(0, along[-1], count, endpoint=not closed)
    return np.column_stack([np.interp(at, along, column) for column in points.T])


def distances_from(places: np.ndarray, points: np.ndarray, closed: bool) -> np.ndarray:
    """Distances (n,) of places from the line through points, exact on its segments."""
    begin, end = (points, np.roll(points, -1, axis=0)) if closed else (points[:-1], points[1:])
    v, out = end - begin, np.full(len(places), np.inf)
    square = np.maximum((v**2).sum(axis=1), 1e-300)
    for rows in np.array_split(np.arange(len(v)), len(v) // AT_ONCE + 1):
        away = places[:, None] - begin[rows]
        part = np.clip((away * v[rows]).sum(axis=2) / square[rows], 0, 1)
        out = np.minimum(out, np.linalg.norm(away - part[..., None] * v[rows], axis=2).min(axis=1))
    return out


def chamfer(drawn: np.ndarray, wanted: np.ndarray) -> float:
    """The mean distance of points of a curve to the nearest of another one, and the same the other way, added."""
    from scipy.spatial import KDTree

    return float(KDTree(wanted).query(drawn)[0].mean() + KDTree(drawn).query(wanted)[0].mean())


def ordered(drawn: np.ndarray, wanted: np.ndarray) -> float:
    """2π times the least mean square of the distances of points in their order, (n, d) each: the least over all points at
    which to begin, and both directions."""
    squares = (drawn**2).sum() + (wanted**2).sum()
    other = np.fft.rfft(wanted, axis=0)
    products = [
        np.fft.irfft((np.fft.rfft(curve, axis=0).conj() * other).sum(axis=1), len(wanted)).max()
        for curve in (drawn, drawn[::-1])
    ]
    return float(2 * np.pi * max(squares - 2 * max(products), 0.0) / len(wanted))


def distances(drawn: np.ndarray, closed_drawn: bool, wanted: np.ndarray, closed: bool) -> tuple[float, float]:
    """Chamfer and ordered distance of two curves, both of 2,000 points by length, where the wanted one has a root mean
    square distance of 1 from its centre; measures of LInK, Heyrani Nobari et al. 2024."""
    a, b = resampled(drawn, COMPARED, closed_drawn), resampled(wanted, COMPARED, closed)
    centre = b.mean(axis=0)
    size = np.sqrt(((b - centre) ** 2).sum(axis=1).mean())
    a, b = (a - centre) / size, (b - centre) / size
    return chamfer(a, b), ordered(a, b)


def curve_of(targets: Any, closed: bool | None, columns: tuple[int, ...] = (2,)) -> tuple[np.ndarray, bool]:
    """The points of a curve, repeated ones left out, and whether it is closed.

    Raises:
        ValueError: another shape; no finite numbers; fewer than three different points; a closed curve whose last part,
            from the last point to the first, would cross it.
    """
    try:
        points = np.asarray(targets, float)
    except (TypeError, ValueError):
        raise ValueError("targets must be numbers, as many for each point") from None
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
    if closed and not near and points.shape[1] == 2 and _crosses(points):
        raise ValueError(
            "targets cannot be closed: the line from the last point to the first crosses the curve; leave closed=True out, "
            "or add the points that are missing"
        )
    closed = near if closed is None else bool(closed)
    if closed and gap <= 1e-9 * steps.max():
        points = points[:-1]
    return points, closed


def _crosses(points: np.ndarray) -> bool:
    """Whether the line from the last point to the first one crosses a line between two others."""
    a, b, p, q = points[-1], points[0], points[1:-2], points[2:-1]
    side = lambda a, b, c: np.sign(
        (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])
    )
    return bool(np.any((side(a, b, p) * side(a, b, q) < 0) & (side(p, q, a) * side(p, q, b) < 0)))
