"""The velocity transformation of two trees: graph, path matrices, and R block by block.

A chain that stands on the ground and a tree whose base floats, with three hinges and a slide each. The secondary path
matrix π* shows which joints move which bodies; only these blocks of R are not zero. Natural coordinates q of the systems,
points and unit vectors, have the rates q̇ = R θ̇, which satisfy their constraints Ψ: Ψ_q R = 0.

Systems: S. M. Issa and K. P. Arczewski, Journal of Theoretical and Applied Mechanics, 1998, figures 1 to 4.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxmbs as mbs
from jaxmbs import spatial
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# All bodies of the examples: rods with the frame at one end, x along them.
ROD = spatial.Body(1.0, (0.001, 0.1, 0.1), com=(0.5, 0, 0))


def grounded_system():
    """Return bodies 1 to 4 in a row, carried by the joints R1, R2, P3 and R5."""
    joints = {
        "R1": spatial.Revolute("ground", "1", (0, 0, 0), (0, 0, 0), axis_i=(0, 0, 1)),
        "R2": spatial.Revolute("1", "2", (1, 0, 0), (0, 0, 0), axis_i=(0.0, 0.96, 0.28)),
        "P3": spatial.Prismatic("2", "3", (1, 0, 0), (0, 0, 0), axis_i=(1, 0, 0)),
        "R5": spatial.Revolute("3", "4", (1, 0, 0), (0, 0, 0), axis_i=(0.0, 0.6, 0.8)),
    }
    return mbs.Mechanism(dict.fromkeys("1234", ROD), joints)


def floating_system():
    """Return a floating body 1 that carries 2, 3 and 4 in a row by R2, R3 and P4, and 5 by R7."""
    joints = {
        "R2": spatial.Revolute("1", "2", (1, 0, 0), (0, 0, 0), axis_i=(0.0, 0.96, 0.28)),
        "R3": spatial.Revolute("2", "3", (1, 0, 0), (0, 0, 0), axis_i=(0.0, 0.6, 0.8)),
        "P4": spatial.Prismatic("3", "4", (1, 0, 0), (0, 0, 0), axis_i=(1, 0, 0)),
        "R7": spatial.Revolute("1", "5", (0.2, 0, 0), (0, 0, 0), axis_i=(0.0, 0.28, 0.96)),
    }
    return mbs.Mechanism(dict.fromkeys("12345", ROD), joints)


# For each system its builder, the coordinates θ of its hinges and slides at t = 0, and their constant rates.
SYSTEMS = {
    "grounded": (grounded_system, (0.5, -0.7, 0.3, 0.9), (1.0, -0.6, 0.4, 1.5)),
    "floating": (floating_system, (0.4, 0.8, 0.3, 2.2), (-0.8, 1.2, 0.5, -1.0)),
}


def motion(mech, joints, rates):
    """Return θ(t) and its constant rates; a floating base moves on a line and turns uniformly about an axis."""
    if not mbs.topology.spanning_tree(mech).floating:
        return lambda t: jnp.array(joints) + t * jnp.array(rates), jnp.array(rates)
    velocity, spin = jnp.array([0.3, -0.2, 0.1]), jnp.array([0.5, 0.7, -0.4])
    start = jnp.array([0.2, 0.1, -0.3])

    def theta(t):
        """Return θ at time t: position and Euler parameters of the base, then hinges and slides."""
        turned = mbs.rotation.product(mbs.rotation.exp(start), mbs.rotation.exp(spin * t))
        return jnp.concatenate([velocity * t, turned, jnp.array(joints) + t * jnp.array(rates)])

    return theta, jnp.concatenate([velocity, spin, jnp.array(rates)])


def columns(mech):
    """Return the indices of the columns of R of each joint; a floating base has those of ṙ and of ω."""
    groups: dict[str, list[int]] = {}
    for k, name in enumerate(mbs.JointCoordinates().of(mech).velocity_names):
        joint, _, kind = name.rpartition(".")
        label = {"w": f"ω {joint}"}.get(kind[0], f"ṙ {joint}") if joint in mech.bodies else joint
        groups.setdefault(label, []).append(k)
    return groups


def blocks(mech, matrix):
    """Return the pattern of R: for each point and unit vector a row of symbols of the paper's Table 1, "" for zero."""
    rows: dict[str, list[int]] = {}
    for k, name in enumerate(mbs.Natural().of(mech).names):
        rows.setdefault(name.rpartition(".")[0], []).append(k)
    groups, pattern = columns(mech), {}
    for name, own in rows.items():
        vector = "." in name and not name.endswith("origin")
        present = {label: np.abs(matrix[np.ix_(own, group)]).max() > 1e-12 for label, group in groups.items()}
        pattern[name] = [symbol(label, vector) if present[label] else "" for label in groups]
    return list(groups), pattern


