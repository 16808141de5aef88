"""Mechanisms that several tests share, each built from its design parameters."""

import json
from pathlib import Path

import jax.numpy as jnp

import jaxmbs as mbs
from jaxmbs import planar

# Folder of the published problems.
REFERENCES = Path(__file__).parent.parent / "references"


def reference(name: str) -> dict:
    """Return a published problem with its numbers, by the name of its file."""
    return json.loads((REFERENCES / f"{name}.json").read_text())


def four_bar(b, rate=1.0):
    """Return a crank–rocker with frames at the middle of its bars; b: crank, coupler, rocker, ground."""
    rod = lambda length: planar.Body(mass=length, inertia=length**3 / 12)
    return mbs.Mechanism(
        bodies={"crank": rod(b["crank"]), "coupler": rod(b["coupler"]), "rocker": rod(b["rocker"])},
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), (-b["crank"] / 2, 0)),
            "A": planar.Revolute("crank", "coupler", (b["crank"] / 2, 0), (-b["coupler"] / 2, 0)),
            "B": planar.Revolute("coupler", "rocker", (b["coupler"] / 2, 0), (b["rocker"] / 2, 0)),
            "C": planar.Revolute("ground", "rocker", (b["ground"], 0), (-b["rocker"] / 2, 0)),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(rate))},
    )


def four_bar_guess(b, angle, branch=1):
    """Return a configuration of `four_bar` from the two-circle construction, closed where that is possible."""
    a = b["crank"] * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
    c = jnp.stack([b["ground"], 0 * b["ground"]])
    d = c - a
    length = jnp.sqrt(d @ d)
    along = (b["coupler"] ** 2 - b["rocker"] ** 2 + length**2) / (2 * length)
    across = branch * jnp.sqrt(jnp.maximum(b["coupler"] ** 2 - along**2, 1e-4))
    tip = a + (along * d + across * jnp.stack([-d[1], d[0]])) / length
    pose = lambda start, end: jnp.append((start + end) / 2, jnp.arctan2(*(end - start)[::-1]))
    return {"crank": pose(0 * a, a), "coupler": pose(a, tip), "rocker": pose(c, tip)}


def slider_crank(b, rate=1.0):
    """Return a slider-crank with crank r, rod l and slider on the line y = e; b: crank, rod, offset."""
    return mbs.Mechanism(
        bodies={"crank": planar.Body(), "rod": planar.Body(), "slider": planar.Body()},
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (b["crank"], 0), (0, 0)),
            "B": planar.Revolute("rod", "slider", (b["rod"], 0), (0, 0)),
            "guide": planar.Translational("ground", "slider", (0, b["offset"]), (0, 0), (1, 0)),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(rate))},
    )


def bar_linkage(bars, joints, driven, rate=1.0):
    """Return a linkage given as bodies with named points, with one driven body.

    bars: body → {point name: body coordinates}; joints: point name → list of bodies that share it, or ("ground", (x, y))
    among them; driven: the body whose angle the driver prescribes.
    """
    constraints = {}
    for point, members in joints.items():
        first, *others = members
        for k, other in enumerate(others):
            ends = [(m, bars[m][point]) if isinstance(m, str) else m for m in (first, other)]
            (i, at_i), (j, at_j) = ends
            constraints[f"{point}{k}"] = planar.Revolute(i, j, at_i, at_j)
    return mbs.Mechanism(
        bodies={name: planar.Body() for name in bars},
        constraints=constraints,
        drivers={"motor": planar.RevoluteDriver("ground", driven, mbs.motion.Ramp(rate))},
    )


def apex(base, left, right):
    """Return the third corner of a triangle over (0, 0)–(base, 0), above it, from the lengths of its other sides."""
    x = (base**2 + left**2 - right**2) / (2 * base)
    return (x, jnp.sqrt(left**2 - x**2))
