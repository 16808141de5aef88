"""Variables of an FMU: names, units, roles and start values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.dynamics.linear_inputs import Input, inputs_of
from jaxmbs.dynamics.quantities import AXES
from jaxmbs.element import require, unknown
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.formulations.stateful import state_names
from jaxmbs.io.driven_motions import motions_of
from jaxmbs.motion import AbstractMotion
from jaxmbs.system.mechanism import Mechanism, Velocities

# A name that needs no quotes: identifiers with dots.
PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


class Variable(NamedTuple):
    """A real variable of an FMU.

    Attributes:
        name: its name.
        causality: "independent", "parameter", "input", "local" or "output".
        unit: unit; empty if it is not known.
        start: start value of a parameter or input.
        about: a description.
        rate_of: the state whose derivative it is.
    """

    name: str
    causality: str
    unit: str = ""
    start: float | None = None
    about: str = ""
    rate_of: str = ""


class KnownVariables(NamedTuple):
    """The variables that the functions of an FMU read, in the order of `values`.

    Attributes:
        time: the time.
        parameters: numbers of the pytree of parameters.
        configuration: q of the bodies at the start, before assembly.
        velocities: velocities at the start: named ones, or all.
        motions: value, rate and acceleration of each motion that is an input.
        forces: arguments of forces that are inputs.
        states: coordinates and velocities of the formulation, then states of forces.
    """

    time: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    configuration: tuple[Variable, ...]
    velocities: tuple[Variable, ...]
    motions: tuple[Variable, ...]
    forces: tuple[Variable, ...]
    states: tuple[Variable, ...]

    @property
    def all(self) -> tuple[Variable, ...]:
        """All variables, part after part."""
        return tuple(x for part in self for x in part)


class Units(NamedTuple):
    """Units of coordinates and velocities by name.

    Attributes:
        angular: True for velocities of angles, False for those of lengths. Others are Euler parameters, without unit.
        length: unit of length.
    """

    angular: dict[str, bool]
    length: str

    @classmethod
    def of(cls, space: Any, length: str) -> Units:
        """Return the units of a layout or of a space of joint coordinates."""
        return cls(dict(zip(space.velocities, np.asarray(space.angular).tolist(), strict=True)), length)

    def __call__(self, name: str, order: int = 0) -> str:
        """Return the unit of a coordinate, or of its derivative of an order in time."""
        unit = "rad" if self.angular.get(name) else self.length
        return f"{unit}{('', '/s', '/s2')[order]}" if name in self.angular else ""


def structured(name: str) -> str:
    """Return a name, such as "crank.phi", with quotes round what is not an identifier."""
    owner, dot, coordinate = name.rpartition(".")
    if PLAIN_NAME.fullmatch(name):
        return name
    if dot and PLAIN_NAME.fullmatch(coordinate):
        return f"{structured(owner)}.{coordinate}"
    escaped = re.sub(r"(['\"\\])", r"\\\1", name)
    return f"'{escaped}'"


def rate(name: str, coordinates: Sequence[str]) -> str:
    """Return the name of a velocity: der(crank.phi) for the rate of a coordinate, rod.wx for other velocities."""
    return f"der({structured(name)})" if name in coordinates else structured(name)


def leaf_names(tree: Any) -> list[str]:
    """Return a name for each number of a pytree of parameters, such as "length.crank" or "com.rod[2]"."""
    names = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = ""
        for key in path:
            index = getattr(key, "idx", None)
            word = getattr(key, "key", getattr(key, "name", None))
            number = index if index is not None else word if isinstance(word, int) else None
            name += f"[{number + 1}]" if number is not None else f".{structured(str(word))}"
        name = name.removeprefix(".")
        name = f"parameters{name}" if not name or name.startswith("[") else name
        array = np.asarray(leaf)
        require(array.dtype.kind in "fiu", f"parameters: {name} must be a real number, got {leaf!r}")
        indices = (
            [""] if not array.ndim else [f"[{','.join(str(k + 1) for k in at)}]" for at in np.ndindex(array.shape)]
        )
        names += [(name + index).replace("][", ",") for index in indices]
    return names


def known_variables(
    mech: Mechanism,
    parameters: Mapping[str, float],
    q: Array,
    velocities: Velocities | None,
    inputs: Sequence[str],
    formulation: JointCoordinates,
    length: str,
) -> tuple[KnownVariables, tuple[str, ...], tuple[Input, ...]]:
    """Return the known variables, the names of the velocities at the start, and the arguments of forces that are inputs."""
    layout, space = mech.layout, formulation.equations(mech).space
    require(space.m, "the motions determine all joint coordinates, so that an FMU has no states; see `export_c`")
    of_bodies, of_joints = Units.of(layout, length), Units.of(space, length)
    v, named = np.asarray(mech.velocities(velocities)), mech.named_velocities(velocities)
    chosen = [k for k, is_kept in enumerate(named or [velocities is not None] * layout.m) if is_kept]
    motions = motions_of(mech)
    forces = inputs_of(mech, [name for name in inputs if name not in motions], q, jnp.zeros((), q.dtype))
    driven = {name: _derivatives(motions[name]) for name in inputs if name in motions}
    of_states = [
        *((f"joints.{structured(x)}", of_joints(x), "joint coordinate") for x in space.coordinates),
        *((f"rates.{structured(x)}", of_joints(x, 1), "joint velocity") for x in space.velocities),
        *((f"states.{structured(x)}", "", "state of a force") for x in state_names(mech)),
    ]
    known = KnownVariables(
        (Variable("time", "independent", "s"),),
        tuple(Variable(x, "parameter", start=y) for x, y in parameters.items()),
        tuple(
            Variable(f"start.{structured(x)}", "parameter", of_bodies(x), float(y), "before assembly")
            for x, y in zip(layout.coordinates, q, strict=True)
        ),
        tuple(
            Variable(f"start.velocity.{structured(x)}", "parameter", of_bodies(x, 1), float(v[k]), "at the start")
            for k, x in enumerate(layout.velocities) if k in chosen
        ),
        tuple(
            Variable(f"{structured(name)}.{part}", "input", start=number, about="of a motion; angles in radians")
            for name, numbers in driven.items()
            for part, number in zip(("value", "rate", "acceleration"), numbers, strict=True)
        ),
        tuple(Variable(structured(one.name), "input", start=_number(mech, one)) for one in forces),
        tuple(Variable(name, "local", unit, about=about) for name, unit, about in of_states),
    )  # fmt: skip
    return known, tuple(layout.velocities[k] for k in chosen) if named else (), forces


def unknown_variables(
    mech: Mechanism, states: Sequence[Variable], points: Mapping[str, tuple[str, Sequence[float]]], length: str
) -> tuple[Variable, ...]:
    """Return the variables that `FmuFunctions.evaluate` computes: derivatives of the states, and outputs."""
    layout = mech.layout
    units = Units.of(layout, length)
    for point, (body, _) in points.items():
        require(body in mech.bodies, f"point {point!r}: {unknown('body', body, list(mech.bodies))}")
    axes = AXES[: layout.dimension]
    return (
        *(Variable(f"der({x.name})", "local", _rate_unit(x.unit), rate_of=x.name) for x in states),
        *(Variable(structured(x), "output", units(x)) for x in layout.coordinates),
        *(Variable(rate(x, layout.coordinates), "output", units(x, 1)) for x in layout.velocities),
        *(
            Variable(name, "output", unit, about=f"of the point {point}")
            for point in points
            for pattern, unit in (("{}", length), ("der({})", f"{length}/s"))
            for name in (pattern.format(f"{structured(point)}.{axis}") for axis in axes)
        ),
        *(
            Variable(f"{structured(name)}.effort", "output", about="driving force or torque")
            for name in motions_of(mech)
        ),
    )


def _rate_unit(unit: str) -> str:
    """Return the unit of the rate of a quantity with a unit."""
    return "" if not unit else unit.replace("/s", "/s2") if "/" in unit else f"{unit}/s"


def _derivatives(motion: AbstractMotion) -> list[float]:
    """Return value, rate and acceleration of a motion at t = 0."""
    rate = jax.grad(motion)
    return [float(f(jnp.zeros(()))) for f in (motion, rate, jax.grad(rate))]


def _number(mech: Mechanism, one: Input) -> float:
    """Return the number of a force that an input replaces, or raise `ValueError` if it is a function."""
    value = getattr(mech.forces[one.owner], one.field)
    if callable(value) or isinstance(value, tuple):
        raise ValueError(
            f"input {one.name!r}: the FMU replaces {one.field}, which must be a number in the model, not a function"
        )
    return float(value if one.entry is None else value[one.entry])


def check_unique(names: Iterable[str]) -> None:
    """Raise `ValueError` if two variables have one name."""
    known: set[str] = set()
    for name in names:
        require(name not in known, f"two variables of the FMU are called {name!r}; rename a body, point or parameter")
        known.add(name)
