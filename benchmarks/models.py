"""Mechanisms of the benchmarks: functions of a design, with a nominal design and a closed-form guess.

All move under gravity without a driver; `four_bar(b, motor=True)` has one. Bars are uniform rods of 1 kg/m with their
frames in the middle, in SI units. Two published spatial mechanisms are at the end.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar, spatial

# Acceleration of gravity in m/s², along −y.
GRAVITY = 9.81


def four_bar(b, motor=False):
    """Return a four-bar; with `motor` its crank turns at 1 rad/s."""
    return mbs.Mechanism(
        bodies={name: rod(b[name]) for name in ("crank", "coupler", "rocker")},
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), (-b["crank"] / 2, 0)),
            "A": planar.Revolute("crank", "coupler", (b["crank"] / 2, 0), (-b["coupler"] / 2, 0)),
            "B": planar.Revolute("coupler", "rocker", (b["coupler"] / 2, 0), (b["rocker"] / 2, 0)),
            "C": planar.Revolute("ground", "rocker", (b["ground"], 0), (-b["rocker"] / 2, 0)),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))} if motor else {},
        forces=weight(),
    )


# Nominal lengths of the four-bar (m).
FOUR_BAR = {"crank": 1.0, "coupler": 3.0, "rocker": 2.5, "ground": 3.5}


def four_bar_guess(b, angle=0.0):
    """Return the closed configuration of a four-bar with the crank at `angle` and the coupler above the ground."""
    a, c = polar(b["crank"], angle), point(b["ground"], 0)
    tip = apex(a, c, b["coupler"], b["rocker"])
    return {"crank": rod_pose(0 * a, a), "coupler": rod_pose(a, tip), "rocker": rod_pose(c, tip)}


def slider_crank(b):
    """Return a slider-crank with a slider of 1 kg on the line y = offset."""
    return mbs.Mechanism(
        bodies={"crank": rod(b["crank"]), "rod": rod(b["rod"]), "slider": planar.Body(1.0, 0.01)},
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), (-b["crank"] / 2, 0)),
            "A": planar.Revolute("crank", "rod", (b["crank"] / 2, 0), (-b["rod"] / 2, 0)),
            "B": planar.Revolute("rod", "slider", (b["rod"] / 2, 0), (0, 0)),
            "guide": planar.Translational("ground", "slider", (0, b["offset"]), (0, 0), (1, 0)),
        },
        forces=weight(),
    )


# Nominal lengths of the slider-crank (m).
SLIDER_CRANK = {"crank": 1.0, "rod": 2.5, "offset": 0.2}


def slider_crank_guess(b, angle=1.0):
    """Return the closed configuration of a slider-crank with the crank at `angle` and the slider to the right."""
    a = polar(b["crank"], angle)
    drop = b["offset"] - a[1]
    pin = point(a[0] + jnp.sqrt(b["rod"] ** 2 - drop**2), b["offset"])
    return {"crank": rod_pose(0 * a, a), "rod": rod_pose(a, pin), "slider": jnp.append(pin, 0.0)}


def six_bar(b):
    """Return a Stephenson III: a four-bar, and a link from the point P above its coupler to an output bar."""
    first = four_bar(b)
    return mbs.Mechanism(
        bodies={**first.bodies, "link": rod(b["link"]), "output": rod(b["output"])},
        constraints={
            **first.constraints,
            "P": planar.Revolute("coupler", "link", (0, b["height"]), (-b["link"] / 2, 0)),
            "Q": planar.Revolute("link", "output", (b["link"] / 2, 0), (b["output"] / 2, 0)),
            "R": planar.Revolute("ground", "output", (b["base"], 0), (-b["output"] / 2, 0)),
        },
        forces=weight(),
    )


# Nominal lengths of the six-bar (m).
SIX_BAR = {**FOUR_BAR, "height": 0.8, "link": 3.0, "output": 2.0, "base": 5.0}


def six_bar_guess(b, angle=1.0):
    """Return the closed configuration of a six-bar with the crank at `angle`."""
    first = four_bar_guess(b, angle)
    x, y, phi = first["coupler"]
    p = point(x, y) + polar(b["height"], phi + jnp.pi / 2)
    r = point(b["base"], 0)
    q = apex(p, r, b["link"], b["output"])
    return {**first, "link": rod_pose(p, q), "output": rod_pose(r, q)}


def chain(n):
    """Return the builder of an open chain of n rods that hangs from the ground; the design is their lengths."""

    def build(b):
        """Return the chain of a design."""
        lengths = b["lengths"]
        joints = {"J0": planar.Revolute("ground", "L0", (0, 0), (-lengths[0] / 2, 0))}
        for k in range(1, n):
            ends = (lengths[k - 1] / 2, 0), (-lengths[k] / 2, 0)
            joints[f"J{k}"] = planar.Revolute(f"L{k - 1}", f"L{k}", *ends)
        return mbs.Mechanism({f"L{k}": rod(lengths[k]) for k in range(n)}, joints, forces=weight())

    return build


def chain_design(n):
    """Return equal lengths of 1 m in all."""
    return {"lengths": jnp.full(n, 1 / n)}


def chain_guess(b, angle=0.0):
    """Return the straight configuration of a chain at `angle` from the horizontal."""
    ends = jnp.concatenate([jnp.zeros(1), jnp.cumsum(b["lengths"])])
    middles = (ends[1:] + ends[:-1]) / 2
    return {f"L{k}": jnp.append(polar(middle, angle), angle) for k, middle in enumerate(middles)}


# Andrews' squeezer mechanism: mass (kg), moment of inertia (kg m²), and points (m) of each body in a frame at its centre
# of mass. Numbers: W. Schiehlen (ed.), Multibody Systems Handbook, Springer, 1990; E. Hairer, G. Wanner, Solving Ordinary
# Differential Equations II, Springer, 1996, section VII.7; Test Set for IVP Solvers, "Andrews' squeezing mechanism".
ANDREWS_BODIES = {
    "K1": (0.04325, 2.194e-6, {"O": (-0.00092, 0.0), "F": (0.00608, 0.0)}),
    "K2": (0.00365, 4.410e-7, {"F": (0.0115, 0.0), "E": (-0.0165, 0.0)}),
    "K3": (0.02373, 5.255e-6, {"B": (-0.01043, 0.01874), "E": (-0.01043, -0.01626), "D": (0.00957, 0.00074)}),
    "K4": (0.00706, 5.667e-7, {"G": (0.0, 0.00579), "E": (0.0, -0.01421)}),
    "K5": (0.07050, 1.169e-5, {"A": (-0.02308, -0.00916), "G": (0.01692, -0.00916)}),
    "K6": (0.00706, 5.667e-7, {"H": (-0.00579, 0.0), "E": (0.01421, 0.0)}),
    "K7": (0.05498, 1.912e-5, {"A": (0.00449, 0.01228), "H": (0.00449, -0.02772)}),
}
# Points of the ground of Andrews' mechanism (m).
ANDREWS_GROUND = {"O": (0.0, 0.0), "A": (-0.06934, -0.00227), "B": (-0.03635, 0.03273)}
# Revolute joints of Andrews' mechanism: point and two bodies.
ANDREWS_JOINTS = ("O ground K1", "F K1 K2", "B ground K3", "E K2 K3", "A ground K5", "G K5 K4", "E K2 K4")
ANDREWS_JOINTS += ("A ground K7", "H K7 K6", "E K2 K6")
# Angles of the bodies of Andrews' mechanism at the start: β, β + Θ, γ, Φ + δ, δ, Ω + ε, ε of the source (rad).
ANDREWS_ANGLES = {
    "K1": -0.0617138900142764496358948458001,
    "K2": -0.0617138900142764496358948458001,
    "K3": 0.455279819163070380255912382449,
    "K4": 0.222668390165885884674473185609 + 0.487364979543842550225598953530,
    "K5": 0.487364979543842550225598953530,
    "K6": -0.222668390165885884674473185609 + 1.23054744454982119249735015568,
    "K7": 1.23054744454982119249735015568,
}


def andrews(b):
    """Return Andrews' squeezer mechanism, seven bodies and ten joints, with gravity instead of its spring and torque.

    The design is a scale of the lengths.
    """
    scaled = lambda at: b["scale"] * jnp.asarray(at)
    place = lambda body, name: scaled(ANDREWS_GROUND[name] if body == "ground" else ANDREWS_BODIES[body][2][name])
    joints = {}
    for joint in ANDREWS_JOINTS:
        name, i, j = joint.split()
        joints[f"{name} {j}"] = planar.Revolute(i, j, place(i, name), place(j, name))
    bodies = {name: planar.Body(mass, inertia) for name, (mass, inertia, _) in ANDREWS_BODIES.items()}
    return mbs.Mechanism(bodies, joints, forces=weight())


# Nominal design of Andrews' mechanism: a factor on all lengths.
ANDREWS = {"scale": 1.0}


def andrews_guess(b):
    """Return the published initial configuration of Andrews' mechanism, assembled body by body."""
    origins = {}
    for joint in ("O ground K1", "F K1 K2", "B ground K3", "A ground K5", "G K5 K4", "A ground K7", "H K7 K6"):
        name, i, j = joint.split()
        pin = jnp.asarray(ANDREWS_GROUND[name]) if i == "ground" else origins[i] + _andrews_arm(i, name)
        origins[j] = pin - _andrews_arm(j, name)
    return {name: jnp.append(b["scale"] * origins[name], ANDREWS_ANGLES[name]) for name in ANDREWS_BODIES}


