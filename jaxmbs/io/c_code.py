"""Functions of a mechanism as C99, for controllers and other programs that run without Python."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.analyses.assembly import assemble
from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.dynamics.linear_inputs import ShiftedMotion
from jaxmbs.dynamics.methods.explicit import RK4
from jaxmbs.dynamics.methods.method import AbstractFixedStep
from jaxmbs.dynamics.reactions import reactions
from jaxmbs.dynamics.simulate import step_from
from jaxmbs.element import AbstractConstraint, unknown
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.io.files import replace_file
from jaxmbs.motion import AbstractMotion, Constant
from jaxmbs.numerics.arrays import with_fields
from jaxmbs.programs import CSource, PerformanceWarning, ProgramWithFallback, StructMember
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.trajectory import Trajectory

# Largest relative deviation from the values of Python with which the example program ends successfully.
TEST_TOLERANCE = 1e-9


def export_c(
    mech: Mechanism | Callable[[Any], Mechanism],
    folder: str | os.PathLike[str],
    what: Sequence[str] = ("kinematics",),
    *,
    guess: Coordinates | None = None,
    parameters: Any = None,
    points: Mapping[str, tuple[str, Sequence[float]]] | None = None,
    step: float = 1e-3,
    method: AbstractFixedStep | None = None,
    formulation: AbstractFormulation | None = None,
    name: str = "mechanism",
) -> list[Path]:
    """Write functions of a mechanism as C99, with a build file and an example that tests them.

    Each function is a header and a source file, `name_kinematics.h` and `name_kinematics.c`, made by `mbs.program(f).c`.
    They need math.h only and allocate nothing.

    - "kinematics": from `q`, a pose near the wanted one such as the last, and `drive`, which has for each driver its value,
      rate and acceleration: `q`, `v`, `a`, `points` and `status`.
    - "inverse_dynamics": from the same and the time `t`: `effort`, force or torque of each driver, and `status`.
    - "jacobian": from `q` and `drive`: the derivatives of `q` and of `points` with respect to the value of each driver,
      and `status`.
    - "step": from `q`, `v`, `t` and `drive` at the start of a step: `q`, `v`, `points` and `status` at its end.

    `status` is a `Status`, 0 for success. Drivers with several motions, and joints with motions, are called "joint_0",
    "joint_1", ….

    Args:
        mech: the mechanism; or a function of `parameters` that returns it. The parameters are then inputs of each function,
            otherwise all numbers are constants in the code.
        folder: folder of the files; it is made if it does not exist.
        what: names of functions.
        guess: rough configuration of the mechanism.
        parameters: values of the parameters for the test, any pytree of numbers.
        points: points of bodies whose places are outputs, by name: {"tip": ("coupler", (0.1, 0.2))}.
        step: length of a step, for "step".
        method: for "step"; `RK4()` by default.
        formulation: for "step"; `JointCoordinates()` by default.
        name: first part of the names of functions and files, an identifier of C.

    Returns:
        The files that were written: sources and headers, `CMakeLists.txt` and `main.c`. `main` compares the functions with
        values that Python has computed, prints the largest deviations, and returns 0 if all are below 1e-9.

    Raises:
        ValueError: an unknown name in `what` or `points`, a guess that cannot be assembled, or "inverse_dynamics" or
            "jacobian" of a mechanism without drivers.
        ProgramError: a user's function in the mechanism has no straight-line program.

    Examples:
        >>> files = mbs.io.export_c(mech, folder, ("kinematics", "inverse_dynamics"), guess=guess, name="four_bar")
        >>> print([file.name for file in files][:2])
        ['four_bar_kinematics.h', 'four_bar_kinematics.c']
    """
    build = mech if callable(mech) else lambda _: mech
    given = {"parameters": parameters} if callable(mech) else {}
    functions = Functions(
        build,
        dict(points or {}),
        float(step),
        RK4() if method is None else method,
        JointCoordinates() if formulation is None else formulation,
    )
    start = functions.start(parameters, guess)
    layout = build(parameters).layout
    about = f"q: {', '.join(layout.coordinates)}.\nv, a: {', '.join(layout.velocities)}."
    codes, tests = [], []
    for word in what:
        if word not in INPUTS:
            raise ValueError(unknown("function", word, list(INPUTS)))
        if word in ("inverse_dynamics", "jacobian") and "drive" not in start:
            raise ValueError(f"{word}: the mechanism has no drivers")
        inputs = given | {key: start[key] for key in INPUTS[word] if key in start}
        call = ProgramWithFallback(_with_names(getattr(functions, word), list(inputs)), runs="once").program
        with warnings.catch_warnings():
            # A function without a straight-line program is an error here.
            warnings.simplefilter("ignore", PerformanceWarning)
            code = call.c(*inputs.values(), name=f"{name}_{word}", about=about)
        codes.append(code)
        tests.append((code, jax.tree.leaves(tuple(inputs.values())), jax.tree.leaves(call(*inputs.values()))))
    folder = Path(folder)
    files = [path for code in codes for path in code.save(folder)]
    for file, text in (("CMakeLists.txt", _build_file(name, codes)), ("main.c", _main(tests))):
        files.append(replace_file(folder / file, lambda path, text=text: path.write_text(text, encoding="utf-8")))
    return files


def _with_names(function: Callable[[dict], Any], names: Sequence[str]) -> Callable:
    """Return a function of a dict as a function of its values, with the keys as names of its parameters."""

    def call(*values):
        """Call the function with a dict."""
        return function(dict(zip(names, values, strict=True)))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    call.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return call


# Inputs of each function, besides the parameters.
INPUTS = {
    "kinematics": ("q", "drive"),
    "inverse_dynamics": ("q", "drive", "t"),
    "jacobian": ("q", "drive"),
    "step": ("q", "v", "t", "drive"),
}


class Functions(NamedTuple):
    """The functions of a mechanism that `export_c` writes, each from a dict of inputs to a dict of outputs.

    Attributes:
        build: the mechanism for parameters.
        points: points of bodies that are outputs, by name.
        step_length: length of a step.
        method: integrator.
        formulation: of the integrator.
    """

    build: Callable[[Any], Mechanism]
    points: dict[str, tuple[str, Sequence[float]]]
    step_length: float
    method: AbstractFixedStep
    formulation: AbstractFormulation

    def start(self, parameters: Any, guess: Coordinates | None) -> dict[str, Any]:
        """Return inputs of all functions: the closed configuration near a guess at t = 0, at rest, and its drivers."""
        mech = self.build(parameters)
        for name, (body, _) in self.points.items():
            if body not in mech.bodies:
                raise ValueError(f"point {name!r}: {unknown('body', body, list(mech.bodies))}")
        t = jnp.zeros((), mech.dtype)
        drive = {}
        for name, motion in motions_of(mech).items():
            rate = jax.grad(motion)
            drive[name] = jnp.stack([motion(t), rate(t), jax.grad(rate)(t)])
        q = assemble(mech, guess, throw=True).q
        found = {"q": q, "v": jnp.zeros(mech.layout.m, q.dtype), "t": t}
        return found | ({"drive": drive} if drive else {})

    def driven(self, inputs: Mapping[str, Any], t: Array) -> Mechanism:
        """Return the mechanism whose motions have the values, rates and accelerations of `drive` at t."""
        mech = self.build(inputs.get("parameters"))
        drive = dict(inputs.get("drive", {}))
        zero = Constant(jnp.zeros_like(t))
        moved = lambda name: ShiftedMotion(zero, t, *drive[name])
        change = lambda group: tuple(
            e.with_motions([moved(x) for x in names_of_motions(n, e)]) for n, e in group.items()
        )
        return with_fields(Mechanism, mech, _drivers=change(mech.drivers), _constraints=change(mech.constraints))

    def motion(self, inputs: Mapping[str, Any], t: Array) -> tuple[Mechanism, Trajectory]:
        """Return the mechanism and its motion at the time t alone, by `kinematics`."""
        mech = self.driven(inputs, t)
        return mech, kinematics(mech, t[None], inputs["q"])

    def places(self, mech: Mechanism, q: Array) -> dict[str, Any]:
        """Return the places of the points, as an entry of the outputs; none without points."""
        found = {name: mech.point(q, body, s) for name, (body, s) in self.points.items()}
        return {"points": found} if found else {}

    def kinematics(self, inputs):
        """Return pose, velocities and accelerations that the drivers determine."""
        mech, run = self.motion(inputs, jnp.zeros((), inputs["q"].dtype))
        q = run.q[0]
        return {"q": q, "v": run.v[0], "a": run.a[0], "status": run.status[0]} | self.places(mech, q)

    def inverse_dynamics(self, inputs):
        """Return force or torque of each driver."""
        mech, run = self.motion(inputs, inputs["t"])
        found = reactions(mech, run)
        return {"effort": {name: found[name].effort[0] for name in mech.drivers}, "status": run.status[0]}

    def jacobian(self, inputs):
        """Return the derivatives of the pose and of the points with respect to the values of the drivers."""
        drive = inputs["drive"]

        def pose(values):
            """Return the outputs that are differentiated, and the status, for values of the drivers."""
            moved = {name: motion.at[0].set(values[name]) for name, motion in drive.items()}
            mech, run = self.motion({**inputs, "drive": moved}, jnp.zeros((), inputs["q"].dtype))
            return {"q": run.q[0]} | self.places(mech, run.q[0]), run.status[0]

        derivatives, status = jax.jacfwd(pose, has_aux=True)({name: motion[0] for name, motion in drive.items()})
        return derivatives | {"status": status}

    def step(self, inputs):
        """Return the state after one step."""
        t = inputs["t"]
        mech = self.driven(inputs, t)
        run = step_from(mech, t, inputs["q"], inputs["v"], self.step_length, self.method, self.formulation)
        return {"q": run.q[1], "v": run.v[1], "status": run.status[1]} | self.places(mech, run.q[1])


def names_of_motions(name: str, element: AbstractConstraint) -> list[str]:
    """Return names of the motions of an element: that of a driver with one motion, else with numbers."""
    count = len(element.motions)
    return [name] if count == 1 else [f"{name}_{k}" for k in range(count)]


def motions_of(mech: Mechanism) -> dict[str, AbstractMotion]:
    """Return all motions of drivers and joints, by the names that `names_of_motions` gives them."""
    elements = {**mech.drivers, **mech.constraints}
    return {x: m for n, e in elements.items() for x, m in zip(names_of_motions(n, e), e.motions, strict=True)}


def _build_file(name: str, codes: Sequence[CSource]) -> str:
    """Return a file for CMake that builds a library of the functions, and the program that tests them."""
    sources = " ".join(f"{code.name}.c" for code in codes)
    return f"""cmake_minimum_required(VERSION 3.10)