def symbol(label, vector):
    """Return the symbol of the block of a joint `label` in the row of a unit vector if `vector`, else of a point."""
    kind = label[0]
    if kind == "ṙ":
        return "I"
    if kind == "P":
        return "u"
    return ("−U" if vector else "−D") + ("" if kind == "ω" else "u")


def check(mech, theta, rate, t):
    """Return R, |Ψ_q R| and |q̇ − R θ̇|, with q̇ by differentiation of q(θ(t)), and the shape of Ψ_q."""
    joints, natural = mbs.JointCoordinates().of(mech), mbs.Natural().of(mech)
    x, x_dot = jax.jvp(lambda t: natural.coordinates(joints.configuration(theta(t))), (t,), (1.0,))
    r = mbs.velocity_transformation(mech, theta(t), coordinates="natural")
    psi_q = natural.constraint_jacobian(x)
    return np.asarray(r), float(jnp.abs(psi_q @ r).max()), float(jnp.abs(x_dot - r @ rate).max()), psi_q.shape


def draw_graph(ax, tree):
    """Draw the tree: bodies are nodes, joints edges; node 0 is the ground."""
    depth = {"ground": 0} | dict(zip(tree.bodies, tree.depths, strict=True))
    side = {"ground": 0.0}
    for body, parent in zip(tree.bodies, tree.parents, strict=True):
        carrier = tree.bodies[parent] if parent >= 0 else "ground"
        side[body] = side[carrier] + tree.children(carrier).index(body)
    for body, joint, parent in zip(tree.bodies, tree.joints, tree.parents, strict=True):
        carrier = tree.bodies[parent] if parent >= 0 else "ground"
        ends = [(side[name], -depth[name]) for name in (carrier, body)]
        ax.annotate(
            "",
            ends[1],
            ends[0],
            arrowprops={"arrowstyle": "-|>", "color": style.INK, "shrinkA": 11, "shrinkB": 11, "lw": 1.2}
            | ({} if joint else {"linestyle": "--"}),
        )
        middle = np.mean(ends, axis=0)
        # Beside the next branch of a carrier there is room on the left only.
        branches = len(tree.children(carrier)) > 1 and ends[0][0] == ends[1][0]
        offset, align = (-6, "right") if branches else (6, "left")
        ax.annotate(
            joint or "floats", middle, (offset, 0), textcoords="offset points", fontsize=9, va="center", ha=align
        )
    for k, (name, d) in enumerate(depth.items()):
        colour = style.GROUND_COLOUR if name == "ground" else style.colour_of(k - 1)
        ax.plot(
            side[name], -d, "o", markersize=21, markerfacecolor=style.PAPER, markeredgecolor=colour, markeredgewidth=2
        )
        ax.text(
            side[name], -d, "0" if name == "ground" else name, ha="center", va="center", fontsize=10, color=style.INK
        )
    ax.set(xlim=(-0.6, max(side.values()) + 0.7), ylim=(-max(depth.values()) - 0.5, 0.5))
    ax.set_axis_off()


# Index of the colour of each symbol of R in the palette.
TINTS = {"−Du": 0, "−D": 0, "−Uu": 3, "−U": 3, "u": 2, "I": 4}


