"""Closed forms of dyads, two links with a common joint between two bodies, and random dyads that always close.

A dyad has six numbers, which depend on its kind:

| kind | 0, 1 | 2, 3 | 4 | 5 |
|---|---|---|---|---|
| RRR: three pins | link's beginning | arm's beginning | link's length | arm's length |
| RRP: a slider is pinned to the link's end | link's beginning | offset and slope of its line | link's length | |
| RPR: the link slides through a pinned block | link's beginning | the block's pin | offset of that pin from the link | |

Places and lines are in the frames of the bodies that carry them.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from jaxmbs.numerics.plane import direction as unit
from jaxmbs.numerics.plane import perpendicular
from jaxmbs.synthesis.linkages.linkage import MIN_SQUARED_HEIGHT, TINY, close_links, end_on_line, placed_on

# Kind of a dyad with three pins.
RRR = "RRR"
# Kind of a dyad with a slider pinned to the link's end.
RRP = "RRP"
# Kind of a dyad whose link slides through a pinned block.
RPR = "RPR"
# All kinds of dyads.
KINDS = (RRR, RRP, RPR)


def close_dyad(kind: str, link_base, arm_base, numbers, sign):
    """Close a dyad of a kind.

    Args:
        kind: one of `KINDS`.
        link_base: frame (origin, x axis) of the body on which the link begins.
        arm_base: frame of the body on which the arm begins.
        numbers: (6,) of the dyad, with plain lengths.
        sign: +1 if the common pin is to the left of the line between the two beginnings (RRR), the slider ahead (RRP), or
            the block ahead on the link (RPR).

    Returns:
        The frames of the link and of the arm, and a cosine that is beyond ±1 if the dyad cannot close.
    """
    begin = placed_on(link_base[0], link_base[1], numbers[:2])
    if kind == RRP:
        offset, slope, length = numbers[2], numbers[3], numbers[4]
        origin, e = arm_base
        line = placed_on(jnp.zeros(2), e, unit(slope))
        normal = perpendicular(line)
        ahead, cosine = end_on_line(offset - (begin - origin) @ normal, length, sign)
        e = ahead * line + cosine * normal
        return (begin, e), (begin + length * e, line), cosine
    end = placed_on(arm_base[0], arm_base[1], numbers[2:4])
    d = end - begin
    if kind == RPR:
        offset, square = numbers[4], d @ d + TINY
        way = sign * jnp.sqrt(jnp.maximum(square - offset**2, MIN_SQUARED_HEIGHT * square))
        e = (way * d - offset * perpendicular(d)) / square
        return (begin, e), (end, e), offset / jnp.sqrt(square)
    length, other = numbers[4], numbers[5]
    e, cosine = close_links(d, length, other, sign)
    return (begin, e), (end, (length * e - d) / other), cosine


def random_dyads(rng: np.random.Generator, bodies: np.ndarray, kinds: Sequence[str], samples: int = 48):
    """Return random linkages whose cranks turn fully: lengths are chosen such that each dyad reaches over the whole turn.

    Args:
        rng: generator of random numbers.
        bodies: (count, K, 2) bodies on which link and arm of each dyad begin, numbered as in `Dyadic.bodies`.
        kinds: (K,) of the dyads.
        samples: number of crank angles of a turn that are checked.

    Returns:
        The numbers of the dyads (count, K, 6), their signs (count, K), a point of the last link (count, 2), and its places
        over a turn as complex numbers (count, samples). The crank's pivot is the origin, its pin on x.
    """
    count, dyads, _ = bodies.shape
    rows, signs = np.arange(count), rng.choice([-1.0, 1.0], (count, dyads))
    normal = lambda: rng.normal(size=count) + 1j * rng.normal(size=count)
    origins = np.zeros((count, 2 * dyads + 2, samples), complex)
    axes = np.ones((count, 2 * dyads + 2, samples), complex)
    axes[:, 1] = np.exp(2j * np.pi * np.arange(samples) / samples)
    numbers = np.zeros((count, dyads, 6))
    for k, kind in enumerate(kinds):
        sizes = np.exp(0.4 * rng.normal(size=count))
        first, second = normal() * sizes, normal() * sizes
        if k == 0:  # the ground has length 1, and the crank is in most cases shorter
            crank = np.exp(rng.uniform(-1.6, 0.3, count))
            first, second = (np.where(bodies[:, 0, side] == 1, crank, 1.0) + 0j for side in (0, 1))
        link_base, arm_base = ((origins[rows, body], axes[rows, body]) for body in bodies[:, k].T)
        begin, sign = link_base[0] + first[:, None] * link_base[1], signs[:, k, None]
        longer, less = 1 + np.exp(rng.uniform(-3, 0.7, count)), 0.97 * np.tanh(rng.uniform(-1.5, 1.5, count))
        numbers[:, k, :2] = np.column_stack([first.real, first.imag])
        if kind == RRP:
            slope = np.where(k > 0, rng.uniform(-np.pi, np.pi, count), 0.0)
            offset = np.asarray(0.5 * rng.normal(size=count))
            line = arm_base[1] * np.exp(1j * slope)[:, None]
            height = offset[:, None] - ((begin - arm_base[0]) * line.conj()).imag
            length = np.abs(height).max(axis=1) * longer
            cosine = height / length[:, None]
            axis = (sign * np.sqrt(1 - cosine**2) + 1j * cosine) * line
            arm = begin + length[:, None] * axis, line
            numbers[:, k, 2:5] = np.column_stack([offset, slope, length])
        else:
            end = arm_base[0] + second[:, None] * arm_base[1]
            d = end - begin
            square = np.maximum(np.abs(d) ** 2, TINY)
            near, far = np.sqrt(square.min(axis=1)), np.sqrt(square.max(axis=1))
            if kind == RPR:
                offset = near * less
                axis = d * (sign * np.sqrt(square - offset[:, None] ** 2) - 1j * offset[:, None]) / square
                arm = end, axis
                rest = np.column_stack([offset, 0 * offset])
            else:
                both, apart = far * longer, near * less
                length, other = ((both + apart) / 2)[:, None], ((both - apart) / 2)[:, None]
                part = (length**2 / square + 1 - other**2 / square) / 2
                height = sign * np.sqrt(np.maximum(length**2 / square - part**2, MIN_SQUARED_HEIGHT))
                axis = (part + 1j * height) * d / length
                arm = end, (length * axis - d) / other
                rest = np.concatenate([length, other], axis=1)
            numbers[:, k, 2:] = np.column_stack([second.real, second.imag, rest])
        origins[:, 2 * k + 2], axes[:, 2 * k + 2] = begin, axis
        origins[:, 2 * k + 3], axes[:, 2 * k + 3] = arm
    size = np.abs(begin - begin.mean(axis=1, keepdims=True)).max(axis=1) + numbers[:, -1, 4]
    point = normal() * size * np.exp(0.5 * rng.normal(size=count) - 0.2)
    drawn = begin + point[:, None] * axis
    return numbers, signs, np.column_stack([point.real, point.imag]), drawn