project({name} C)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_EXTENSIONS OFF)
add_library({name} STATIC {sources})
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_link_libraries({name} PUBLIC m)
add_executable({name}_test main.c)
target_link_libraries({name}_test {name})
enable_testing()
add_test(NAME {name} COMMAND {name}_test)
"""


def _main(tests: Sequence[tuple[CSource, list, list]]) -> str:
    """Return a program that calls each function once, and compares the outputs with those of Python."""
    parts = [f'#include "{code.name}.h"' for code, _, _ in tests]
    parts += [
        "", "#include <math.h>", "#include <stdio.h>", "",
        "/* Largest deviation of numbers from those of Python, relative to the largest of these if that is above 1. */",
        "static double deviation(const double *found, const double *expected, int count) {",
        "    double size = 1.0, largest = 0.0;",
        "    for (int k = 0; k < count; k++) size = fmax(size, fabs(expected[k]));",
        "    for (int k = 0; k < count; k++) {",
        "        const double apart = fabs(found[k] - expected[k]) / size;",
        "        largest = isnan(apart) ? INFINITY : fmax(largest, apart);",
        "    }",
        "    return largest;", "}", "", "int main(void) {", "    double largest = 0.0;",
    ]  # fmt: skip
    for code, inputs, outputs in tests:
        given = ", ".join(f".{m.name} = {_initializer(m, x)}" for m, x in zip(code.inputs, inputs, strict=True))
        parts += [
            "    {", f"        const {code.name}_in in = {{{given}}};", f"        {code.name}_out out;",
            f"        static {code.name}_memory memory;", f"        {code.name}(&in, &out, &memory);",
            "        double apart = 0.0;",
        ]  # fmt: skip
        for member, value in zip(code.outputs, outputs, strict=True):
            size = np.size(value)
            expected = ", ".join(repr(float(x)) for x in np.ravel(value).tolist())
            place = f"out.{member.name}[k]" if member.shape else f"out.{member.name}"
            parts += [
                "        {", f"            static const double expected[{size}] = {{{expected}}};",
                f"            double found[{size}];",
                f"            for (int k = 0; k < {size}; k++) found[k] = (double){place};",
                f"            apart = fmax(apart, deviation(found, expected, {size}));", "        }",
            ]  # fmt: skip
        parts += [
            f'        printf("{code.name}: largest deviation %g\\n", apart);',
            "        largest = fmax(largest, apart);", "    }",
        ]  # fmt: skip
    return "\n".join([*parts, f"    return largest < {TEST_TOLERANCE!r} ? 0 : 1;", "}", ""])


def _initializer(member: StructMember, value: Any) -> str:
    """Return the value of a member of a struct, as C writes it."""
    numbers = [repr(x) for x in np.ravel(value).tolist()]
    return f"{{{', '.join(numbers)}}}" if member.shape else numbers[0]