def draw_pattern(ax, labels, pattern):
    """Draw the blocks of R with their symbols."""
    for row, cells in enumerate(pattern.values()):
        for column, cell in enumerate(cells):
            colour = style.colour_of(TINTS[cell]) if cell else style.GRID
            ax.add_patch(
                plt.Rectangle((column, row), 1, 1, facecolor=colour, alpha=0.3 if cell else 0.35, edgecolor="white")
            )
            ax.text(column + 0.5, row + 0.5, cell, ha="center", va="center", fontsize=8, color=style.INK)
    ax.set(xlim=(0, len(labels)), ylim=(len(pattern), 0))
    ax.set_xticks(np.arange(len(labels)) + 0.5, labels, fontsize=9)
    ax.set_yticks(np.arange(len(pattern)) + 0.5, pattern, fontsize=8)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def tips(mech):
    """Return the free ends of the rods."""
    tree = mbs.topology.spanning_tree(mech)
    return [(body, (1, 0, 0)) for body in tree.leaves] + [(body, (0, 0, 0)) for body in tree.floating]


def show(found, file):
    """Draw for each system the mechanism, its graph and the pattern of R."""
    figure = plt.figure(figsize=(7, 9), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1, w_pad=0.03)
    heights = [len(pattern) for *_, pattern in found.values()]
    grid = figure.add_gridspec(2, 3, width_ratios=(1.2, 0.6, 1.45), height_ratios=heights)
    for row, (name, (mech, q, labels, pattern)) in enumerate(found.items()):
        ax = figure.add_subplot(grid[row, 0], projection="3d")
        mbs.viz.draw(mech, q, ax=ax, labels=True, view=(22, -65), points=tips(mech), size=1.3)
        ax.set_box_aspect(np.ptp([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()], axis=1), zoom=1.15)
        ax.set_axis_off()
        ax.set_title(f"{name} system", fontsize=10)
        graph, matrix = (figure.add_subplot(grid[row, column]) for column in (1, 2))
        draw_graph(graph, mbs.topology.spanning_tree(mech))
        graph.set_title("graph", fontsize=10)
        draw_pattern(matrix, labels, pattern)
        matrix.set_title("blocks of R, empty where zero", fontsize=10)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def main():
    """Compute R of both systems, check it, and draw its pattern."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="has no effect")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began = time.time()

    found, record = {}, {}
    for name, (build, joints, rates) in SYSTEMS.items():
        mech = build()
        theta, rate = motion(mech, joints, rates)
        r, orthogonal, off, shape = check(mech, theta, rate, 0.0)
        labels, pattern = blocks(mech, r)
        paths, secondary = mbs.topology.path_matrix(mech), mbs.topology.secondary_path_matrix(mech)
        print(f"--- {name}\nθ = {', '.join(mbs.JointCoordinates().of(mech).names)}")
        print(f"π =\n{paths}\nπ* =\n{secondary}\nR, {r.shape[0]} × {r.shape[1]} =")
        print(f"{'':10}" + "".join(f"{label:>6}" for label in labels))
        for row, cells in pattern.items():
            print(f"{row:10}" + "".join(f"{cell or '.':>6}" for cell in cells))
        print(f"Ψ_q is {shape[0]} × {shape[1]}; |Ψ_q R| = {orthogonal:.1e}, |q̇ − R θ̇| = {off:.1e}\n")
        found[name] = mech, mbs.JointCoordinates().of(mech).configuration(theta(0.0)), labels, pattern
        record[name] = {"π": paths.tolist(), "π*": secondary.tolist(), "columns": labels, "R": pattern}
        record[name] |= {"|Ψ_q R|": orthogonal, "|q̇ − R θ̇|": off}

    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / "08_velocity_transformation"
    file.with_suffix(".json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    show(found, file.with_suffix(".png"))
    print(f"{time.time() - began:.0f} s with compilation and pictures")


if __name__ == "__main__":
    main()