def _andrews_arm(body, name):
    """Return the vector (ground frame) from the mass centre of a body of Andrews' mechanism to its point `name`."""
    x, y = ANDREWS_BODIES[body][2][name]
    return polar(x, ANDREWS_ANGLES[body]) + polar(y, ANDREWS_ANGLES[body] + jnp.pi / 2)


def squeezer():
    """Return Andrews' mechanism as in its source: no gravity, a torque of 0.033 N m on K1, a spring from C to D of K3."""
    mech = andrews(ANDREWS)
    spring = mbs.Spring("ground", "K3", (0.014, 0.072), ANDREWS_BODIES["K3"][2]["D"], 4530.0, 0.07785)
    return mbs.Mechanism(mech.bodies, mech.constraints, forces={"motor": mbs.Torque("K1", 0.033), "spring": spring})


def windows(n):
    """Return a row of n four-bar windows of equal rods, IFToMM benchmark A02: cranks C0 … Cn, couplers L1 … Ln."""
    link, lower, upper = rod(1.0), (-0.5, 0), (0.5, 0)
    joints = {f"O{k}": planar.Revolute("ground", f"C{k}", (k, 0), lower) for k in range(n + 1)}
    for k in range(1, n + 1):
        joints[f"A{k}"] = planar.Revolute(f"C{k - 1}", f"L{k}", upper, lower)
        joints[f"B{k}"] = planar.Revolute(f"L{k}", f"C{k}", upper, upper)
    names = [f"C{k}" for k in range(n + 1)] + [f"L{k}" for k in range(1, n + 1)]
    return mbs.Mechanism(dict.fromkeys(names, link), joints, forces=weight())


