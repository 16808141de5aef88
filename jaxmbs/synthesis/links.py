"""Links that guide a point of a body on a circle through given poses, and four-bars made of two such links."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from jaxmbs import search
from jaxmbs.numerics.plane import perpendicular
from jaxmbs.synthesis import common
from jaxmbs.synthesis.linkages.linkage import TINY

# Number of steps of the search for single links.
STEPS_SINGLE_LINKS = 60
# Largest number of single links, those with the least errors, of which pairs are made.
MAX_KEPT_LINKS = 512
# Largest number of pairs of single links that become four-bars.
MAX_PAIRS = 512
# Number of single links with the least errors of which all pairs are considered; other pairs are random.
ALL_PAIRS_LINKS = 24
# Number of random pairs of links considered, divided by `MAX_PAIRS`.
RANDOM_PAIRS_PER_FOUR_BAR = 32
# Upper limit on radii and coordinates of single links, and default bound in `motion`, in units of the poses' spread.
MAX_SIZE = 10.0
# Lower limit on radii of single links, and default bound on lengths in `motion`, in units of the poses' spread.
MIN_LENGTH = 0.05
# Four-bars whose moving pins or pivots come closer than this, in units of the poses' spread, are ranked after others.
MIN_PIN_DISTANCE = 0.05


def _places_at_poses(points, goal):
    """Return the places of points (N, 2) of the body at the poses `goal` (K, 4), as complex numbers (N, K)."""
    turn, shift = goal[:, 2:] @ [1, 1j], goal[:, :2] @ [1, 1j]
    return (points @ [1, 1j])[:, None] * turn + shift


def single_links(goal, options: search.SearchOptions, rng) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct links (N, 5) that guide a point of the body on a circle, and their sums of squared errors (N,).

    A link is pivot (2), point in the body's axes (2), and logarithm of the radius; `goal` is (K, 4), rows x, y, cos φ,
    sin φ of the poses.

    Raises:
        ValueError: fewer than two links were found.
    """
    points = rng.normal(0, 1.5, (options.starts, 2))
    z = _places_at_poses(points, goal)
    # The equation of a circle is linear in its centre o and in w = r² − o²: 2 x·o + w = x².
    rows = np.stack([2 * z.real, 2 * z.imag, np.ones(z.shape)], -1)
    circle = (np.linalg.pinv(rows, 1e-9) @ (np.abs(z) ** 2)[..., None])[..., 0]
    length = np.sqrt(np.clip(circle[:, 2] + (circle[:, :2] ** 2).sum(axis=1), MIN_LENGTH**2, MAX_SIZE**2))
    u = np.column_stack([np.clip(circle[:, :2], -MAX_SIZE, MAX_SIZE), points, np.log(length)])
    phases = [search.LeastSquaresPhase(STEPS_SINGLE_LINKS, goal)]
    carry = search.MultistartCarry.at_start(u, ())
    carry = search.descend(OnCircle(), carry, phases, options, steps_per_report=STEPS_SINGLE_LINKS)
    # For many poses only few links are optimal; then the circles that they started from are candidates as well.
    distance, radius = np.abs(z - (u[:, :2] @ [1, 1j])[:, None]), np.exp(u[:, 4])[:, None]
    u, cost = np.vstack([carry.shared, u]), np.append(carry.cost, ((distance - radius) ** 2).sum(axis=1))
    distinct = search.DistinctDesigns()
    kept: list[int] = []
    for k in search.order_by_cost(cost):
        if len(kept) < MAX_KEPT_LINKS and distinct.add(u[k]):
            kept.append(k)
    if len(kept) < 2:
        raise ValueError(
            "fewer than two links were found that guide a point of the body through the poses; allow more starts"
        )
    return u[kept], cost[kept]


@dataclass(frozen=True)
class OnCircle(search.LeastSquaresProblem):
    """Least squares for a point of the body on a circle in all poses; the unknowns are a link, see `single_links`."""

    def residual_functions(self, data, inputs):
        """Return the residual of a pose, that of the size limits, and the poses as blocks."""

        def residual(u, own, carried, pose):
            """Return (distance of the point from the pivot − radius,) in one pose."""
            x = pose[:2] + u[2] * pose[2:] + u[3] * perpendicular(pose[2:]) - u[:2]
            return (jnp.sqrt(x @ x + TINY) - jnp.exp(u[4]))[None], carried

        def prior(u):
            """Return the penalties of coordinates and radius beyond `MAX_SIZE`, and of a radius below `MIN_LENGTH`."""
            low, high = jnp.log(MIN_LENGTH), jnp.log(MAX_SIZE)
            sizes = jnp.concatenate([jnp.maximum(jnp.abs(u[:4]) - MAX_SIZE, 0), jnp.maximum(u[4:] - high, 0)])
            return search.PENALTY_START * jnp.concatenate([sizes, jnp.maximum(low - u[4:], 0)])

        return residual, prior, inputs


def four_bars_of(links, costs, goal, ordered: bool, rng):
    """Return M ≤ `MAX_PAIRS` four-bars of two links each, the best first, from links and costs of `single_links`.

    They are free numbers (M, 10), see `motion.design_of`; crank angles from the x axis (M, K); and branches (M,). If
    `ordered`, those that pass the poses in their order are preferred.
    """
    count, best_links = len(links), min(len(links), ALL_PAIRS_LINKS)
    random_pairs = RANDOM_PAIRS_PER_FOUR_BAR * MAX_PAIRS
    i, j = np.nonzero(~np.eye(best_links, dtype=bool))
    i = np.append(i, rng.integers(0, count, random_pairs))
    j = np.append(j, (i[len(j) :] + rng.integers(1, count, random_pairs)) % count)
    first, second = links[i], links[j]
    u = np.column_stack([first[:, :2], second[:, :2], first[:, 2:4], second[:, 2:4], first[:, 4], second[:, 4]])
    pin, elbow = _places_at_poses(u[:, 4:6], goal), _places_at_poses(u[:, 6:8], goal)
    near, far = (u[:, 0:2] @ [1, 1j])[:, None], (u[:, 2:4] @ [1, 1j])[:, None]
    angles = np.angle(pin - near)
    side = np.sign((np.conj(far - pin) * (elbow - pin)).imag)
    branch = np.where(side.sum(axis=1) >= 0, 1.0, -1.0)
    sense = [np.mod(way * np.diff(angles, axis=1), 2 * np.pi).sum(axis=1) < 2 * np.pi for way in (1, -1)]
    # Preferred are four-bars that do not fold up, stay on one branch, and keep the order, in this priority.
    folded = np.minimum(np.abs(elbow - pin).min(axis=1), np.abs(far - near)[:, 0]) < MIN_PIN_DISTANCE
    badness = 4 * folded + 2 * (np.abs(side.sum(axis=1)) < side.shape[1])
    badness = badness + ~(sense[0] | sense[1]) * ordered
    # Links with errors near zero are equally good.
    best = np.lexsort((np.maximum(costs[i] + costs[j], common.zero_tolerance()), badness))[:MAX_PAIRS]
    return u[best], angles[best], branch[best]
