"""Orders of the nodes of a region in which few values are alive at once, so that most of them stay in registers.

Results do not depend on the order. The best order cannot be found in reasonable time; the better of two greedy orders is
taken if it is better than that in which the nodes were made.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence

from jaxmbs.programs.graph.liveness import Liveness
from jaxmbs.programs.graph.nodes import Memory, Node, Region

# Regions with fewer values alive on average keep their order: on a GPU their values fit into the registers, on a CPU into
# the first-level cache.
MIN_VALUES_ALIVE = 100
# Operations of nodes that are known at the beginning of a region.
KNOWN_AT_START = ("const", "param", "index")


def order_with_few_values(live: Liveness) -> dict[Region, list[Node]]:
    """Return the needed nodes of each region in an order in which few values are alive at once."""
    ends = _ends(live)
    from_around = _values_from_around(live, ends)
    found = {}
    for region in live.regions:
        nodes = live.nodes(region)
        given = [node for node in nodes if node.op in KNOWN_AT_START]
        computed = [node for node in nodes if node.op not in KNOWN_AT_START]
        if len(computed) > MIN_VALUES_ALIVE:
            number_of = {node: k for k, node in enumerate(computed)}
            args = [
                list({number_of[x]: None for x in (*node.args, *from_around.get(node, ())) if x in number_of})
                for node in computed
            ]
            computed = [computed[k] for k in _best_order(args, {number_of[x] for x in ends[region] if x in number_of})]
        found[region] = [*given, *computed]
    return found


def _ends(live: Liveness) -> dict[Region, list[Node]]:
    """Return the values that are used at the end of each region: carried values, rows, conditions, results."""
    found: dict[Region, list[Node]] = defaultdict(list)
    for result in live.results:
        if not isinstance(result, Memory):
            found[live.regions[0]] += result.ravel().tolist()
    for region in live.regions:
        for node in live.nodes(region):
            if node.op == "loop":
                loop = node.loop
                found[loop.body] += [loop.results[k] for k in live.params(loop)]
                found[loop.body] += [x for _, row in live.rows(loop) for x in row]
                if loop.condition is not None and loop.condition_region is not None:
                    found[loop.condition_region].append(loop.condition)
    return found


def _values_from_around(live: Liveness, ends: dict[Region, list[Node]]) -> dict[Node, set[Node]]:
    """Return for each loop the values of the region around it that it uses, at its start or inside."""
    found: dict[Node, set[Node]] = {}
    loop_of: dict[Region | None, Node] = {}
    for region in live.regions:
        for node in live.nodes(region):
            if node.op == "loop":
                loop = node.loop
                found[node] = {loop.inits[k] for k in live.params(loop)}
                loop_of[loop.body] = loop_of[loop.condition_region] = node
    for region in live.regions[1:]:
        used = [x for node in live.nodes(region) for x in (*node.args, *found.get(node, ()))]
        for x in [*used, *ends[region]]:
            around = region
            while x.region is not around and x.op not in KNOWN_AT_START:
                loop_node = loop_of[around]
                around = loop_node.region
                if x.region is around:
                    found[loop_node].add(x)
    return found


def _best_order(args: Sequence[Sequence[int]], ends: set[int]) -> Sequence[int]:
    """Return the order of nodes, from those tried, with the fewest values alive on average.

    Args:
        args: the nodes on which each depends, by number; each comes after them.
        ends: nodes that are used at the end.
    """
    orders: list[Sequence[int]] = [range(len(args))]
    if _lifetimes(orders[0], args, ends) < MIN_VALUES_ALIVE * len(args):
        return orders[0]
    # Ties go to the node that was made last, or to the node whose last use is the earliest.
    orders.append(_backwards(args, ends, lambda number, needed: -number))
    orders.append(_backwards(args, ends, lambda number, needed: -needed * len(args) - number))
    return min(orders, key=lambda order: _lifetimes(order, args, ends))


def _lifetimes(order: Sequence[int], args: Sequence[Sequence[int]], ends: set[int]) -> int:
    """Return the sum over all values of the number of steps from their computation to their last use."""
    last = dict.fromkeys(ends, len(order))
    at = {}
    for step in range(len(order) - 1, -1, -1):
        at[order[step]] = step
        for x in args[order[step]]:
            last.setdefault(x, step)
    return sum(step - at[x] for x, step in last.items())


def _backwards(args: Sequence[Sequence[int]], ends: set[int], tie: Callable[[int, int], int]) -> list[int]:
    """Return an order that is built from its end: each time the node that adds the fewest live values is put in front.

    Args:
        args: the nodes on which each depends, by number.
        ends: nodes that are used at the end.
        tie: (number of the node, step from the end since which its value is alive) ↦ rank among equally good nodes.
    """
    users: list[list[int]] = [[] for _ in args]
    for k, of in enumerate(args):
        for x in of:
            users[x].append(k)
    waiting = [len(of) for of in users]
    alive_since = dict.fromkeys(ends, 0)
    # Number of arguments that are not alive yet.
    more = [len(of) - sum(x in ends for x in of) for of in args]
    heap: list[tuple[int, int, int]] = []

    def rank(k: int) -> tuple[int, int, int]:
        """Return the rank of a node that can come next."""
        return more[k] - (k in alive_since), tie(k, alive_since.get(k, 0)), k

    done = [False] * len(args)
    for k, left in enumerate(waiting):
        if not left:
            heapq.heappush(heap, rank(k))
    order: list[int] = []
    while heap:
        found = heapq.heappop(heap)
        k = found[2]
        if done[k] or found != rank(k):
            continue
        done[k] = True
        order.append(k)
        for x in args[k]:
            waiting[x] -= 1
            if x not in alive_since:
                alive_since[x] = len(order)
                for user in users[x]:
                    more[user] -= 1
                    if not waiting[user] and not done[user]:
                        heapq.heappush(heap, rank(user))
            if not waiting[x]:
                heapq.heappush(heap, rank(x))
    return order[::-1]
