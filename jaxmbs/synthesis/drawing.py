"""Linkages of dyads as rows of numbers, for all topologies: closed form and similarity.

The bodies on which a dyad begins are numbers as well, so all topologies share one program. A row has

- the crank's pivot (2);
- six numbers per dyad, see `linkages.dyads`, with lengths as logarithms;
- the point (2);
- for an open curve, the crank angle at which it begins, and the angle by which the crank turns;
- if the wanted curve may be moved, the logarithm of a scale factor, an angle, and a shift (2).

The ground's frame begins at the crank's pivot and is not turned.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.programs import ProgramWithFallback
from jaxmbs.synthesis import common
from jaxmbs.synthesis.linkages import Dyadic
from jaxmbs.synthesis.linkages.dyads import RPR, RRP, RRR, close_dyad
from jaxmbs.synthesis.linkages.linkage import placed_on, unit
from jaxmbs.synthesis.linkages.topologies import linkage_of_wiring

# Added to squared lengths in units of the curve, so that roots and quotients have derivatives where lengths vanish.
TINY = 1e-18


class Chains(NamedTuple):
    """Topologies and branches of linkages of dyads; a batch has further leading axes.

    Attributes:
        bodies: (…, K, 2) the bodies on which the links of each dyad begin, numbered as in `Dyadic.bodies`.
        kinds: (…, K) indices into `RowLayout.kinds`.
        signs: (…, K) branches, ±1.
        active: (…) number of dyads; further ones in the row are ignored.
        mirrored: (…) −1 if the wanted curve is mirrored at x before it is moved, else 1.
    """

    bodies: Any
    kinds: Any
    signs: Any
    active: Any
    mirrored: Any


class RowLayout(NamedTuple):
    """Layout of the rows, for which programs are compiled.

    Attributes:
        dyads: largest number of dyads.
        kinds: their kinds.
        closed: True if the curve is drawn in a whole turn.
        moves: True if the wanted curve may be moved.
    """

    dyads: int
    kinds: tuple[str, ...]
    closed: bool
    moves: bool = False

    @property
    def size(self) -> int:
        """Length of a row."""
        return 4 + 6 * self.dyads + 2 * (not self.closed) + 4 * self.moves

    @property
    def point(self) -> slice:
        """Columns of the point."""
        return slice(2 + 6 * self.dyads, 4 + 6 * self.dyads)

    @property
    def crank_range(self) -> slice:
        """Columns of the crank angle at which an open curve begins, and of the angle by which the crank turns."""
        return slice(4 + 6 * self.dyads, 6 + 6 * self.dyads)

    def parts(self, u):
        """Return the parts of a row u: the crank's pivot (2,), the numbers of the dyads (K, 6) and the point (2,)."""
        count = 2 + 6 * self.dyads
        return u[:2], jnp.reshape(u[2:count], (self.dyads, 6)), u[count : count + 2]

    def angle(self, u, part):
        """Return the crank angle of a row u after a part, 0 to 1, of the crank's range."""
        start, turned = (0.0, 2 * jnp.pi) if self.closed else u[self.crank_range]
        return start + turned * part


@partial(jax.jit, static_argnums=0)
def frames_of(layout: RowLayout, u, chain: Chains, angle):
    """Return frames (origin, x axis) of ground, crank and links at a crank angle, and the dyads' cosines (K,)."""
    pivot, numbers, _ = layout.parts(u)
    frames = [(pivot, jnp.array([1.0, 0.0])), (pivot, unit(angle))]
    cosines = []
    for k in range(layout.dyads):
        link_base, arm_base = (_select_frame(chain.bodies[k, side], frames) for side in (0, 1))
        of_kinds = [
            close_dyad(kind, link_base, arm_base, _with_lengths(kind, numbers[k]), chain.signs[k])
            for kind in layout.kinds
        ]
        frames += [_select_frame(chain.kinds[k], [closed[side] for closed in of_kinds]) for side in (0, 1)]
        cosine = sum((chain.kinds[k] == n) * closed[2] for n, closed in enumerate(of_kinds))
        cosines.append(cosine * (k < chain.active))
    return frames, jnp.stack(cosines)


