"""Marks of gears, belts and ropes that are not given: they are measured in the first configuration of an analysis."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import require
from jaxmbs.numerics.arrays import is_concrete
from jaxmbs.system.mechanism import Coordinates, Mechanism


def with_marks(mech: Mechanism, guess: Coordinates | None = None) -> Mechanism:
    """Return the mechanism with marks of its gears, belts and ropes with which they fit in a configuration.

    Gears and racks without `angle_i` and `angle_j` mesh as they are drawn; so do belts with their pulleys, and a rope
    without `length` is as long as it is drawn. `assemble`, `kinematics`, `simulate` and
    `find_singularities` measure these marks in the guess, before anything moves, and keep them. Functions of one
    configuration, such as `constraints` and `diagnose`, measure the marks in that configuration. Use this function to
    measure the marks once for several analyses. They are differentiable functions of the mechanism and of the guess.
    A `planar.ElasticBelt`, which is a force, is put on by this function only.

    Args:
        mech: the mechanism. Elements with one of these numbers are unchanged.
        guess: a mapping of names to coordinates, or q (n,); see `Mechanism.coordinates`.

    Returns:
        The mechanism with `angle_i` and `angle_j` of its gears, `directions` and `advances` of its belts, `length` of its
        ropes.

    Raises:
        ValueError: an unknown name in `guess`, a wrong number of values, or an element without marks there, as a belt
            on pulleys that overlap.

    Examples:
        >>> gears = planar.Gear("a", "b", (0, 0), (0, 0), radius_i=1.0, radius_j=2.0)
        >>> mech = mbs.Mechanism({"a": planar.Body(), "b": planar.Body()}, {"mesh": gears})
        >>> drawn = mbs.with_marks(mech, {"a": (0, 0, 0), "b": (0, 3, 0.5)})
        >>> mesh = drawn.constraints["mesh"]
        >>> print(jnp.stack([mesh.angle_i, mesh.angle_j]).round(4))  # π/2, and 3π/2 − 0.5
        [1.5708 4.2124]
    """
    forces = [name for name, force in mech.forces.items() if getattr(force, "lacks_marks", False)]
    names = elements_without_marks(mech)
    if not forces and not names:
        return mech
    q = mech.coordinates(guess)
    mech = measure_marks(mech, q)[0]
    for name in forces:
        force = mech.forces[name]
        fields = lambda mech, name=name: [getattr(mech.forces[name], field) for field in mech.forces[name].mark_fields]
        marks = force.drawn_marks(*(mech.layout.pose(body, q) for body in force.bodies))
        mech = eqx.tree_at(fields, mech, marks, is_leaf=lambda x: x is None)
    if is_concrete(q) and np.all(np.isfinite(q)):
        for name in (*names, *forces):
            _check_marks(name, {**mech.constraints, **mech.drivers, **mech.forces}[name])
    return mech


def _check_marks(name: str, element: Any) -> None:
    """Raise `ValueError` with the name of an element if a mark is known and not finite."""
    marks = [mark for mark in (getattr(element, field) for field in element.mark_fields) if is_concrete(mark)]
    require(
        all(np.all(np.isfinite(mark)) for mark in marks),
        f"{name!r} ({type(element).__name__}): the marks are not finite in this configuration, as if pulleys of a belt "
        "overlap or the axes of a worm gear are parallel",
    )


def measure_marks(mech: Mechanism, q: Float[Array, " n"]) -> tuple[Mechanism, Float[Array, " n"]]:
    """Return the mechanism with missing marks measured in q, and q with extra coordinates that match them."""
    names = elements_without_marks(mech)
    if not names:
        return mech, q
    angles, q = _marks_at(mech.geometry, q, names)

    drivers = [name for name, *_ in mech.layout.drivers]

    def marks(mech: Mechanism) -> list[Any]:
        """Return the fields of the marks of all elements in `names`."""
        elements = [(mech.drivers if name in drivers else mech.constraints)[name] for name in names]
        return [getattr(element, field) for element in elements for field in element.mark_fields]

    return eqx.tree_at(marks, mech, angles, is_leaf=lambda x: x is None), q


def elements_without_marks(mech: Mechanism) -> tuple[str, ...]:
    """Return the names of the gears, belts and ropes whose marks have not been given or measured."""
    return tuple(name for name, element in {**mech.constraints, **mech.drivers}.items() if element.lacks_marks)


@eqx.filter_jit
def _marks_at(mech: Mechanism, q: Array, names: tuple[str, ...]) -> tuple[list[Array], Array]:
    """Return the marks of these elements, and q with the extra coordinates of the gears."""
    elements, layout, angles = {**mech.constraints, **mech.drivers}, mech.layout, []
    for name in names:
        element, entries = elements[name], layout.extra_slices.get(name, slice(0, 0))
        poses = [layout.pose(body, q) for body in (element.i, element.j, *element.others)]
        marks, extra = element.drawn_marks(*poses, *q[entries])
        angles += marks
        q = q.at[entries].set(extra) if len(extra) else q
    return angles, q
