"""Spanning trees and path matrices: the paper's systems, loops, parts that float, errors, random graphs."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import jaxmbs as mbs
from issa_arczewski_graphs import GROUND, floating_system, in_space
from jaxmbs import planar
from jaxmbs.system.topology import path_matrix, secondary_path_matrix, spanning_tree
from linkages import four_bar


def graph(bodies, joints, drivers=()):
    """A stand-in for a mechanism. joints: name → (i, j), with one relative velocity, or (i, j, freedom)."""
    joints = {name: (*ends, 1)[:3] for name, ends in joints.items()}
    elements = {name: SimpleNamespace(i=i, j=j, freedom=freedom) for name, (i, j, freedom) in joints.items()}
    return SimpleNamespace(bodies=dict.fromkeys(bodies), constraints=elements, drivers=dict.fromkeys(drivers))


def check_matrices(mech, primary, secondary, **options):
    for argument, given in ((mech, options), (spanning_tree(mech, **options), {})):
        found = mbs.topology.path_matrix(argument, **given), mbs.topology.secondary_path_matrix(argument, **given)
        for matrix, expected in zip(found, (primary, secondary), strict=True):
            assert_array_equal(matrix, expected)
            assert matrix.dtype.kind == "i"


@pytest.mark.parametrize("floating", ["edge", "joint"])
def test_floating_system(floating):
    joints, primary, secondary = floating_system()
    first = {"Free": (GROUND, "1")} if floating == "joint" else {}
    mech = in_space(first | joints)
    check_matrices(mech, primary, secondary)
    tree = spanning_tree(mech)
    assert tree.joints == ("Free" if first else None, "R2", "R3", "P4", "R7")
    assert tree.floating == (() if first else ("1",))
    assert tree.children() == ("1",)
    assert tree.children("1") == ("2", "5")
    assert tree.leaves == ("4", "5")
    assert tree.path("4") == (0, 1, 2, 3)
    assert tree.path("5") == (0, 4)
    assert tree.path(GROUND) == ()
    assert [tree.depth(body) for body in (GROUND, *tree.bodies)] == [0, 1, 2, 3, 4, 2]


def test_base_in_the_middle_turns_joints_around():
    joints, *_ = floating_system()
    tree = spanning_tree(in_space(joints), base="3")
    assert tree.bodies == ("3", "2", "1", "5", "4")
    assert tree.joints == (None, "R3", "R2", "R7", "P4")
    assert tree.parents == (-1, 0, 1, 2, 0)
    assert tree.reversed == (False, True, True, False, False)


def test_joint_declared_from_the_child_to_the_ground():
    tree = spanning_tree(graph("ab", {"A": ("a", GROUND), "B": ("b", "a")}))
    assert tree.reversed == (True, True)
    assert tree.parents == (-1, 0)


def test_numbers_are_depth_first_and_follow_the_declared_order_of_bodies():
    joints = {"C": ("b", "c"), "A": (GROUND, "a"), "D": (GROUND, "d"), "B": ("a", "b"), "E": ("a", "e")}
    tree = spanning_tree(graph("abcde", joints))
    assert tree.bodies == ("a", "b", "c", "e", "d")
    assert tree.joints == ("A", "B", "C", "E", "D")
    # A natural order of declaration is kept.
    assert spanning_tree(graph("abced", joints)).bodies == tuple("abced")


def test_long_chain():
    bodies = [f"b{k}" for k in range(1500)]
    joints = {f"J{k}": ends for k, ends in enumerate(zip([GROUND, *bodies], bodies, strict=False))}
    tree = spanning_tree(graph(bodies, joints))
    assert tree.bodies == tuple(bodies)
    assert tree.depth("b1499") == 1500
    assert secondary_path_matrix(tree)[-1, 0] == -1500


@pytest.fixture(scope="module")
def linkage():
    return four_bar(dict.fromkeys(("crank", "coupler", "rocker", "ground"), 1.0))


def test_four_bar_has_its_shortest_paths(linkage):
    tree = spanning_tree(linkage)
    assert tree.bodies == ("crank", "coupler", "rocker")
    assert tree.joints == ("O", "A", "C")
    assert tree.cut == ("B",)
    assert_array_equal(path_matrix(linkage), [[-1, 1, 0], [0, -1, 0], [0, 0, -1]])


@pytest.mark.parametrize(
    ("cut", "joints", "turned"),
    [
        ("C", ("O", "A", "B"), (False, False, False)),
        (("O",), ("A", "B", "C"), (True, True, False)),
        (["A"], ("O", "B", "C"), (False, True, False)),
    ],
)
def test_four_bar_with_a_joint_cut_by_name(linkage, cut, joints, turned):
    tree = spanning_tree(linkage, cut=cut)
    by_body = dict(zip(tree.bodies, zip(tree.joints, tree.reversed, strict=True), strict=True))
    assert tuple(by_body[body] for body in linkage.bodies) == tuple(zip(joints, turned, strict=True))
    assert tree.cut == tuple(name for name in linkage.constraints if name not in joints)


def test_four_bar_cut_from_the_ground_floats(linkage):
    tree = spanning_tree(linkage, cut=("O", "C"), base="coupler")
    assert tree.bodies == ("coupler", "crank", "rocker")
    assert tree.joints == (None, "A", "B")
    assert tree.cut == ("O", "C")


def test_six_bar():
    """Watt's chain: a four-bar a b c, and a dyad d e between b and c."""
    joints = {
        "O": (GROUND, "a"), "A": ("a", "b"), "B": ("b", "c"), "C": (GROUND, "c"),
        "D": ("b", "d"), "E": ("c", "e"), "F": ("e", "d"),
    }  # fmt: skip
    mech = graph("abcde", joints)
    tree = spanning_tree(mech)
    assert dict(zip(tree.bodies, tree.depths, strict=True)) == {"a": 1, "b": 2, "c": 1, "d": 3, "e": 2}
    # Two paths of three hinges lead to d: that whose last joint is declared first.
    assert tree.joints == ("O", "A", "D", "C", "E")
    assert tree.cut == ("B", "F")
    other = spanning_tree(mech, cut=("D", "A"))
    assert other.cut == ("A", "D")
    assert dict(zip(other.bodies, other.joints, strict=True)) == {"a": "O", "b": "B", "c": "C", "d": "F", "e": "E"}
    assert other.path("d") == tuple(other.index(body) for body in "ced")


