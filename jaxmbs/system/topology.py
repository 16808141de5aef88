"""Topology: a mechanism as a graph of names, its spanning tree and its path matrices; after Issa and Arczewski 1998.

Bodies are nodes, joints are edges, and the ground is the root, node 0 of the paper. Joints that are not in the tree are
cut: they close the loops. A part of the mechanism that no joint ties to the ground hangs on it by one edge without a joint,
to its floating base.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int

from jaxmbs.element import GROUND, require, require_name

# Index that stands for the ground among the parents of a `Tree`.
ROOT = -1
# One name, or several.
Names = str | Iterable[str]


@dataclasses.dataclass(frozen=True)
class Tree:
    """A spanning tree with the ground as its root. One edge enters each body; edge k enters body k.

    Attributes:
        bodies: names, depth first: a parent comes before its children, and the descendants of a body follow it at once.
        joints: for each body the name of the joint that leads to it; None for the edge from the ground to a floating
            base.
        parents: for each body the index of its parent in `bodies`, −1 for the ground.
        reversed: for each body True if it is body i of its joint, so that the path runs from the joint's j to its i.
        cut: names of all other constraints, in the mechanism's order: joints that are cut, and elements that are not
            joints.

    Examples:
        >>> tree = mbs.topology.spanning_tree(mech)
        >>> tree.bodies, tree.path("rod"), tree.leaves
        (('crank', 'rod', 'slider'), (0, 1), ('rod', 'slider'))
    """

    bodies: tuple[str, ...]
    joints: tuple[str | None, ...]
    parents: tuple[int, ...]
    reversed: tuple[bool, ...]
    cut: tuple[str, ...]

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Number of edges from the ground to each body, in the order of `bodies`."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Names of the bodies that carry no other body."""
        parents = set(self.parents)
        return tuple(body for k, body in enumerate(self.bodies) if k not in parents)

    @property
    def floating(self) -> tuple[str, ...]:
        """Floating bases: names of the bodies that hang on the ground without a joint."""
        return tuple(body for body, joint in zip(self.bodies, self.joints, strict=True) if joint is None)

    def index(self, body: str) -> int:
        """Return the index of a body and of the edge that enters it.

        Args:
            body: its name.

        Returns:
            The place of the body in `bodies`; −1 for the ground.

        Raises:
            ValueError: there is no such body.
        """
        if body == GROUND:
            return ROOT
        require_name("body", body, self.bodies)
        return self._indices[body]

    @cached_property
    def _indices(self) -> dict[str, int]:
        """The index of each body in `bodies`, by name."""
        return {body: k for k, body in enumerate(self.bodies)}

    def children(self, body: str = GROUND) -> tuple[str, ...]:
        """Return the names of the bodies that a body, or the ground, carries directly."""
        k = self.index(body)
        return tuple(child for child, parent in zip(self.bodies, self.parents, strict=True) if parent == k)

    def depth(self, body: str) -> int:
        """Return the number of edges from the ground to a body."""
        k = self.index(body)
        return 0 if k == ROOT else self.depths[k]

    def path(self, body: str) -> tuple[int, ...]:
        """Return the indices of the edges on the path from the ground to a body, in this order."""
        k, edges = self.index(body), []
        while k != ROOT:
            edges.append(k)
            k = self.parents[k]
        return tuple(edges[::-1])


@dataclasses.dataclass(frozen=True)
class _Edge:
    """A joint traversed from a parent to a child; `order` counts joints as they were declared."""

    parent: str
    child: str
    order: int
    joint: str | None = None
    freedom: int = 0
    reversed: bool = False