@partial(jax.jit, static_argnums=0)
def point_cosines_and_pins(layout: RowLayout, u, chain: Chains, angle):
    """Return the point (2,), the cosine of each dyad (K,), and all pins (3 K + 1, 2) at a crank angle."""
    pivot, numbers, point = layout.parts(u)
    frames, cosines = frames_of(layout, u, chain, angle)
    drawn, pins = jnp.zeros(2), [pivot]
    for k, (link, arm) in enumerate(zip(frames[2::2], frames[3::2], strict=True)):
        drawn = drawn + (k == chain.active - 1) * placed_on(link[0], link[1], point)
        end = link[0] + jnp.exp(numbers[k, 4]) * link[1]
        if RPR in layout.kinds:
            end = jnp.where(chain.kinds[k] == layout.kinds.index(RPR), link[0], end)
        pins += [pivot + (k < chain.active) * (place - pivot) for place in (link[0], arm[0], end)]
    return drawn, cosines, jnp.stack(pins)


def _select_frame(index, frames):
    """Return the frame (origin, x axis) with this index, which may be traced, of a list."""
    if len(frames) == 1:
        return frames[0]
    pairs = [(1.0 * (index == n), frame) for n, frame in enumerate(frames)]
    return sum(w * origin for w, (origin, _) in pairs), sum(w * e for w, (_, e) in pairs)


def _with_lengths(kind: str, numbers):
    """Return the six numbers of a dyad with lengths in place of their logarithms."""
    fourth = numbers[4] if kind == RPR else jnp.exp(numbers[4])
    return jnp.concatenate([numbers[:4], jnp.stack([fourth, jnp.exp(numbers[5])])])


@partial(jax.jit, static_argnums=0)
def drawn_by(layout: RowLayout, u, chains: Chains, parts):
    """Return points (S, T, 2) of S linkages at parts (T,) of their crank's range, and their largest |cosines| (S,)."""

    def one_linkage(u, chain):
        """Return the points (T, 2) that one linkage draws, and its largest |cosine|."""

        def step(worst, part):
            """Return the larger of `worst` and the |cosines| at this part, and the point."""
            drawn, cosines, _ = point_cosines_and_pins(layout, u, chain, layout.angle(u, part))
            return jnp.maximum(worst, jnp.max(jnp.abs(cosines))), drawn

        return jax.lax.scan(step, jnp.zeros(()), parts)[::-1]

    return jax.vmap(ProgramWithFallback(one_linkage))(u, chains)


@partial(jax.jit, static_argnums=0)
def frames_along(layout: RowLayout, u, chains: Chains, parts):
    """Return origins and x axes (S, T, 2 K + 2, 2) of all links at parts (T,) of the crank's range; cosines (S, T, K)."""

    def one_pose(u, chain, part):
        """Return origins and x axes of all links at one part of the crank's range, and the cosines."""
        frames, cosines = frames_of(layout, u, chain, layout.angle(u, part))
        return (jnp.stack([origin for origin, _ in frames]), jnp.stack([e for _, e in frames])), cosines

    program = ProgramWithFallback(one_pose)
    return jax.vmap(jax.vmap(program, (None, None, 0)), (0, 0, None))(u, chains, parts)