def test_of_parallel_joints_the_one_with_less_freedom_then_the_first():
    joints = {"spherical": (GROUND, "a", 3), "hinge": ("a", GROUND, 1), "other hinge": (GROUND, "a", 1)}
    tree = spanning_tree(graph("a", joints))
    assert tree.joints == ("hinge",)
    assert tree.reversed == (True,)
    assert tree.cut == ("spherical", "other hinge")


def test_of_equally_long_paths_the_one_with_the_smallest_total_freedom():
    joints = {"A": (GROUND, "a", 3), "B": (GROUND, "b", 1), "C": ("a", "c", 1), "D": ("b", "c", 2)}
    assert spanning_tree(graph("abc", joints)).joints == ("A", "B", "D")
    # A longer path of less freedom is not taken.
    assert spanning_tree(graph("ab", {"A": (GROUND, "a"), "B": ("a", "b"), "F": (GROUND, "b", 6)})).joints == ("A", "F")


def test_elements_that_are_no_joints_are_no_edges():
    mech = mbs.Mechanism(
        {"a": planar.Body(), "b": planar.Body()},
        {
            "rod": planar.Distance("ground", "b", (0, 0), (1, 0), 1.0),
            "hinge": planar.Revolute("ground", "a", (0, 0), (0, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "b", mbs.motion.Ramp(1.0))},
    )
    tree = spanning_tree(mech)
    assert tree.bodies == ("a", "b")
    assert tree.joints == ("hinge", None)
    assert tree.cut == ("rod",)
    assert spanning_tree(mech, base="b") == tree


def test_unconnected_parts():
    joints = {"B": ("b", "d"), "C": ("a", "c"), "E": (GROUND, "e")}
    mech = graph("abcde", joints)
    tree = spanning_tree(mech)
    assert tree.bodies == ("a", "c", "b", "d", "e")
    assert tree.joints == (None, "C", None, "B", "E")
    assert tree.floating == ("a", "b")
    assert tree.children() == ("a", "b", "e")
    other = spanning_tree(mech, base=("d", "c"))
    assert other.bodies == ("c", "a", "d", "b", "e")
    assert other.floating == ("c", "d")
    assert_array_equal(
        path_matrix(mech, base="d"),
        [[-1, 1, 0, 0, 0], [0, -1, 0, 0, 0], [0, 0, -1, 1, 0], [0, 0, 0, -1, 0], [0, 0, 0, 0, -1]],
    )


@pytest.mark.parametrize("function", [spanning_tree, path_matrix, secondary_path_matrix])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cut": "hing"}, "unknown joint 'hing'; did you mean 'hinge'?"),
        ({"cut": ("hinge", "rodd")}, "unknown joint 'rodd'"),
        ({"cut": ("rod",)}, "'rod' is not a joint"),
        ({"cut": ("motor",)}, "'motor' is not a joint"),
        ({"base": "arms"}, "unknown base body 'arms'; did you mean 'arm'?"),
        ({"base": "ground"}, "unknown base body 'ground'"),
        ({"base": "arm"}, "base 'arm' cannot float: joints tie it to the ground; cut 'hinge'"),
        ({"base": ("drone", "leg")}, "base 'leg' is in the same part as another base"),
    ],
)
def test_bad_arguments(function, options, message):
    joints = {"hinge": (GROUND, "hand"), "wrist": ("hand", "arm"), "hip": ("drone", "leg"), "rod": ("leg", "arm", None)}
    mech = graph(("hand", "arm", "drone", "leg"), joints, drivers=("motor",))
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        function(mech, **options)


def test_a_tree_has_its_base_already():
    tree = spanning_tree(graph("a", {"A": (GROUND, "a")}))
    with pytest.raises(ValueError, match="already"):
        path_matrix(tree, cut="A")
    with pytest.raises(ValueError, match="unknown body 'b'"):
        tree.path("b")


