"""Links that take a point of a body past given poses, and four-bars made of two of them."""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.numerics.least_squares import levenberg_marquardt
from jaxmbs.numerics.plane import perpendicular
from jaxmbs.programs.function import Straight
from jaxmbs.synthesis.common import TINY, finite, near_zero

# Steps of the search. At most PAIRS pairs of links become linkages, among them every pair of the FEW best links.
SINGLE, PAIRS, FEW = 60, 512, 24
# No angle, and no length in units of the poses' spread, changes by more in a step.
LONGEST = 0.5
# How hard bounds push.
PUSH = 10.0
# Without bounds the sizes stay within this factor of the spread, and a link is no shorter.
FACTOR, SHORTEST = 10.0, 0.05
# Links whose numbers differ by no more are the same.
SAME = 1e-3


def _carried(points, goal):
    """Where points (N, 2) of the body are at the poses: complex (N, K)."""
    turn, shift = goal[:, 2:] @ [1, 1j], goal[:, :2] @ [1, 1j]
    return (points @ [1, 1j])[:, None] * turn + shift


def single_links(goal, starts: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Pivot, point and logarithm of the radius (N, 5) of different links, and how badly they keep their circles (N,)."""
    points = rng.normal(0, 1.5, (starts, 2))
    z = _carried(points, goal)
    # The circle is linear in its centre and in its radius squared less that of the centre: 2 x·o + w = x².
    rows = np.stack([2 * z.real, 2 * z.imag, np.ones(z.shape)], -1)
    circle = (np.linalg.pinv(rows, 1e-9) @ (np.abs(z) ** 2)[..., None])[..., 0]
    length = np.sqrt(np.clip(circle[:, 2] + (circle[:, :2] ** 2).sum(axis=1), SHORTEST**2, FACTOR**2))
    u = np.column_stack([np.clip(circle[:, :2], -FACTOR, FACTOR), points, np.log(length)])
    fitted, cost = _single()(u, goal)
    # Many poses leave few links that are best: then the circles that they began from go on as well.
    distance, radius = np.abs(z - (u[:, :2] @ [1, 1j])[:, None]), np.exp(u[:, 4])[:, None]
    u, cost = np.vstack([fitted, u]), np.append(finite(cost), ((distance - radius) ** 2).sum(axis=1))
    different, costs, count = np.full((PAIRS, 5), np.inf), np.zeros(PAIRS), 0
    for k in np.argsort(cost, kind="stable"):
        if count == PAIRS or not np.isfinite(cost[k]):
            break
        if np.abs(different[:count] - u[k]).max(axis=1).min(initial=np.inf) > SAME:
            different[count], costs[count] = u[k], cost[k]
            count += 1
    if count < 2:
        raise ValueError(
            "fewer than two links were found that take a point of the body past the poses; allow more starts"
        )
    return different[:count], costs[:count]


@lru_cache(maxsize=1)
def _single():
    def of_one(u, goal):
        def residual(u, own, state, pose):
            x = pose[:2] + u[2] * pose[2:] + u[3] * perpendicular(pose[2:]) - u[:2]
            return (jnp.sqrt(x @ x + TINY) - jnp.exp(u[4]))[None], state

        def prior(u):
            low, high = jnp.log(SHORTEST), jnp.log(FACTOR)
            sizes = jnp.concatenate([jnp.maximum(jnp.abs(u[:4]) - FACTOR, 0), jnp.maximum(u[4:] - high, 0)])
            return PUSH * jnp.concatenate([sizes, jnp.maximum(low - u[4:], 0)])

        own = jnp.zeros((goal.shape[0], 0))
        found = levenberg_marquardt(residual, prior, u, own, (), goal, iterations=SINGLE, longest=LONGEST)
        return found.shared, found.cost

    return jax.jit(jax.vmap(Straight(of_one), in_axes=(0, None)))


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
    folded = np.minimum(np.abs(elbow - pin).min(axis=1), np.abs(far - near)[:, 0]) < SHORTEST
    badness = 4 * folded + 2 * (np.abs(side.sum(axis=1)) < side.shape[1])
    badness = badness + ~(sense[0] | sense[1]) * ordered
    # Of exact links any will do.
    best = np.lexsort((np.maximum(costs[i] + costs[j], near_zero()), badness))[:PAIRS]
    return u[best], angles[best], branch[best]
