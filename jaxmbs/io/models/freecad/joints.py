"""Joints of FreeCAD's solver as constraints. They are closed in the sense in which they are drawn."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from jaxmbs import motion, spatial
from jaxmbs.element import AbstractConstraint
from jaxmbs.io.models.freecad.assembly import Joint, Motion
from jaxmbs.io.models.links.tree import LinkFrame, Matrix, Vector
from jaxmbs.io.models.model import ModelError
from jaxmbs.spatial.pairs import FIXED, FREE

# Half turns about no axis and about the x, y and z axes of a marker.
HALF_TURNS = tuple(np.diag(signs).astype(float) for signs in ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)))
# Directions at an angle of which the sine is smaller count as parallel.
MIN_SINE = 1e-9


class DrawnJoint:
    """A joint with its markers as they are drawn.

    The solver's equations are zero for several senses of the axes: those of a hinge if the z axes of its markers are
    parallel or opposite. Constraints of jaxmbs have one sense only. `aligned` therefore turns the marker on j by the half
    turn with which the constraint is satisfied as drawn.

    Attributes:
        joint: the joint or motion.
        relative: rotation of the marker on j relative to that on i, (3, 3), as drawn.
        d: vector from the marker on i to that on j, in the marker on i, (3,), as drawn.
    """

    joint: Any
    relative: Matrix
    d: Vector

    def __init__(self, joint: Joint | Motion, i: LinkFrame, j: LinkFrame):
        """Take the joint or motion, and its markers in the frame of the assembly."""
        self.joint, self.relative, self.d = joint, i.a.T @ j.a, i.local(j.r)

    @property
    def bodies(self) -> tuple[str, str]:
        """Names of the bodies."""
        return self.joint.i.body, self.joint.j.body

    def aligned(self, orientation: int) -> Matrix:
        """Return the axes of the marker on j after the half turn that brings them nearest to those of the marker on i.

        With `orientation` 1 only their z axes shall be parallel, and the half turn is about x or none; with 3 all axes.
        """
        choices = HALF_TURNS[:2] if orientation == 1 else HALF_TURNS

        def gain(turn: Matrix) -> float:
            """Return the cosine of the angle between the z axes after a half turn, or the sum of those of all axes."""
            turned = self.relative @ turn
            return float(turned[2, 2] if orientation == 1 else np.trace(turned))

        return self.joint.j.a @ max(choices, key=gain)

    def frames(self, orientation: int = 1, offset: float = 0.0) -> dict[str, Any]:
        """Return points and frames of a constraint; that on i is moved by the offset along its z axis."""
        i, j = self.joint.i, self.joint.j
        return {
            "point_i": i.r + offset * i.a[:, 2],
            "point_j": j.r,
            "frame_i": i.a,
            "frame_j": self.aligned(orientation) if orientation else j.a,
        }


def _pair(kind: type, orientation: int, with_offset: bool = False) -> Callable[[DrawnJoint], dict[str, Any]]:
    """Return the function that makes a lower pair, with one or all axes parallel."""

    def make(drawn: DrawnJoint) -> dict[str, Any]:
        """Return the lower pair."""
        return {"": kind(*drawn.bodies, **drawn.frames(orientation, drawn.joint.size if with_offset else 0.0))}

    return make


def _components(position: tuple[str, ...], orientation: tuple[str, ...], axes: int) -> Callable:
    """Return the function that makes a `TotalJoint` of components; `axes` axes of the markers are parallel.

    The point of i is moved by the joint's size along z.
    """

    def make(drawn: DrawnJoint) -> dict[str, Any]:
        """Return the `TotalJoint`."""
        frames, total = drawn.frames(axes, drawn.joint.size), cast(Any, spatial.TotalJoint)
        return {"": total(*drawn.bodies, position=position, orientation=orientation, **frames)}

    return make


_parallel_axes = _components((FREE,) * 3, (FIXED, FIXED, FREE), 1)
_point_in_line = _components((FIXED, FIXED, FREE), (FREE,) * 3, 0)
_point_in_plane = _components((FREE, FREE, FIXED), (FREE,) * 3, 0)


def _universal(drawn: DrawnJoint) -> dict[str, Any]:
    """Return a universal joint, whose arms are the z axes."""
    i, j = drawn.joint.i, drawn.joint.j
    return {"": spatial.Universal(*drawn.bodies, i.r, j.r, i.a[:, 2], j.a[:, 2])}


def _constant_velocity(drawn: DrawnJoint) -> dict[str, Any]:
    """Return a homokinetic joint. The solver's equation x_iᵀy_j + y_iᵀx_j = 0 is 4 e_x e_y = 0 in Euler parameters.

    A half turn of j about x makes e_y to the e_z of `ConstantVelocity`, one about y e_x.
    """
    # 4 e_x² and 4 e_y² are 1 + R_xx − R_yy − R_zz and 1 − R_xx + R_yy − R_zz.
    turn = HALF_TURNS[1] if drawn.relative[0, 0] >= drawn.relative[1, 1] else HALF_TURNS[2]
    frames = drawn.frames(0) | {"frame_j": drawn.joint.j.a @ turn}
    return {"": spatial.ConstantVelocity(*drawn.bodies, **frames)}


def _angle(drawn: DrawnJoint, angle: float, in_plane: bool = False) -> dict[str, Any]:
    """Return the constraint that the z axes of the markers keep an angle in radians.

    With `in_plane`, the point of j also stays in the plane of i, moved by the joint's offset along z.
    """
    if abs(np.sin(angle)) < MIN_SINE and not in_plane:
        return _parallel_axes(drawn)
    # With x along the z axis of the marker on i, x_iᵀz_j is the sine of the second orientation angle.
    frames = drawn.frames(0, drawn.joint.size if in_plane else 0.0)
    frames["frame_i"] = frames["frame_i"][:, [2, 0, 1]]
    held = FIXED if abs(np.cos(angle)) < MIN_SINE else motion.Constant(jnp.asarray(np.pi / 2 - angle))
    position = (FIXED if in_plane else FREE, FREE, FREE)
    return {"": spatial.RelativeJoint(*drawn.bodies, position=position, orientation=(FREE, held, FREE), **frames)}


def _distance(drawn: DrawnJoint) -> dict[str, Any]:
    """Return a distance of two points."""
    ends = (*drawn.bodies, drawn.joint.i.r, drawn.joint.j.r)
    return {
        "": spatial.Distance(*ends, jnp.asarray(drawn.joint.size)) if drawn.joint.size else spatial.Spherical(*ends)
    }


def _axis_distance(on_axis: Callable, rest: Callable | None) -> Callable[[DrawnJoint], dict[str, Any]]:
    """Return the function that makes a distance of a point from an axis, with further constraints.

    `on_axis` makes the joint if the distance is zero, `rest` makes the further constraints.
    """

    def make(drawn: DrawnJoint) -> dict[str, Any]:
        """Return the constraints."""
        at_zero = copy.copy(drawn)
        at_zero.joint = drawn.joint._replace(size=0.0)
        if drawn.joint.size == 0:
            return on_axis(at_zero)
        found = {"": spatial.AxisDistance(*drawn.bodies, distance=drawn.joint.size, **drawn.frames(0))}
        return found | ({" axes": rest(at_zero)[""]} if rest is not None else {})

    return make


def _rack_pinion(drawn: DrawnJoint) -> dict[str, Any]:
    """Return a pinion, with its marker on j, on a rack along the x axis of the marker on i, as drawn."""
    radius = drawn.joint.size
    angle = _turn(drawn) + drawn.d[0] / (radius or np.nan)
    return {"": spatial.RackPinion(*drawn.bodies, radius_j=radius, angle_i=angle, **drawn.frames())}


def _screw(drawn: DrawnJoint) -> dict[str, Any]:
    """Return a thread, as drawn."""
    pitch = drawn.joint.size
    angle = _turn(drawn) - 2 * np.pi * drawn.d[2] / (pitch or np.nan)
    return {"": spatial.Thread(*drawn.bodies, pitch=pitch, angle_i=angle, **drawn.frames())}


def _gear(drawn: DrawnJoint) -> dict[str, Any]:
    """Return a pair of gears, as drawn."""
    joint, angles = drawn.joint, gear_angles(drawn)
    marks = dict(zip(("angle_i", "angle_j"), angles, strict=True))
    radii = {"radius_i": joint.size, "radius_j": joint.other_size}
    return {"": spatial.Gear(*drawn.bodies, **radii, **marks, **drawn.frames(0))}


def gear_angles(drawn: DrawnJoint) -> tuple[float, float]:
    """Return the directions in radians, in each marker, of the other marker of a pair of gears."""
    on_i, on_j = drawn.d, -drawn.relative.T @ drawn.d
    return float(np.arctan2(on_i[1], on_i[0])), float(np.arctan2(on_j[1], on_j[0]))


def _turn(drawn: DrawnJoint) -> float:
    """Return the angle in radians from the x axis of the marker on i to that of the marker on j, about z of i."""
    return float(np.arctan2(drawn.relative[1, 0], drawn.relative[0, 0]))


# Functions that make the constraints of a drawn joint, by suffix of their names, for each kind of the solver's joints.
JOINT_KINDS: dict[str, Callable[[DrawnJoint], dict[str, Any]]] = {
    "Fixed": _pair(spatial.Rigid, 3),
    "Revolute": _pair(spatial.Revolute, 1),
    "Cylindrical": _pair(spatial.Cylindrical, 1),
    "Translational": _pair(spatial.Prismatic, 3),
    "Spherical": _pair(spatial.Spherical, 0),
    "Planar": _pair(spatial.Planar, 1, with_offset=True),
    "Universal": _universal,
    "ConstantVelocity": _constant_velocity,
    "NoRotation": _components((FREE,) * 3, (FIXED,) * 3, 3),
    "ParallelAxes": _parallel_axes,
    "PointInLine": _point_in_line,
    "PointInPlane": _point_in_plane,
    "Angle": lambda drawn: _angle(drawn, drawn.joint.size),
    "Perpendicular": lambda drawn: _angle(drawn, np.pi / 2),
    "LineInPlane": lambda drawn: _angle(drawn, np.pi / 2, in_plane=True),
    "SphSph": _distance,
    "CylSph": _axis_distance(_point_in_line, None),
    "RevCyl": _axis_distance(_pair(spatial.Cylindrical, 1), _parallel_axes),
    "RevRev": _axis_distance(_pair(spatial.Revolute, 1), _pair(spatial.Planar, 1)),
    "RackPinion": _rack_pinion,
    "Screw": _screw,
    "Gear": _gear,
}


def constraints_of(drawn: DrawnJoint) -> dict[str, AbstractConstraint]:
    """Return the constraints of a joint by suffix of their names; raise `ModelError` if they cannot be used."""
    name = drawn.joint.name
    found = JOINT_KINDS[drawn.joint.kind](drawn)
    for element in found.values():
        try:
            element.check()
        except ValueError as error:
            raise ModelError(f"joint {name!r}: {error}") from None
    return found