def windows_start(n):
    """Return poses and velocities of upright windows whose tips move with 1 m/s."""
    poses = {f"C{k}": (k, 0.5, jnp.pi / 2) for k in range(n + 1)} | {f"L{k}": (k - 0.5, 1, 0) for k in range(1, n + 1)}
    rates = {f"C{k}": (0.5, 0, -1.0) for k in range(n + 1)} | {f"L{k}": (1.0, 0, 0) for k in range(1, n + 1)}
    return poses, rates


# Mass of the crank of the spatial slider-crank (kg): E. J. Haug, Computer-Aided Kinematics and Dynamics of Mechanical
# Systems, 1989, section 12.2; IFToMM benchmark.
CRANK_MASS = 0.12
# Principal moments of inertia of the crank of the spatial slider-crank about its centre of mass, its pivot (kg m²).
CRANK_INERTIA = (1e-4, 1e-4, 1e-5)
# Mass of the rod of the spatial slider-crank (kg).
ROD_MASS = 0.5
# Principal moments of inertia of the rod about its centre of mass (kg m²).
ROD_INERTIA = (4e-4, 4e-3, 4e-3)
# Mass of the slider of the spatial slider-crank (kg).
SLIDER_MASS = 2.0
# Principal moments of inertia of the slider about its centre of mass (kg m²).
SLIDER_INERTIA = (1e-4, 1e-4, 1e-4)
# Pivot of the crank of the spatial slider-crank in the ground (m).
CRANK_PIVOT = np.array((0, 0.1, 0.12))
# Pin of the crank of the spatial slider-crank at the start (m).
CRANK_PIN = np.array((0, 0.1, 0.2))
# Place of the slider of the spatial slider-crank at the start (m).
SLIDER_START = np.array((0.2, 0, 0))
# Speed of the crank of the spatial slider-crank about x at the start (rad/s).
CRANK_SPEED = 6.0
# Angular velocity of the rod of the spatial slider-crank at the start, in the ground frame (rad/s).
ROD_SPIN = np.array([1.92, -0.96, 0.48])
# Velocity of the slider along x at the start (m/s).
SLIDER_SPEED = 0.24


