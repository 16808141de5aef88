"""Links that take a point of a body past given poses, and four-bars made of two of them."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from jaxmbs.numerics.plane import perpendicular
from jaxmbs.search.multistart import PUSH, Problem, Search, Seen, Stage, State, best_first, descended
from jaxmbs.synthesis import common
from jaxmbs.synthesis.linkages.linkage import TINY

# Steps of the search. At most PAIRS pairs of links become linkages, among them every pair of the FEW best links.
SINGLE, PAIRS, FEW = 60, 512, 24
# Without bounds the sizes stay within this factor of the spread, and a link is no shorter.
FACTOR, MIN_LENGTH = 10.0, 0.05


def _carried(points, goal):
    """Where points (N, 2) of the body are at the poses: complex (N, K)."""
    turn, shift = goal[:, 2:] @ [1, 1j], goal[:, :2] @ [1, 1j]
    return (points @ [1, 1j])[:, None] * turn + shift


def single_links(goal, search: Search, rng) -> tuple[np.ndarray, np.ndarray]:
    """Pivot, point and logarithm of the radius (N, 5) of different links, and how badly they keep their circles (N,)."""
    points = rng.normal(0, 1.5, (search.starts, 2))
    z = _carried(points, goal)
    # The circle is linear in its centre and in its radius squared less that of the centre: 2 x·o + w = x².
    rows = np.stack([2 * z.real, 2 * z.imag, np.ones(z.shape)], -1)
    circle = (np.linalg.pinv(rows, 1e-9) @ (np.abs(z) ** 2)[..., None])[..., 0]
    length = np.sqrt(np.clip(circle[:, 2] + (circle[:, :2] ** 2).sum(axis=1), MIN_LENGTH**2, FACTOR**2))
    u = np.column_stack([np.clip(circle[:, :2], -FACTOR, FACTOR), points, np.log(length)])
    begun = State.begin(u, ())
    state = descended(OnCircle(), begun, [Stage(SINGLE, goal)], search, at_once=SINGLE)
    # Many poses leave few links that are best: then the circles that they began from go on as well.
    distance, radius = np.abs(z - (u[:, :2] @ [1, 1j])[:, None]), np.exp(u[:, 4])[:, None]
    u, cost = np.vstack([state.shared, u]), np.append(state.cost, ((distance - radius) ** 2).sum(axis=1))
    seen = Seen()
    different: list[int] = []
    for k in best_first(cost):
        if len(different) < PAIRS and seen.is_new(u[k]):
            different.append(k)
    if len(different) < 2:
        raise ValueError(
            "fewer than two links were found that take a point of the body past the poses; allow more starts"
        )
    return u[different], cost[different]


@dataclass(frozen=True)
class OnCircle(Problem):
    """A point of the body that stays on a circle: pivot, point and logarithm of the radius."""

    def rows(self, data, goal):
        def residual(u, own, state, pose):
            x = pose[:2] + u[2] * pose[2:] + u[3] * perpendicular(pose[2:]) - u[:2]
            return (jnp.sqrt(x @ x + TINY) - jnp.exp(u[4]))[None], state

        def prior(u):
            low, high = jnp.log(MIN_LENGTH), jnp.log(FACTOR)
            sizes = jnp.concatenate([jnp.maximum(jnp.abs(u[:4]) - FACTOR, 0), jnp.maximum(u[4:] - high, 0)])
            return PUSH * jnp.concatenate([sizes, jnp.maximum(low - u[4:], 0)])

        return residual, prior, goal


def paired(links, goal, ordered: bool, rng):
    """Free numbers, crank angles and branches of four-bars of two links each."""
    links, costs = links
    # All pairs of the best ones, and random ones.
    count, few = len(links), min(len(links), FEW)
    i, j = np.nonzero(~np.eye(few, dtype=bool))
    i = np.append(i, rng.integers(0, count, 32 * PAIRS))
    j = np.append(j, (i[len(j) :] + rng.integers(1, count, 32 * PAIRS)) % count)
    first, second = links[i], links[j]
    u = np.column_stack([first[:, :2], second[:, :2], first[:, 2:4], second[:, 2:4], first[:, 4], second[:, 4]])
    pin, elbow = _carried(u[:, 4:6], goal), _carried(u[:, 6:8], goal)
    near, far = (u[:, 0:2] @ [1, 1j])[:, None], (u[:, 2:4] @ [1, 1j])[:, None]
    angles = np.angle(pin - near)
    side = np.sign((np.conj(far - pin) * (elbow - pin)).imag)
    branch = np.where(side.sum(axis=1) >= 0, 1.0, -1.0)
    sense = [np.mod(way * np.diff(angles, axis=1), 2 * np.pi).sum(axis=1) < 2 * np.pi for way in (1, -1)]
    # Those that stay on one branch and keep the order come first, and of them those that do not fold up.
    folded = np.minimum(np.abs(elbow - pin).min(axis=1), np.abs(far - near)[:, 0]) < MIN_LENGTH
    badness = 4 * folded + 2 * (np.abs(side.sum(axis=1)) < side.shape[1])
    badness = badness + ~(sense[0] | sense[1]) * ordered
    # Of exact links any will do.
    best = np.lexsort((np.maximum(costs[i] + costs[j], common.near_zero()), badness))[:PAIRS]
    return u[best], angles[best], branch[best]