def apply_similarity(layout: RowLayout, u: np.ndarray, bodies: np.ndarray, kinds: np.ndarray, factor, shift):
    """Return rows (S, size) of linkages after similarities z ↦ factor z + shift, complex and (S,) each.

    u: (S, size) rows. bodies and kinds: (S, K, 2) and (S, K), as in `Chains`.
    """
    u, log_scale, turned = u.copy(), np.log(np.abs(factor)), np.angle(factor)
    moved = (u[:, :2] @ [1, 1j]) * factor + shift
    u[:, :2] = np.column_stack([moved.real, moved.imag])
    for k in range(layout.dyads):
        dyad = u[:, 2 + 6 * k : 8 + 6 * k]
        slides, block = (
            np.isin(kinds[:, k], [n for n, x in enumerate(layout.kinds) if x == kind]) for kind in (RRP, RPR)
        )
        for side in (0, 1):
            pair = dyad[:, 2 * side : 2 * side + 2]
            z = (pair @ [1, 1j]) * np.where(bodies[:, k, side] == 0, factor, np.abs(factor))
            line = np.column_stack([pair[:, 0] * np.exp(log_scale), pair[:, 1] + turned * (bodies[:, k, side] == 0)])
            pair[:] = np.where((slides & (side == 1))[:, None], line, np.column_stack([z.real, z.imag]))
        dyad[:, 4] = np.where(block, dyad[:, 4] * np.exp(log_scale), dyad[:, 4] + log_scale)
        dyad[:, 5] += log_scale
    u[:, layout.point] *= np.exp(log_scale)[:, None]
    if not layout.closed:
        u[:, layout.crank_range.start] += turned
    return u


def mirror(layout: RowLayout, u: np.ndarray, chain: Chains) -> tuple[np.ndarray, Chains]:
    """Return row and chain of a linkage mirrored at the x axis; its crank turns the other way."""
    u, kinds = u.copy(), [layout.kinds[int(k)] for k in chain.kinds]
    u[1] *= -1
    for k, kind in enumerate(kinds):
        dyad = u[2 + 6 * k : 8 + 6 * k]
        dyad[1] *= -1
        dyad[2:4] *= [-1, -1] if kind == RRP else [1, -1]
        dyad[4] *= -1 if kind == RPR else 1
    u[layout.point] *= [1, -1]
    if not layout.closed:
        u[layout.crank_range] *= -1
    # Sliders and blocks that are ahead stay ahead; pins change sides.
    return u, chain._replace(signs=np.where(np.isin(kinds, [RRR]), -1, 1) * chain.signs)


def linkage_of_row(layout: RowLayout, u: np.ndarray, chain: Chains) -> tuple[Dyadic, dict[str, Any], float, np.ndarray]:
    """Return the linkage of a row, its design, the crank angle at which an open curve begins, and its signs (K,).

    The crank angle counts from the direction of the design's angle; for a closed curve it is that of the row's x axis.
    """
    active = int(chain.active)
    kinds = [layout.kinds[int(k)] for k in chain.kinds[:active]]
    bodies = np.asarray(chain.bodies[:active], int)
    linkage = linkage_of_wiring(tuple((int(i), int(j), kind) for (i, j), kind in zip(bodies, kinds, strict=True)))
    dyads = np.array(u[2 : 2 + 6 * active].reshape(active, 6))
    # In a design the x axes of crank and ground pass through the pins of the first dyad.
    turns = np.zeros(2 * active + 2)
    for side in (0, 1):
        slope = side == 1 and kinds[0] == RRP
        first = dyads[0, 2 * side : 2 * side + 2]
        turns[bodies[0, side]] = first[1] if slope else np.arctan2(first[1], first[0])
    for k, kind in enumerate(kinds):
        for side in (0, 1):
            turn, pair = turns[bodies[k, side]], dyads[k, 2 * side : 2 * side + 2]
            if side == 1 and kind == RRP:
                pair[1] -= turn
            else:
                z = (pair @ [1, 1j]) * np.exp(-1j * turn)
                pair[:] = z.real, z.imag
        dyads[k, 4] = dyads[k, 4] if kind == RPR else np.exp(dyads[k, 4])
        dyads[k, 5] = np.exp(dyads[k, 5])
    numbers = linkage.free_numbers(dyads[None], np.asarray(u[layout.point])[None])[0]
    design = {name: np.asarray(x) for name, x in linkage.design(jnp.asarray(numbers)).items()}
    design |= {"angle": np.asarray(common.wrap_angle(turns[0])), "pivot": np.array(u[:2])}
    start = (0.0 if layout.closed else float(u[layout.crank_range][0])) + turns[1] - turns[0]
    return linkage, design, float(start), np.asarray(chain.signs[:active])