def spatial_slider_crank():
    """Return the spatial slider-crank, whose slider is on the x axis."""
    x, y, _ = np.eye(3)
    half = np.linalg.norm(SLIDER_START - CRANK_PIN) / 2
    return mbs.Mechanism(
        {
            "crank": spatial.Body(CRANK_MASS, CRANK_INERTIA),
            "rod": spatial.Body(ROD_MASS, ROD_INERTIA),
            "slider": spatial.Body(SLIDER_MASS, SLIDER_INERTIA),
        },
        {
            "A": spatial.Revolute("ground", "crank", CRANK_PIVOT, (0, 0, 0), x),
            "B": spatial.Spherical("crank", "rod", CRANK_PIN - CRANK_PIVOT, (-half, 0, 0)),
            "C": spatial.Universal("rod", "slider", (half, 0, 0), (0, 0, 0), y, x),
            "guide": spatial.Prismatic("ground", "slider", axis_i=x),
        },
        forces={"gravity": mbs.Gravity((0.0, 0.0, -GRAVITY))},
    )


def rod_axes():
    """Return the axes of the rod at the start as columns: x from the crank to the slider, y the arm of the cross."""
    along = SLIDER_START - CRANK_PIN
    return axes_along(along, np.cross(along, (1, 0, 0)))


def spatial_slider_crank_start():
    """Return poses and velocities of the spatial slider-crank at the start."""
    poses = {
        "crank": spatial.coordinates(CRANK_PIVOT),
        "rod": spatial.coordinates((CRANK_PIN + SLIDER_START) / 2, rod_axes()),
        "slider": spatial.coordinates(SLIDER_START),
    }
    spin, slide = CRANK_SPEED * np.array([1, 0, 0]), SLIDER_SPEED * np.array([1, 0, 0])
    pin = np.cross(spin, CRANK_PIN - CRANK_PIVOT)
    rates = {
        "crank": np.append(0 * pin, spin),
        "rod": np.append((pin + slide) / 2, rod_axes().T @ ROD_SPIN),
        "slider": np.append(slide, 0 * spin),
    }
    return poses, rates


# Bricard's mechanism, IFToMM benchmark A04: six points at the start (m), with five equal rods between them.
BRICARD_POINTS = np.array([(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)], float)
# Axes of the six joints of Bricard's mechanism at the start, in the ground frame.
BRICARD_AXES = np.array([(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0)], float)
# Mass of a rod of Bricard's mechanism (kg).
BRICARD_MASS = 1.0
# Principal moments of inertia of a rod of Bricard's mechanism, first along the rod (kg m²).
BRICARD_INERTIA = (0.01 / 6, 1.01 / 12, 1.01 / 12)
# Names of the rods of Bricard's mechanism.
BRICARD_RODS = tuple(f"rod{k}" for k in range(1, 6))