def spanning_tree(mech: Any, *, base: Names | None = None, cut: Names = ()) -> Tree:
    """Return the spanning tree with the shortest paths from the ground to all bodies.

    Among the joints that could lead to a body at its depth the tree takes the one whose path has the fewest relative
    velocities, then the one declared first. Drivers, and constraints that are not joints, are never in it. Bodies are
    numbered depth first, children of a body in the order of their declaration.

    Args:
        mech: a mechanism. Only its `bodies`, `constraints` and `drivers` are used, and of a constraint its bodies `i`
            and `j` and its `freedom`: the number of relative velocities of a joint, None for constraints that are not
            joints.
        base: the floating base, or one for each of several parts; the body declared first in its part unless given.
        cut: names of joints that are not to be in the tree.

    Returns:
        Bodies, the joint and the parent of each, and the joints that are cut; see `Tree`.

    Raises:
        ValueError: a name in `cut` is not that of a joint; a name in `base` is not that of a body, or its part is joined
            to the ground, or has another base.

    Examples:
        >>> mbs.topology.spanning_tree(mech).joints, mbs.topology.spanning_tree(mech).cut
        (('O', 'A', 'guide'), ('B',))
        >>> mbs.topology.spanning_tree(mech, cut="guide").joints
        ('O', 'A', 'B')
    """
    bodies, cut, bases = tuple(mech.bodies), set(_names(cut)), tuple(dict.fromkeys(_names(base)))
    _check_cut(mech, cut)
    leaving: dict[str, list[_Edge]] = {name: [] for name in (GROUND, *bodies)}
    for order, (name, element) in enumerate(mech.constraints.items()):
        if element.freedom is not None and name not in cut:
            i, j = element.i, element.j
            leaving[i].append(_Edge(i, j, order, name, element.freedom))
            leaving[j].append(_Edge(j, i, order, name, element.freedom, reversed=True))

    entering = _shortest_paths(leaving, [GROUND])
    joined = set(entering)
    for name in bases:
        require_name("base body", name, bodies)
        if name in joined:
            edge = entering[name]
            while edge.parent != GROUND:
                edge = entering[edge.parent]
            raise ValueError(
                f"base {name!r} cannot float: joints tie it to the ground; "
                f"cut {edge.joint!r} and all other such joints first"
            )
        if name in entering:
            raise ValueError(f"base {name!r} is in the same part as another base")
        entering |= _floating_part(leaving, name)
    for name in bodies:
        if name not in entering:
            entering |= _floating_part(leaving, name)
    return _number_tree(mech, entering)


