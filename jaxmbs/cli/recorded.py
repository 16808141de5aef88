"""`--record "max piston.x"`: what is kept of a motion, one number each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from jaxmbs.cli.motion import determined

REDUCED: dict[str, Callable] = {
    "max": lambda x: jnp.max(x),
    "min": lambda x: jnp.min(x),
    "mean": lambda x: jnp.mean(x),
    "rms": lambda x: jnp.sqrt(jnp.mean(x * x)),
    "peak": lambda x: jnp.max(jnp.abs(x)),
    "range": lambda x: jnp.max(x) - jnp.min(x),
    "first": lambda x: x[0],
    "last": lambda x: x[-1],
}
QUANTITIES = (
    "a coordinate such as piston.x, velocity.piston.x, acceleration.piston.x, point(rod,0.3,0).x, effort of a driver "
    "(motor.effort), force or torque of a joint (B.force), energy.total, energy.kinetic, energy.potential"
)
POINT = re.compile(r"point\(([^,()]+)((?:,[^,()]+)*)\)\.([xyz])")


def recorder(model, text: str) -> Callable[[Any, Any], Any]:
    """(mechanism, motion) ↦ the number that a text names.

    Raises:
        ValueError: a text that says nothing about this model.
    """
    how, _, what = text.strip().partition(" ")
    if how not in REDUCED or not what:
        raise ValueError(f"{text!r}: begin with one of {', '.join(REDUCED)}, then {QUANTITIES}")
    quantity = _quantity(model, what.strip())
    return lambda mech, motion: REDUCED[how](quantity(mech, motion))


def _quantity(model, what: str) -> Callable[[Any, Any], Any]:
    """(mechanism, motion) ↦ the values of a quantity, (T,)."""
    point = POINT.fullmatch(what)
    if point:
        return _of_point(model, what, point[1], point[2], point[3])
    kind, _, rest = what.partition(".")
    if kind == "energy" and rest in ("total", "kinetic", "potential"):
        if determined(model):
            raise ValueError(f"{what!r}: drivers determine this motion; there is an energy where forces do")
        return lambda mech, motion: getattr(motion.energy, rest)
    owner, _, effect = what.rpartition(".")
    if effect == "effort" and owner in model.drivers:
        return lambda mech, motion: _single(what, _of_reaction(mech, motion, owner).effort)
    if effect in ("force", "torque") and (owner in model.constraints or owner in model.drivers):
        return lambda mech, motion: _size(getattr(_of_reaction(mech, motion, owner), effect))
    if kind in ("velocity", "acceleration") and rest in model.layout.velocities:
        return lambda mech, motion: getattr(motion, kind)(rest)
    if what in model.layout.coordinates:
        return lambda mech, motion: motion.position(what)
    names = [*model.layout.coordinates, *(f"{name}.effort" for name in model.drivers)]
    raise ValueError(f"{what!r} is nothing that can be recorded: give {QUANTITIES}; here are {', '.join(names)}")


def _of_point(model, what: str, body: str, numbers: str, axis: str) -> Callable[[Any, Any], Any]:
    """A coordinate of a point of a body."""
    if body not in model.bodies:
        raise ValueError(f"{what!r}: there is no body {body!r}; there are {', '.join(model.bodies)}")
    dimension = model.bodies[body].dimension
    try:
        place = tuple(float(x) for x in numbers.split(",")[1:])
    except ValueError:
        place = ()
    if len(place) != dimension or "xyz".index(axis) >= dimension:
        raise ValueError(f"{what!r}: a point of {body!r} has {dimension} coordinates, as has what is recorded of it")
    return lambda mech, motion: motion.point(body, place)[:, "xyz".index(axis)]


def _of_reaction(mech, motion, name: str):
    import jaxmbs as mbs

    return mbs.reactions(mech, motion)[name]


def _single(what: str, effort):
    """An effort that is one number at each time."""
    if effort is None or effort.size != len(effort):
        raise ValueError(f"{what!r}: is none, or several; record the force or the torque")
    return effort.reshape(-1)


def _size(x):
    """The length of vectors, and the amount of numbers."""
    return jnp.abs(x) if x.ndim == 1 else jnp.sqrt(jnp.sum(x * x, axis=-1))
