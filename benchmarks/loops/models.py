"""Mechanisms with closed loops: models of jaxmbs, and their MJCF files.

All are spatial, have no drivers, and move under gravity from an assembled start with given rates. They are laid out by
points and axes in the ground frame at the start. Each body has its frame at its centre of mass. Lengths are in m, masses
in kg; the dimensions are those of no real machine.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import jaxmbs as mbs
from jaxmbs import spatial

# Acceleration of gravity in m/s², along −z.
GRAVITY = 9.81
# Mass of a rod per length (kg/m).
ROD_DENSITY = 2.0
# Radius of a rod, divided by its length.
ROD_SLENDERNESS = 0.05
# Decimals of points and axes in body frames, so that zeros are exact; the start is closed to about this accuracy.
DECIMALS = 15

# Axes of the ground frame.
X, Y, Z = np.eye(3)


class Placed(NamedTuple):
    """A body at the start: mass, principal moments of inertia, centre of mass and axes (columns) in the ground frame."""

    mass: float
    inertia: tuple[float, ...]
    centre: np.ndarray
    axes: np.ndarray


class Joined(NamedTuple):
    """A joint at the start: its class, bodies, and point and axes in the body frames."""

    kind: Any
    i: str
    j: str
    point_i: tuple[float, ...]
    point_j: tuple[float, ...]
    axes: dict[str, tuple[float, ...]]


class Plan:
    """Bodies and joints of a mechanism, placed in the ground frame at the start.

    Attributes:
        bodies: bodies by name.
        joints: joints by name.
    """

    def __init__(self):
        self.bodies: dict[str, Placed] = {}
        self.joints: dict[str, Joined] = {}

    def add_body(self, name, centre, mass, inertia, axes=None):
        """Add a body with its centre of mass at a point."""
        self.bodies[name] = Placed(mass, tuple(inertia), np.asarray(centre, float), np.eye(3) if axes is None else axes)

    def add_rod(self, name, a, b):
        """Add a rod from point a to point b, with its x axis along it."""
        length, axes = np.linalg.norm(b - a), axes_along(b - a)
        mass, radius = ROD_DENSITY * length, ROD_SLENDERNESS * length
        across = mass * (length**2 / 12 + radius**2 / 4)
        self.add_body(name, (a + b) / 2, mass, (mass * radius**2 / 2, across, across), axes)

    def join(self, name, kind, i, j, point, axis=None, axis_j=None):
        """Add a joint at a point; a universal joint takes its arm on i and its arm on j, others one axis or none."""
        axes = {} if axis is None else {"axis_i": self._turned(i, axis)}
        if axis is not None:
            axes["axis_j"] = self._turned(j, axis if axis_j is None else axis_j)
        self.joints[name] = Joined(kind, i, j, self._local(i, point), self._local(j, point), axes)

    def add_link(self, name, i, j, a, b):
        """Add a rod from a to b with a universal joint on body i at a and a ball on body j at b."""
        self.add_rod(name, a, b)
        across = self.bodies[name].axes
        self.join(f"{name} cross", spatial.Universal, i, name, a, across[:, 1], across[:, 2])
        self.join(f"{name} ball", spatial.Spherical, name, j, b)

    def _turned(self, body, direction):
        """Return a direction of the ground frame in the frame of a body."""
        axes = np.eye(3) if body == "ground" else self.bodies[body].axes
        return plain(axes.T @ direction)

    def _local(self, body, point):
        """Return a point of the ground frame in the frame of a body."""
        return plain(point) if body == "ground" else self._turned(body, point - self.bodies[body].centre)


def plain(vector):
    """Return a vector as a tuple of numbers without rounding errors beside zero."""
    return tuple(0.0 if abs(x) < 10.0**-DECIMALS else float(x) for x in vector)


def axes_along(direction):
    """Return a rotation matrix whose first column is along a direction."""
    first = direction / np.linalg.norm(direction)
    second = np.cross(Z if abs(first[2]) < 0.9 else Y, first)
    second /= np.linalg.norm(second)
    return np.stack([first, second, np.cross(first, second)], axis=1)


def around(angle, radius=1.0, z=0.0):
    """Return the point at an angle on a circle around the z axis."""
    return np.array([radius * np.cos(angle), radius * np.sin(angle), z])


def four_bar():
    """Return the plan of a four-bar that moves in a plane: 1 loop, 1 degree of freedom."""
    plan, o, c = Plan(), np.zeros(3), np.array([0.7, 0.0, 0.0])
    a, b = np.array([0.12, 0.0, 0.16]), np.array([0.55, 0.0, 0.45])
    plan.add_rod("crank", o, a)
    plan.add_rod("rocker", c, b)
    plan.join("O", spatial.Revolute, "ground", "crank", o, Y)
    plan.join("C", spatial.Revolute, "ground", "rocker", c, Y)
    plan.add_rod("coupler", a, b)
    plan.join("A", spatial.Universal, "crank", "coupler", a, Y, plan.bodies["coupler"].axes[:, 2])
    plan.join("B", spatial.Spherical, "coupler", "rocker", b)
    return plan


def slider_crank():
    """Return the plan of a slider-crank, its slider beside the plane of the crank: 1 loop, 1 degree of freedom."""
    plan, o = Plan(), np.zeros(3)
    a, b = np.array([0.06, 0.0, 0.08]), np.array([0.42, 0.09, 0.03])
    plan.add_rod("crank", o, a)
    plan.add_body("slider", b, 0.5, (4e-4, 5e-4, 6e-4))
    plan.join("O", spatial.Revolute, "ground", "crank", o, Y)
    plan.join("guide", spatial.Prismatic, "ground", "slider", b, X)
    plan.add_link("rod", "slider", "crank", b, a)
    return plan


def stewart():
    """Return the plan of a Stewart platform that hangs on six legs: 5 loops, 6 degrees of freedom."""
    plan, height = Plan(), -0.6
    plan.add_body("platform", (0.02, -0.01, height), 4.0, (0.06, 0.07, 0.12))
    for k in range(6):
        corner, side = 2 * np.pi * (k // 2) / 3, 1 if k % 2 else -1
        a, b = around(corner + side * 0.2, 0.42), around(corner + side * 0.8, 0.26, height)
        lower, upper = f"cylinder{k}", f"rod{k}"
        plan.add_rod(lower, a, a + 0.6 * (b - a))
        plan.add_rod(upper, a + 0.5 * (b - a), b)
        axes = plan.bodies[lower].axes
        plan.join(f"cross{k}", spatial.Universal, "ground", lower, a, axes[:, 1], axes[:, 2])
        plan.join(f"slide{k}", spatial.Prismatic, lower, upper, a + 0.6 * (b - a), axes[:, 0])
        plan.join(f"ball{k}", spatial.Spherical, upper, "platform", b)
    return plan


def delta():
    """Return the plan of a Delta robot with two rods to each arm: 5 loops, 3 degrees of freedom."""
    plan, height = Plan(), -0.32
    plan.add_body("platform", (0.0, 0.0, height), 0.4, (3e-4, 3e-4, 5e-4))
    for k in range(3):
        angle = 2 * np.pi * k / 3
        out, along = around(angle), np.cross(Z, around(angle))
        hip, tip = 0.18 * out, 0.42 * out + np.array([0.0, 0.0, -0.05])
        plan.add_rod(f"arm{k}", hip, tip)
        plan.join(f"hip{k}", spatial.Revolute, "ground", f"arm{k}", hip, along)
        for side in (-1, 1):
            a, b = tip + 0.04 * side * along, 0.05 * out + 0.04 * side * along + height * Z
            plan.add_link(f"rod{k}{'ab'[side > 0]}", f"arm{k}", "platform", a, b)
    return plan


def wobble_pump():
    """Return the plan of a wobble pump with six pistons: 7 loops, 1 degree of freedom, 1 redundant equation.

    The plate turns in a universal joint on the ground, and a ball of the shaft leads a point on the plate's axis around
    the shaft's axis. The distance of that point from the centre is fixed by both.
    """
    plan, tilt, origin, circle = Plan(), 0.3, np.zeros(3), 0.06
    axes = np.array([[np.cos(tilt), 0.0, np.sin(tilt)], [0.0, 1.0, 0.0], [-np.sin(tilt), 0.0, np.cos(tilt)]])
    plan.add_body("shaft", (0.0, 0.0, -0.05), 1.0, (1e-3, 1e-3, 2e-3))
    plan.add_body("plate", origin, 0.6, (6e-4, 6e-4, 1e-3), axes)
    plan.join("bearing", spatial.Revolute, "ground", "shaft", -0.05 * Z, Z)
    plan.join("cross", spatial.Universal, "ground", "plate", origin, X, Y)
    plan.join("pin", spatial.Spherical, "shaft", "plate", -0.05 * axes[:, 2])
    for k in range(6):
        a, bore = axes @ around(np.pi * k / 3, circle), around(np.pi * k / 3, circle)
        b = bore + (a[2] + np.sqrt(0.13**2 - (a - bore)[0] ** 2 - (a - bore)[1] ** 2)) * Z
        plan.add_body(f"piston{k}", b, 0.2, (4e-5, 4e-5, 3e-5))
        plan.join(f"bore{k}", spatial.Prismatic, "ground", f"piston{k}", b, Z)
        plan.add_link(f"rod{k}", f"piston{k}", "plate", b, a)
    return plan


def walker():
    """Return the plan of two robot legs on a fixed hip, three loops each: 6 loops, 10 degrees of freedom.

    A crank and a rod move each knee; two cranks on the shank and their rods move each ankle.
    """
    plan = Plan()
    for side, y in (("left", 0.1), ("right", -0.1)):
        at = lambda x, z, beside=0.0, y=y: np.array([x, y + beside, z])
        thigh, shank, foot = (f"{side} {part}" for part in ("thigh", "shank", "foot"))
        hip, knee, ankle = at(0.0, 0.0), at(0.06, -0.36), at(-0.02, -0.7)
        plan.add_rod(thigh, hip, knee)
        plan.add_rod(shank, knee, ankle)
        plan.add_body(foot, at(0.03, -0.74), 0.6, (6e-4, 2e-3, 2e-3))
        plan.join(f"{side} hip", spatial.Universal, "ground", thigh, hip, X, Y)
        plan.join(f"{side} knee", spatial.Revolute, thigh, shank, knee, Y)
        plan.join(f"{side} ankle", spatial.Universal, shank, foot, ankle, Y, X)
        _add_crank(plan, f"{side} knee", thigh, shank, (at(0.03, -0.1), at(-0.05, -0.13), at(-0.01, -0.39)))
        for name, beside in (("outer", 0.035), ("inner", -0.035)):
            points = at(0.04, -0.46, beside), at(-0.04, -0.47, beside), at(-0.09, -0.71, beside)
            _add_crank(plan, f"{side} {name}", shank, foot, points)
    return plan


def _add_crank(plan, name, carrier, driven, points):
    """Add a crank on a carrier from points[0] to points[1], and a rod from there to points[2] of the driven body."""
    pivot, tip, end = points
    plan.add_rod(f"{name} crank", pivot, tip)
    plan.join(f"{name} pivot", spatial.Revolute, carrier, f"{name} crank", pivot, Y)
    plan.add_link(f"{name} rod", f"{name} crank", driven, tip, end)


class Case(NamedTuple):
    """A mechanism of the benchmark.

    Attributes:
        plan: function that returns its plan.
        end: simulated time (s).
        rates: velocities at the start by name; the others follow from the constraints.
        loops: number of loops.
        dof: number of degrees of freedom.
    """

    plan: Callable[[], Plan]
    end: float
    rates: dict[str, float]
    loops: int
    dof: int


# The mechanisms by name. Motions end before a mechanism can pass a singular position.
CASES = {
    "four-bar": Case(four_bar, 0.5, {"crank.wy": 8.0}, 1, 1),
    "slider-crank": Case(slider_crank, 0.5, {"crank.wy": 8.0}, 1, 1),
    "Stewart platform": Case(stewart, 0.3, {"platform.wz": 2.0, "platform.wx": 0.5}, 5, 6),
    "Delta robot": Case(delta, 0.25, {"platform.x": 0.3, "platform.y": 0.2}, 5, 3),
    "wobble pump": Case(wobble_pump, 0.5, {"shaft.wz": 15.0}, 7, 1),
    "walker": Case(walker, 0.3, {"left thigh.wy": 1.0, "right thigh.wy": -1.0}, 6, 10),
}


def lengths(plan: Plan):
    """Return the design: for each joint its points in the frames of both bodies."""
    return {name: (joint.point_i, joint.point_j) for name, joint in plan.joints.items()}


def model(name: str) -> mbs.Model:
    """Return a mechanism with its assembled start."""
    plan = CASES[name].plan()
    parts = mechanism(name, lengths(plan))
    guess = {key: spatial.coordinates(placed.centre, placed.axes) for key, placed in plan.bodies.items()}
    named = {"guess": guess, "velocities": CASES[name].rates, "name": name}
    return mbs.Model(parts.bodies, parts.constraints, (), parts.forces, **named)


def mechanism(name: str, design) -> mbs.Mechanism:
    """Return a mechanism with a design, see `lengths`."""
    plan = CASES[name].plan()
    bodies = {key: spatial.Body(placed.mass, placed.inertia) for key, placed in plan.bodies.items()}
    joints = {
        key: joint.kind(joint.i, joint.j, design[key][0], design[key][1], **joint.axes)
        for key, joint in plan.joints.items()
    }
    return mbs.Mechanism(bodies, joints, forces={"gravity": mbs.Gravity((0.0, 0.0, -GRAVITY))})


def start(name: str):
    """Return the mechanism, its assembled configuration q (n,) and velocity v (m,)."""
    mech = model(name)
    motion = mbs.simulate(mech, np.zeros(1), throw=True)
    return mech, motion.q[0], motion.v[0]


def size(plan: Plan) -> float:
    """Return the diagonal of the box around the centres of the bodies and the joints at the start (m)."""
    points = [placed.centre for placed in plan.bodies.values()]
    points += [np.asarray(joint.point_i) for joint in plan.joints.values() if joint.i == "ground"]
    return float(np.linalg.norm(np.ptp(points, axis=0)))