def _names(names: Names | None) -> tuple[str, ...]:
    """Return one name, several names, or None as a tuple of names."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


def _check_cut(mech: Any, cut: Iterable[str]) -> None:
    """Raise `ValueError` for a name in `cut` that is not that of a joint."""
    joints = [name for name, element in mech.constraints.items() if element.freedom is not None]
    others = [name for name in (*mech.constraints, *mech.drivers) if name not in joints]
    for name in cut:
        require(name not in others, f"{name!r} is not a joint: it is never in the tree and cannot be cut")
        require_name("joint", name, joints)


def _shortest_paths(leaving: dict[str, list[_Edge]], start: list[str]) -> dict[str, _Edge]:
    """Return the edge that enters each body that joints connect with the bodies in `start`, breadth first."""
    entering: dict[str, _Edge] = {}
    freedoms = dict.fromkeys(start, 0)
    level = start
    while level:
        best: dict[str, tuple[int, int, _Edge]] = {}
        for edge in (edge for body in level for edge in leaving[body] if edge.child not in freedoms):
            candidate = freedoms[edge.parent] + edge.freedom, edge.order, edge
            if edge.child not in best or candidate[:2] < best[edge.child][:2]:
                best[edge.child] = candidate
        for body, (freedom, _, edge) in best.items():
            freedoms[body], entering[body] = freedom, edge
        level = list(best)
    return entering


def _floating_part(leaving: dict[str, list[_Edge]], base: str) -> dict[str, _Edge]:
    """Return the edges of a part of the mechanism that no joint ties to the ground, by the body that they enter."""
    return {base: _Edge(GROUND, base, 0)} | _shortest_paths(leaving, [base])


def _number_tree(mech: Any, entering: dict[str, _Edge]) -> Tree:
    """Return the `Tree` with the edge that enters each body, its bodies numbered depth first."""
    children: dict[str, list[str]] = {name: [] for name in (GROUND, *mech.bodies)}
    for body in mech.bodies:
        children[entering[body].parent].append(body)
    bodies: list[str] = []
    waiting = children[GROUND][::-1]
    while waiting:
        bodies.append(waiting.pop())
        waiting += children[bodies[-1]][::-1]
    edges = [entering[body] for body in bodies]
    indices = {GROUND: ROOT} | {body: k for k, body in enumerate(bodies)}
    kept = {edge.joint for edge in edges}
    return Tree(
        bodies=tuple(bodies),
        joints=tuple(edge.joint for edge in edges),
        parents=tuple(indices[edge.parent] for edge in edges),
        reversed=tuple(edge.reversed for edge in edges),
        cut=tuple(name for name in mech.constraints if name not in kept),
    )


def path_matrix(mech: Any, *, base: Names | None = None, cut: Names = ()) -> Int[np.ndarray, "n n"]:
    """Return the preliminary path matrix π; Issa and Arczewski, section 2.

    π_ij = 1 if edge j is directed away from body i, −1 if it is directed towards it, else 0.

    Args:
        mech: a mechanism, or its `Tree`, which has its base and its cut joints already.
        base: see `spanning_tree`.
        cut: names of joints that are not to be in the tree.

    Returns:
        (n, n), rows for bodies and columns for edges, both in the order of the spanning tree.

    Raises:
        ValueError: as for `spanning_tree`; or `base` or `cut` together with a `Tree`.

    Examples:
        >>> print(mbs.topology.path_matrix(mech, cut="guide"))  # crank, rod and slider as a chain
        [[-1  1  0]
         [ 0 -1  1]
         [ 0  0 -1]]
    """
    tree = _tree(mech, base, cut)
    paths = -np.eye(len(tree.bodies), dtype=int)
    for edge, parent in enumerate(tree.parents):
        if parent != ROOT:
            paths[parent, edge] = 1
    return paths


def secondary_path_matrix(mech: Any, *, base: Names | None = None, cut: Names = ()) -> Int[np.ndarray, "n n"]:
    """Return the secondary path matrix π* = −(π⁻²)ᵀ.

    −π*_ij is the number of edges from edge j to body i, both included, if edge j is on the path from the ground to body i,
    else zero.

    Args:
        mech: a mechanism, or its `Tree`, which has its base and its cut joints already.
        base: see `spanning_tree`.
        cut: names of joints that are not to be in the tree.

    Returns:
        (n, n), rows for bodies and columns for edges, both in the order of the spanning tree.

    Raises:
        ValueError: as for `spanning_tree`; or `base` or `cut` together with a `Tree`.

    Examples:
        >>> print(mbs.topology.secondary_path_matrix(mech, cut="guide"))
        [[-1  0  0]
         [-2 -1  0]
         [-3 -2 -1]]
    """
    tree = _tree(mech, base, cut)
    count = np.zeros((len(tree.bodies),) * 2, dtype=int)
    for edge, parent in enumerate(tree.parents):
        if parent != ROOT:
            count[edge] = count[parent] - (count[parent] != 0)
        count[edge, edge] = -1
    return count


def _tree(mech: Any, base: Names | None, cut: Names) -> Tree:
    """Return `mech` if it is a `Tree` already, else the spanning tree of the mechanism."""
    if not isinstance(mech, Tree):
        return spanning_tree(mech, base=base, cut=cut)
    if _names(base) or _names(cut):
        raise ValueError("a Tree has its base and its cut joints already")
    return mech


def blocks(edges: Mapping[str, tuple[str, str]]) -> list[tuple[str, ...]]:
    """Return the blocks of a graph: its largest parts that stay connected without any one node; Hopcroft and Tarjan 1973.

    Each loop lies within one block, and an edge that is in no loop is a block of its own.

    Args:
        edges: the two nodes of each edge, by name.

    Returns:
        The names of the edges of each block.

    Examples:
        >>> mbs.topology.blocks({"O": ("ground", "a"), "A": ("a", "b"), "B": ("b", "ground"), "tail": ("b", "c")})
        [('tail',), ('O', 'A', 'B')]
    """
    at: dict[str, list[str]] = {}
    for name, nodes in edges.items():
        for node in nodes:
            at.setdefault(node, []).append(name)
    depth: dict[str, int] = {}
    low: dict[str, int] = {}
    open_edges: list[str] = []
    found: list[tuple[str, ...]] = []
    for root in at:
        if root in depth:
            continue
        depth[root] = low[root] = 0
        stack = [(root, "", iter(at[root]))]
        while stack:
            node, by, rest = stack[-1]
            name = next(rest, "")
            if not name:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    low[above] = min(low[above], low[node])
                    if low[node] >= depth[above]:
                        begin = open_edges.index(by)
                        found.append(tuple(sorted(open_edges[begin:], key=list(edges).index)))
                        del open_edges[begin:]
                continue
            i, j = edges[name]
            other = j if i == node else i
            if name == by or (other in depth and depth[other] > depth[node]):
                continue
            open_edges.append(name)
            if other in depth:
                low[node] = min(low[node], depth[other])
            else:
                depth[other] = low[other] = depth[node] + 1
                stack.append((other, name, iter(at[other])))
    return found
