"""How dyads close: two links with a common joint between two bodies, in closed form, and random ones that always do.

A dyad has six numbers, whatever its joints are:

| kind | 0, 1 | 2, 3 | 4 | 5 |
|---|---|---|---|---|
| RRR: three pins | where the link begins | where the arm begins | length of the link | of the arm |
| RRP: a slider is pinned to the link's end | the same | offset and slope of its line | length of the link | |
| RPR: the link slides through a pinned block | the same | the block's pin | offset of that pin from the link | |

Places and lines are in the frames of the bodies on which they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from jaxmbs.numerics.plane import direction as unit
from jaxmbs.numerics.plane import perpendicular
from jaxmbs.synthesis.linkages.linkage import FLAT, TINY, dyad, placed_on, slide

RRR, RRP, RPR = "RRR", "RRP", "RPR"
KINDS = (RRR, RRP, RPR)


def closed(kind: str, of_link, of_arm, numbers, sign):
    """Frames (origin, direction of x) of the two links of a dyad, and a cosine that is beyond ±1 where it cannot close.

    Args:
        of_link, of_arm: frames of the bodies on which link and arm begin. numbers: the six of the dyad.
        sign: +1 where the common pin is to the left of the line between the two ends (RRR), the slider ahead (RRP), the
            block ahead on the link (RPR).
    """
    begin = placed_on(of_link[0], of_link[1], numbers[:2])
    if kind == RRP:
        offset, slope, length = numbers[2], numbers[3], numbers[4]
        origin, e = of_arm
        line = placed_on(jnp.zeros(2), e, unit(slope))
        normal = perpendicular(line)
        ahead, cosine = slide(offset - (begin - origin) @ normal, length, sign)
        e = ahead * line + cosine * normal
        return (begin, e), (begin + length * e, line), cosine
    end = placed_on(of_arm[0], of_arm[1], numbers[2:4])
    d = end - begin
    if kind == RPR:
        offset, square = numbers[4], d @ d + TINY
        way = sign * jnp.sqrt(jnp.maximum(square - offset**2, FLAT * square))
        e = (way * d - offset * perpendicular(d)) / square
        return (begin, e), (end, e), offset / jnp.sqrt(square)
    length, other = numbers[4], numbers[5]
    e, cosine = dyad(d, length, other, sign)
    return (begin, e), (end, (length * e - d) / other), cosine


def random_dyads(rng: np.random.Generator, bodies: np.ndarray, kinds: Sequence[str], samples: int = 48):
    """Random linkages of dyads that turn all round: each dyad is as long as the ends demand between which it is.

    Args:
        bodies: (count, K, 2), on which link and arm of each dyad begin: 0 the ground, 1 the crank, 2k + 2 and 2k + 3 the
            links of dyad k from 0. kinds: (K,) of the dyads.
        samples: crank angles of a turn at which the ends are looked at.

    Returns:
        The numbers of the dyads (count, K, 6), their signs (count, K), a point of the last link (count, 2), and where
        that point is over a turn, complex (count, samples). The crank's pivot is the origin, its pin in x.
    """
    count, dyads, _ = bodies.shape
    rows, signs = np.arange(count), rng.choice([-1.0, 1.0], (count, dyads))
    normal = lambda: rng.normal(size=count) + 1j * rng.normal(size=count)
    origins = np.zeros((count, 2 * dyads + 2, samples), complex)
    ways = np.ones((count, 2 * dyads + 2, samples), complex)
    ways[:, 1] = np.exp(2j * np.pi * np.arange(samples) / samples)
    numbers = np.zeros((count, dyads, 6))
    for k, kind in enumerate(kinds):
        sizes = np.exp(0.4 * rng.normal(size=count))
        first, second = normal() * sizes, normal() * sizes
        if k == 0:  # a crank that is no longer than the ground, in most cases
            crank = np.exp(rng.uniform(-1.6, 0.3, count))
            first, second = (np.where(bodies[:, 0, side] == 1, crank, 1.0) + 0j for side in (0, 1))
        of_link, of_arm = ((origins[rows, on], ways[rows, on]) for on in bodies[:, k].T)
        begin, sign = of_link[0] + first[:, None] * of_link[1], signs[:, k, None]
        longer, less = 1 + np.exp(rng.uniform(-3, 0.7, count)), 0.97 * np.tanh(rng.uniform(-1.5, 1.5, count))
        numbers[:, k, :2] = np.column_stack([first.real, first.imag])
        if kind == RRP:
            slope = np.where(k > 0, rng.uniform(-np.pi, np.pi, count), 0.0)
            offset = np.asarray(0.5 * rng.normal(size=count))
            line = of_arm[1] * np.exp(1j * slope)[:, None]
            height = offset[:, None] - ((begin - of_arm[0]) * line.conj()).imag
            length = np.abs(height).max(axis=1) * longer
            cosine = height / length[:, None]
            way = (sign * np.sqrt(1 - cosine**2) + 1j * cosine) * line
            arm = begin + length[:, None] * way, line
            numbers[:, k, 2:5] = np.column_stack([offset, slope, length])
        else:
            end = of_arm[0] + second[:, None] * of_arm[1]
            d = end - begin
            square = np.maximum(np.abs(d) ** 2, TINY)
            near, far = np.sqrt(square.min(axis=1)), np.sqrt(square.max(axis=1))
            if kind == RPR:
                offset = near * less
                way = d * (sign * np.sqrt(square - offset[:, None] ** 2) - 1j * offset[:, None]) / square
                arm = end, way
                rest = np.column_stack([offset, 0 * offset])
            else:
                both, apart = far * longer, near * less
                length, other = ((both + apart) / 2)[:, None], ((both - apart) / 2)[:, None]
                part = (length**2 / square + 1 - other**2 / square) / 2
                height = sign * np.sqrt(np.maximum(length**2 / square - part**2, FLAT))
                way = (part + 1j * height) * d / length
                arm = end, (length * way - d) / other
                rest = np.concatenate([length, other], axis=1)
            numbers[:, k, 2:] = np.column_stack([second.real, second.imag, rest])
        origins[:, 2 * k + 2], ways[:, 2 * k + 2] = begin, way
        origins[:, 2 * k + 3], ways[:, 2 * k + 3] = arm
    size = np.abs(begin - begin.mean(axis=1, keepdims=True)).max(axis=1) + numbers[:, -1, 4]
    point = normal() * size * np.exp(0.5 * rng.normal(size=count) - 0.2)
    seen = begin + point[:, None] * way
    return numbers, signs, np.column_stack([point.real, point.imag]), seen
