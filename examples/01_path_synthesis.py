"""Path synthesis: 1,024 random four-bars descend together until one of them draws a given curve.

A classic task: a point of the coupler has to pass 18 given points while the crank turns by 20° from each to the next
(Kunjur & Krishnamurty 1997). The best published result known to us misses them by 0.009115 in the sum of squares
(Bulatović, Miodragović & Bošković 2016). Run this file to do better, in less than a minute on two cores.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import jaxmbs as mbs
from jaxmbs import planar

jax.config.update("jax_enable_x64", True)

# x of the targets of the coupler point.
X = [0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.0, 0.0, 0.03, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6]
# y of the targets of the coupler point.
Y = [1.1, 1.1, 1.1, 1.0, 0.9, 0.75, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0]
# Targets (18, 2) of the coupler point.
TARGETS = np.column_stack([X, Y])
# Sum of squared distances from the targets of the best published design.
PUBLISHED = 0.009115
# Angle of the crank between two targets (rad).
STEP = np.deg2rad(20)
# Designs computed in one call, so that search and polish share one compiled program.
BLOCK = 128
goal = TARGETS @ [1, 1j]  # the targets as complex numbers


def direction(angle):
    """Return the unit vector at an angle."""
    return jnp.array([jnp.cos(angle), jnp.sin(angle)])


def four_bar(b):
    """Return the mechanism of a design `b`. The rocker needs no body: it keeps the distance of two points."""
    far_pivot = b["pivot"] + b["ground"] * direction(b["angle"])
    return mbs.Mechanism(
        bodies={"crank": planar.Body(), "coupler": planar.Body()},
        constraints={
            "pivot": planar.Revolute("ground", "crank", b["pivot"], (0, 0)),
            "pin": planar.Revolute("crank", "coupler", (b["crank"], 0), (0, 0)),
            "rocker": planar.Distance("ground", "coupler", far_pivot, (b["coupler"], 0), b["rocker"]),
        },
        drivers={"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(b["turn"] * STEP, b["start"]))},
    )


def guess(b):
    """Return the first configuration: the coupler is on the chosen side of the line to the far pivot (law of cosines)."""
    pin = b["pivot"] + b["crank"] * direction(b["start"])
    x, y = b["pivot"] + b["ground"] * direction(b["angle"]) - pin
    line = jnp.hypot(x, y)
    elbow = jnp.arccos((b["coupler"] ** 2 + line**2 - b["rocker"] ** 2) / (2 * b["coupler"] * line))
    return {"crank": (*b["pivot"], b["start"]), "coupler": (*pin, jnp.arctan2(y, x) + b["side"] * elbow)}


def unit_design(x, turn, side):
    """Return a four-bar with a crank of length 1 from four free numbers; it turns fully for every x (Grashof)."""
    p, q, r = jnp.exp(x[:3])
    lengths = {"crank": jnp.ones(()), "ground": 1 + q + r, "coupler": 1 + p + r, "rocker": 1 + p + q}
    return {**lengths, "pivot": jnp.zeros(2), "angle": 0.0, "start": x[3], "turn": turn, "side": side}


def error(x, turn, side):
    """Return the sum of squared distances from the targets for the best place, size and coupler point; and these.

    The point of a four-bar of any size anywhere is at pivot + c₁ exp(i φ_crank) + c₂ exp(i φ_coupler), linear in the
    complex numbers pivot, c₁, c₂: least squares gives them, so only the shape of the loop has to be searched.
    """
    b = unit_design(x, turn, side)
    motion = mbs.kinematics(four_bar(b), jnp.arange(18.0), guess(b))
    crank, coupler = motion.position("crank.phi"), motion.position("coupler.phi")
    a = jnp.stack([jnp.ones(18), jnp.exp(1j * crank), jnp.exp(1j * coupler)], axis=1)
    best = jnp.linalg.solve(a.conj().T @ a + 1e-10 * jnp.eye(3), a.conj().T @ goal)
    gap = a @ best - goal
    turned = jnp.all(motion.status == mbs.Status.CONVERGED)
    return jnp.where(turned, jnp.sum(gap.real**2 + gap.imag**2), jnp.inf), best


error_and_gradient = jax.jit(jax.vmap(jax.value_and_grad(error, has_aux=True)))


def evaluate(designs):
    """Return ((errors, places), gradients) of all designs (x, turn, side), computed in blocks."""
    blocks = [[part[k : k + BLOCK] for part in designs] for k in range(0, len(designs[0]), BLOCK)]
    results = [jax.device_get(error_and_gradient(*block)) for block in blocks]
    return jax.tree.map(lambda *parts: np.concatenate(parts), *results)


def descend(designs, rate, steps, report):
    """Run Adam on all designs at once; return the final designs, and the best error of each so far, (steps, designs)."""
    x, turn, side = designs
    optimizer = optax.adam(optax.cosine_decay_schedule(rate, steps))
    state, history = optimizer.init(x), []
    for _ in range(steps):
        (errors, _), gradients = evaluate((x, turn, side))
        updates, state = optimizer.update(gradients, state)
        x = optax.apply_updates(x, updates)
        history.append(np.minimum(errors, history[-1]) if history else errors)  # the best so far of each design
        report(errors.min())
    return (x, turn, side), np.array(history)


def full_design(x, turn, side, place):
    """Return the design in the plane of the targets."""
    pivot, c1, c2 = place
    point = c2 * np.exp(-1j * np.angle(c1))
    b = unit_design(x, turn, side)
    b |= {name: abs(c1) * b[name] for name in ("ground", "crank", "coupler", "rocker")}
    b |= {"pivot": [pivot.real, pivot.imag], "angle": np.angle(c1), "point": [point.real, point.imag]}
    b["start"] = (b["start"] + b["angle"]) % (2 * np.pi)
    return {name: np.asarray(value, float) for name, value in b.items()}


def closed_form_error(b):
    """Return the error by the intersection of two circles, without jaxmbs."""
    pivot, point = b["pivot"] @ [1, 1j], b["point"] @ [1, 1j]
    pin = pivot + b["crank"] * np.exp(1j * (b["start"] + b["turn"] * STEP * np.arange(18)))
    line = pivot + b["ground"] * np.exp(1j * b["angle"]) - pin
    along = (b["coupler"] ** 2 - b["rocker"] ** 2 + abs(line) ** 2) / (2 * abs(line))
    coupler = (along + 1j * b["side"] * np.sqrt(b["coupler"] ** 2 - along**2)) * line / abs(line)
    return np.sum(abs(pin + point * coupler / b["coupler"] - goal) ** 2)


def show(b, mech, motion, search, polish, folder, console):
    """Print the table, and write the pictures and the design."""
    count, closed_form = search.shape[1], closed_form_error(b)
    assert np.isclose(b["error"], closed_form, rtol=1e-9)
    table = Table("", "found", "published", title="Four-bar through 18 points at given crank angles")
    table.add_row("sum of squared errors", f"[bold]{b['error']:.7f}", f"{PUBLISHED:.6f}")
    table.add_row("… by a closed form", f"{closed_form:.7f}")
    table.add_row("crank turns all round", "yes, every 5° converged")
    table.add_row("designs that ended here", f"{np.sum(polish[-1] < b['error'] + 1e-5)} of {count}")
    for name in ("ground", "crank", "coupler", "rocker", "pivot", "angle", "point", "start", "turn", "side"):
        table.add_row(name, "  ".join(f"{value:.6f}" for value in np.atleast_1d(b[name])))
    console.print(table)

    folder.mkdir(parents=True, exist_ok=True)
    files = {suffix: folder / f"01_path_synthesis.{suffix}" for suffix in ("png", "gif", "html", "json")}
    record = {name: np.asarray(value).tolist() for name, value in b.items()}
    files["json"].write_text(json.dumps(record | {"published": PUBLISHED, "task": __doc__}, indent=2) + "\n")

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained", width_ratios=(1.25, 1))
    trace = [("coupler", b["point"])]
    mbs.viz.trace(motion, *trace[0], ax=left)
    mbs.viz.draw(mech, motion.q[0], ax=left, points=trace, size=1.2)
    left.plot(*TARGETS.T, "x", color="#2b303a", markersize=6, zorder=9)
    left.set_title(f"18 targets, sum of squared errors {b['error']:.6f}", fontsize=10)
    right.semilogy(search[:, :: max(count // 200, 1)], color="#2a6fb0", linewidth=0.4, alpha=0.3)
    right.semilogy(np.arange(len(polish)) + len(search), polish[:, ::2], color="#dd6b3d", linewidth=0.4, alpha=0.4)
    right.axhline(PUBLISHED, color="#2b303a", linewidth=1, linestyle="--")
    right.set_title(f"{count:,} designs, then the best {BLOCK}; dashed: published", fontsize=10)
    right.set(ylim=(0.008, 1), xlabel="steps", ylabel="sum of squared errors")
    figure.savefig(files["png"], dpi=100)
    for suffix in ("gif", "html"):
        mbs.viz.animate(mech, motion, files[suffix], traces=trace, size=1.2, title="A four-bar through 18 points")
    console.print(*(f"wrote {file}" for file in files.values()), sep="\n")


def main():
    """Search the four-bar for the targets, and write its pictures and its design."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="fewer designs and steps")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began, console, random = time.time(), Console(), np.random.default_rng(options.seed)
    count, search_steps, polish_steps = (BLOCK, 20, 20) if options.quick else (1024, 20, 80)

    x = np.column_stack([random.normal(0, 1, (count, 3)), random.uniform(-np.pi, np.pi, count)])
    designs = (x, *random.choice([-1.0, 1.0], (2, count)))  # shape and start; sense of turning; side of the elbow
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("best {task.fields[best]:.6f}")
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:

        def stage(text, designs, rate, steps):
            """Run `descend` with a progress bar that is called `text`."""
            task = progress.add_task(text, total=steps, best=np.inf)
            return descend(designs, rate, steps, lambda best: progress.update(task, advance=1, best=best))

        designs, search = stage(f"{count:,} four-bars descend", designs, 0.3, search_steps)
        best = np.argsort(search[-1])[:BLOCK]
        designs, polish = stage(f"the best {BLOCK} go on", [part[best] for part in designs], 0.15, polish_steps)
    (errors, places), _ = evaluate(designs)
    winner = np.argmin(errors)

    b = full_design(*(part[winner] for part in designs), places[winner])
    mech = four_bar(b)
    motion = mbs.kinematics(mech, jnp.arange(0, 18.01, 0.25), guess(b), throw=True)  # a whole turn, 5° apart
    b["error"] = np.sum((np.asarray(motion.point("coupler", b["point"]))[:72:4] - TARGETS) ** 2)
    show(b, mech, motion, search, polish, options.output, console)
    console.print(f"{time.time() - began:.0f} s with compilation and pictures")


if __name__ == "__main__":
    main()