def bricard():
    """Return Bricard's mechanism: 30 equations of rank 29, one degree of freedom; gravity along −y."""
    placed = {"ground": (np.zeros(3), np.eye(3)), **bricard_placed()}
    joints, chain = {}, ("ground", *BRICARD_RODS, "ground")
    for k, (point, axis, (i, j)) in enumerate(zip(BRICARD_POINTS, BRICARD_AXES, pairwise(chain), strict=True)):
        ends = [turn.T @ (point - r) for r, turn in (placed[i], placed[j])]
        joints[f"P{k + 1}"] = spatial.Revolute(i, j, *ends, *(placed[body][1].T @ axis for body in (i, j)))
    bodies = dict.fromkeys(BRICARD_RODS, spatial.Body(BRICARD_MASS, BRICARD_INERTIA))
    return mbs.Mechanism(bodies, joints, forces={"gravity": mbs.Gravity((0.0, -GRAVITY, 0.0))})


def bricard_placed():
    """Return middle and axes of each rod at the start: x along the rod, y along the joint axis at its first end."""
    ends = zip(BRICARD_RODS, pairwise(BRICARD_POINTS), BRICARD_AXES[:-1], strict=True)
    return {name: ((start + end) / 2, axes_along(end - start, axis)) for name, (start, end), axis in ends}


def bricard_start():
    """Return poses and velocities of Bricard's mechanism at the start, at rest."""
    poses = {name: spatial.coordinates(*placed) for name, placed in bricard_placed().items()}
    return poses, dict.fromkeys(BRICARD_RODS, np.zeros(6))


class Model(NamedTuple):
    """A mechanism of the benchmarks: `build(design)`, and `guess(design)` for its assembly."""

    build: Callable
    design: Mapping
    guess: Callable

    def start(self, design=None):
        """Return an assembled configuration of the nominal design, or of another one."""
        design = self.design if design is None else design
        return mbs.assemble(self.build(design), self.guess(design)).q


def models() -> dict[str, Model]:
    """Return all models by name. A function, so that the import computes nothing."""
    fixed = {
        "four-bar": Model(four_bar, FOUR_BAR, lambda b: four_bar_guess(b, 1.0)),
        "slider-crank": Model(slider_crank, SLIDER_CRANK, slider_crank_guess),
        "six-bar": Model(six_bar, SIX_BAR, six_bar_guess),
        "Andrews": Model(andrews, ANDREWS, andrews_guess),
    }
    return fixed | {f"chain of {n}": Model(chain(n), chain_design(n), chain_guess) for n in (4, 8, 16)}


def four_bar_batch(size, spread=0.05):
    """Return designs of four-bars as a dict of arrays (size,).

    The moving bars of each design are scaled by one factor, evenly spaced from 1 − spread to 1 + spread; the ground is not.
    """
    factor = jnp.linspace(1 - spread, 1 + spread, size)
    return {name: length * (factor if name != "ground" else jnp.ones(size)) for name, length in FOUR_BAR.items()}


def rod(length):
    """Return a uniform rod of 1 kg/m with its frame in the middle."""
    return planar.Body(mass=length, inertia=length**3 / 12)


def weight():
    """Return the forces of a model: gravity along −y."""
    return {"gravity": mbs.Gravity((0.0, -GRAVITY))}


def point(x, y):
    """Return the vector (x, y)."""
    return jnp.stack([jnp.asarray(x, float), jnp.asarray(y, float)])


def polar(radius, angle):
    """Return the vector with this length and direction."""
    return radius * point(jnp.cos(angle), jnp.sin(angle))


def axes_along(x, y):
    """Return the rotation matrix whose first columns have these directions, which are perpendicular."""
    x, y = (np.asarray(v) / np.linalg.norm(v) for v in (x, y))
    return np.stack([x, y, np.cross(x, y)], axis=1)


def rod_pose(start, end):
    """Return the pose of a rod from `start` to `end`."""
    return jnp.append((start + end) / 2, jnp.arctan2(*(end - start)[::-1]))


def apex(a, c, from_a, from_c):
    """Return the point at these distances from a and c, to the left of the line from a to c."""
    d = c - a
    length = jnp.sqrt(d @ d)
    along = (from_a**2 - from_c**2 + length**2) / (2 * length)
    across = jnp.sqrt(from_a**2 - along**2)
    return a + (along * d + across * point(-d[1], d[0])) / length