def random_graph(rng):
    bodies = [f"b{k}" for k in range(rng.integers(1, 12))]
    nodes = [GROUND, *bodies]
    joints = {}
    for k in range(rng.integers(0, 2 * len(bodies) + 1)):
        i, j = rng.choice(len(nodes), 2, replace=False)
        joints[f"J{k}"] = nodes[i], nodes[j], [None, 0, 1, 1, 1, 2, 3, 6][rng.integers(8)]
    return graph([bodies[k] for k in rng.permutation(len(bodies))], joints)


def distances(nodes, edges):
    """Numbers of edges between all nodes, by powers of the adjacency matrix; len(nodes) where there is no path."""
    adjacency = np.eye(len(nodes), dtype=int)
    for i, j, *_ in edges:
        adjacency[nodes.index(i), nodes.index(j)] = adjacency[nodes.index(j), nodes.index(i)] = 1
    found, power = np.full(adjacency.shape, len(nodes)), np.eye(len(nodes), dtype=int)
    for length in range(len(nodes)):
        found = np.where((power > 0) & (found == len(nodes)), length, found)
        power = np.minimum(power @ adjacency, 1)
    return found


def best_joints(nodes, edges, depths):
    """For each body the name of the last joint on the best of the shortest paths; edges: (i, j, name, freedom)."""
    freedom, best = {GROUND: 0}, {}
    for k in np.argsort(depths, kind="stable")[1:]:
        ends = [(i, name, more) for a, b, name, more in edges for i, j in ((a, b), (b, a)) if j == nodes[k]]
        shortest = [end for end in ends if depths[nodes.index(end[0])] < depths[k]]
        freedom[nodes[k]], _, best[nodes[k]] = min(
            (freedom[i] + more, order, name) for order, (i, name, more) in enumerate(shortest)
        )
    return best


@pytest.mark.parametrize("seed", range(200))
def test_random_graphs(seed):
    rng = np.random.default_rng(seed)
    mech = random_graph(rng)
    nodes = [GROUND, *mech.bodies]
    joints = {name: element for name, element in mech.constraints.items() if element.freedom is not None}
    cut = {name for name in joints if rng.random() < 0.15}
    edges = [(e.i, e.j, name, e.freedom) for name, e in joints.items() if name not in cut]
    connected = distances(nodes, edges) < len(nodes)
    parts = {frozenset(np.array(nodes)[row].tolist()) for row in connected if not row[0]}
    bases = [str(rng.choice(sorted(part))) for part in sorted(parts, key=min) if rng.random() < 0.5]
    tree = spanning_tree(mech, base=bases, cut=cut)

    # Every body once; joints of the tree are those of the mechanism, in the sense that is told; all others are cut.
    assert sorted(tree.bodies) == sorted(mech.bodies)
    ends = [((GROUND, *tree.bodies)[parent + 1], body) for parent, body in zip(tree.parents, tree.bodies, strict=True)]
    for (parent, child), name, turned in zip(ends, tree.joints, tree.reversed, strict=True):
        if name is None:
            assert (parent, turned) == (GROUND, False)
        else:
            assert (joints[name].i, joints[name].j) == ((child, parent) if turned else (parent, child))
    used = {name for name in tree.joints if name is not None}
    assert not used & cut
    assert tree.cut == tuple(name for name in mech.constraints if name not in used)

    # One floating base for each part, the given one or else the first.
    assert len(tree.floating) == len(parts)
    for part in parts:
        (base,) = part & set(tree.floating)
        given = set(bases) & part
        assert base == (min(given) if given else next(body for body in mech.bodies if body in part))

    # Shortest paths, and of these the one of the smallest freedom.
    edges += [(GROUND, base, None, 0) for base in tree.floating]
    depths = distances(nodes, edges)[0]
    assert [tree.depth(node) for node in nodes] == list(depths)
    assert best_joints(nodes, edges, depths) == dict(zip(tree.bodies, tree.joints, strict=True))

    # Depth first, children in the declared order.
    def preorder(node):
        return [node, *(x for body in mech.bodies if (node, body) in ends for x in preorder(body))]

    assert [GROUND, *tree.bodies] == preorder(GROUND)
    assert tree.leaves == tuple(body for body in tree.bodies if body not in dict(ends))

    # The inverse of π and the square of that give the paths.
    primary, secondary = path_matrix(tree), secondary_path_matrix(tree)
    leaves, enters = ([[body == pair[k] for pair in ends] for body in tree.bodies] for k in (0, 1))
    assert_array_equal(primary, np.array(leaves, int) - np.array(enters, int))
    on_path = np.linalg.inv(-primary.astype(float)).T
    assert_array_equal(on_path, secondary != 0)
    assert_array_equal(secondary, -on_path @ on_path)
    for k, body in enumerate(tree.bodies):
        path = tree.path(body)
        assert path == tuple(np.flatnonzero(secondary[k]))
        assert list(secondary[k, list(path)]) == list(range(-len(path), 0))
        assert len(path) == tree.depth(body)
