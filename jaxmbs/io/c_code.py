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
from jaxmbs.analyses.kinematics import kinematics, motion_near
from jaxmbs.dynamics.linearisation import Linearisation, linearise
from jaxmbs.dynamics.methods.explicit import RK4, SemiImplicitEuler
from jaxmbs.dynamics.methods.method import AbstractFixedStep
from jaxmbs.dynamics.reactions import reactions
from jaxmbs.dynamics.simulate import simulate
from jaxmbs.dynamics.single_step import scales_of, single_step
from jaxmbs.element import require, unknown
from jaxmbs.formulations.abstract import Scales
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.formulations.stateful import stateful_forces
from jaxmbs.io.driven_motions import motions_of, with_drive
from jaxmbs.io.files import replace_file
from jaxmbs.numerics.arrays import instance_of
from jaxmbs.programs import CSource, PerformanceWarning, ProgramWithFallback, StructMember, number_in_c
from jaxmbs.system.marks import measure_marks
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.trajectory import Trajectory

# Largest relative deviation from the values of Python with which the test program succeeds, for double and for float.
TEST_TOLERANCES = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-3}
# Rate and acceleration of each driver in the test program.
TEST_RATES = (1.0, 0.5)
# First words of a build file that was written here, and may be replaced.
MADE_HERE = "# Written by jaxmbs for"


def export_c(
    mech: Mechanism | Callable[[Any], Mechanism],
    folder: str | os.PathLike[str],
    what: Sequence[str] = ("kinematics",),
    *,
    guess: Coordinates | None = None,
    parameters: Any = None,
    points: Mapping[str, tuple[str, Sequence[float]]] | None = None,
    linear_inputs: Sequence[str] = (),
    step: float = 1e-3,
    method: AbstractFixedStep | None = None,
    formulation: AbstractFormulation | None = None,
    name: str = "mechanism",
    elementary: str = "libm",
) -> list[Path]:
    """Write functions of a mechanism as C99, with a build file and a test program.

    Each function is a header and a source file, such as `name_kinematics.h` and `name_kinematics.c`; see
    `mbs.program(f).c`. Inputs are `t`, `q` and `v` as in Python, and `drive`, which has three numbers for each driver: its
    value, rate and acceleration. The acceleration is taken as constant during a step.

    - "kinematics": from `q`, an estimate such as the last result, `drive` and `t`: `q`, `v`, `a`, `points` and `status`.
    - "inverse_dynamics": from the same: `effort`, the force or torque of each driver (not of joints with motions), and
      `status`.
    - "jacobian": from the same: the derivatives of `q` and `points` with respect to the value of each driver, and `status`.
    - "step": from `q`, `v`, `t` and `drive` at the start of a step: `q`, `v`, `points` and `status` at its end. The start
      must nearly satisfy the constraints, as the result of the last step does.
    - "linearisation": from the same: `A`, `B`, `C` and `D` of small motions about the state, see `linearise`, and `status`.
      Inputs are `linear_inputs`, outputs are the points. The coordinates are chosen at the guess; the header names them.

    `status` is a `Status`, 0 for success. The first three solve for one configuration by at most eight Newton steps
    from `q`, and do not test that `q` is near. From a distant `q` they may find another assembly mode, or none: the status
    is then NOT_ASSEMBLED, which is also that of a lock-up. A driver or joint with one motion keeps its name in
    `drive`; with several it is called name_0, name_1, …. Gears, belts and ropes without marks fit as in the
    assembled guess.

    Args:
        mech: the mechanism; or a function of `parameters` that returns it. The parameters are then inputs of each function,
            otherwise all numbers are constants in the code. In float32 the code computes in `float`.
        folder: folder of the files; it is made if it does not exist.
        what: names of functions.
        guess: estimate of the configuration at t = 0.
        parameters: values of the parameters for the test program, any pytree of numbers.
        points: points of bodies whose positions are outputs, by name: {"tip": ("coupler", (0.1, 0.2))}.
        linear_inputs: for "linearisation", the names of forces and drivers that are its inputs.
        step: length of a step, for "step".
        method: for "step", `RK4()` by default, or `SemiImplicitEuler()`.
        formulation: for "step" and "linearisation"; `JointCoordinates()` by default.
        name: first part of the names of functions and files, an identifier of C.
        elementary: "libm" for the sine and other functions of math.h; "own" for those of programs on the CPU, with which
            results have the same bits as in Python, see `mbs.program(f).c`.

    Returns:
        The files that were written: headers and sources, `CMakeLists.txt`, and the test program `name_test.c`. It compares
        the functions with values that Python has computed, prints the largest deviations, and returns 0 if all are below
        1e-9 (1e-3 in float32).

    Raises:
        AnalysisError: the motion from the guess fails, with which the test program is made.
        ValueError: an unknown name in `what`, `points` or `elementary`, a name that C cannot have, a guess that cannot be
            assembled, drivers that do not determine the motion (except for "step" and "linearisation", which needs a
            degree of freedom), no drivers for "inverse_dynamics" and "jacobian", forces with states such as the current of
            a motor (except for "kinematics" and "jacobian"), or a file `CMakeLists.txt` of another origin in the folder.
        ProgramError: a function of yours in the mechanism cannot be written as a list of scalar operations, for example
            because it calls back into Python.

    Examples:
        >>> files = mbs.export_c(mech, "code", ("kinematics", "inverse_dynamics"), guess=guess, name="four_bar")
        >>> print([file.name for file in files][:2])
        ['four_bar_kinematics.h', 'four_bar_kinematics.c']
    """
    require(not isinstance(what, str), f"what must be a tuple of names, such as ({what!r},)")
    require(len(what) > 0, "what must name a function")
    for function in what:
        require(function in FUNCTIONS, unknown("function", function, list(FUNCTIONS)))
    require(callable(mech) or parameters is None, "parameters need a function that returns the mechanism")
    method = instance_of(AbstractFixedStep, "method", method, RK4())
    require(
        isinstance(method, (RK4, SemiImplicitEuler)),
        "method must be RK4() or SemiImplicitEuler(), because other methods carry data from step to step",
    )
    require(0 < step < np.inf, f"step must be positive, got {step}")
    require(len(set(what)) == len(what), f"what: a name is repeated in {tuple(what)}")
    formulation = instance_of(AbstractFormulation, "formulation", formulation, JointCoordinates())
    folder = Path(folder)
    _check_build_file(folder / "CMakeLists.txt", name)

    build = mech if callable(mech) else lambda _: mech
    given = {"parameters": jax.tree.map(_as_real, parameters)} if callable(mech) else {}
    require(not isinstance(linear_inputs, str), f"linear_inputs must be a tuple of names, such as ({linear_inputs!r},)")
    functions = MechanismFunctions(build, dict(points or {}), tuple(linear_inputs), float(step), method, formulation)
    functions, inputs = functions.with_test_inputs(given.get("parameters"), guess)
    functions.check(what, given | inputs)
    if "drive" in inputs and set(what) & {"step", "linearisation"}:
        # The velocity that the rates of the drivers ask for.
        moved = functions.with_drive(given | inputs)
        inputs["v"] = simulate(moved, inputs["t"][None], inputs["q"], throw=True).v[0]
    if "step" in what:
        functions = functions.with_scales(given | inputs)
    if "linearisation" in what:
        functions = functions.with_linearisation(given | inputs)
    layout = build(given.get("parameters")).layout
    comment = (
        f"q: {', '.join(layout.coordinates)}.\nv, a: {', '.join(layout.velocities)}.\n"
        "drive: value, rate and acceleration of each driver; angles in radians.\n"
        "status: 0 for success, else do not use the outputs."
    )
    if functions.linear is not None:
        states, given_inputs = (", ".join(x) for x in (functions.linear.state_names, functions.linear.input_names))
        comment += f"\nStates of A and B: {states}. Inputs of B: {given_inputs or 'none'}."
    tests = []
    for function in what:
        arguments = given | {key: inputs[key] for key in FUNCTIONS[function] if key in inputs}
        call = _with_names(getattr(functions, function), list(arguments), f"{name}_{function}")
        program = ProgramWithFallback(call, runs="once").program
        with warnings.catch_warnings():
            # A function that cannot be written as a program is an error here.
            warnings.simplefilter("ignore", PerformanceWarning)
            code = program.c(*arguments.values(), name=f"{name}_{function}", about=comment, elementary=elementary)
        outputs = program(*arguments.values())
        tests.append(Test(code, jax.tree.leaves(tuple(arguments.values())), jax.tree.leaves(outputs)))
    files = [path for test in tests for path in test.code.save(folder)]
    tolerance = TEST_TOLERANCES[np.dtype(inputs["q"].dtype)]
    texts = {"CMakeLists.txt": _build_file(name, tests), f"{name}_test.c": _test_program(tests, tolerance)}
    for file, text in texts.items():
        files.append(replace_file(folder / file, lambda path, text=text: path.write_text(text, encoding="utf-8")))
    return files


# Inputs of each function, besides the parameters.
FUNCTIONS = {
    "kinematics": ("q", "drive", "t"),
    "inverse_dynamics": ("q", "drive", "t"),
    "jacobian": ("q", "drive", "t"),
    "step": ("q", "v", "drive", "t"),
    "linearisation": ("q", "v", "drive", "t"),
}


class Test(NamedTuple):
    """A function in C, with inputs and the outputs that Python computes from them."""

    code: CSource
    inputs: list[Any]
    outputs: list[Any]


class MechanismFunctions(NamedTuple):
    """The functions of a mechanism that `export_c` writes, each from a dict of inputs to a dict of outputs.

    Attributes:
        build: the mechanism for parameters.
        points: points of bodies that are outputs, by name.
        linear_inputs: names of the inputs of the linearisation.
        step_length: length of a step.
        method: integrator.
        formulation: of the integrator and the linearisation.
        meshed: configuration in which missing marks of gears, belts and ropes are measured; None before it is known.
        linear: linearisation about the test inputs, whose coordinates are used for all inputs; None without one.
        scales: scales of a step, those of the test inputs; None if each step has its own, because parameters may change.
    """

    build: Callable[[Any], Mechanism]
    points: dict[str, tuple[str, Sequence[float]]]
    linear_inputs: tuple[str, ...]
    step_length: float
    method: AbstractFixedStep
    formulation: AbstractFormulation
    meshed: Array | None = None
    linear: Linearisation | None = None
    scales: Scales | None = None

    def with_test_inputs(self, parameters: Any, guess: Coordinates | None) -> tuple[MechanismFunctions, dict[str, Any]]:
        """Return the functions with `meshed`, and inputs near it: the configuration assembled from a guess at t = 0."""
        mech = self.build(parameters)
        for name, (body, _) in self.points.items():
            require(body in mech.bodies, f"point {name!r}: {unknown('body', body, list(mech.bodies))}")
        t = jnp.zeros((), mech.dtype)
        q = assemble(mech, guess, throw=True).q
        drive = {
            name: jnp.stack([motion(t), *jnp.asarray(TEST_RATES, t.dtype)]) for name, motion in motions_of(mech).items()
        }
        inputs = {"q": q, "v": jnp.zeros(mech.layout.m, q.dtype), "t": t} | ({"drive": drive} if drive else {})
        return self._replace(meshed=q), inputs

    def check(self, what: Sequence[str], inputs: Mapping[str, Any]) -> None:
        """Raise `ValueError` for functions that need drivers, or that forces with states do not allow."""
        mech = self.build(inputs.get("parameters"))
        states = list(stateful_forces(mech))
        for function in what:
            require("drive" in inputs or function != "jacobian", "jacobian: the mechanism has no drivers")
            require(mech.drivers or function != "inverse_dynamics", "inverse_dynamics: the mechanism has no drivers")
            if states and function in ("inverse_dynamics", "step", "linearisation"):
                raise ValueError(
                    f"{function}: the force {states[0]!r} has states, such as a current, which the code does not keep"
                )
        if set(what) - {"step", "linearisation"}:
            # This also checks that the drivers determine the motion.
            kinematics(self.with_drive(inputs), inputs["t"][None], inputs["q"], throw=True)

    def with_scales(self, inputs: Mapping[str, Any]) -> MechanismFunctions:
        """Return the functions with scales of the steps that are those of the inputs, unless there are parameters."""
        if "parameters" in inputs:
            return self
        mech = self.with_drive(inputs)
        scales = jax.jit(lambda q, v, t: scales_of(mech, t, q, v, self.formulation))
        return self._replace(scales=scales(inputs["q"], inputs["v"], inputs["t"]))

    def with_linearisation(self, inputs: Mapping[str, Any]) -> MechanismFunctions:
        """Return the functions with the linearisation about the inputs."""
        try:
            return self._replace(linear=self._linearise(inputs))
        except ValueError as error:
            raise ValueError(f"linearisation: {error}") from None

    def _linearise(self, inputs: Mapping[str, Any]) -> Linearisation:
        """Return the linearisation about the state of the inputs."""
        mech, points = self.with_drive(inputs), tuple(self.points.values())
        coordinates = None if self.linear is None else self.linear.coordinates
        options: Any = {"coordinates": coordinates, "formulation": self.formulation}
        state = inputs["q"], inputs["v"], inputs["t"]
        return linearise(mech, *state, inputs=self.linear_inputs, outputs=points, **options)

    def with_drive(self, inputs: Mapping[str, Any]) -> Mechanism:
        """Return the mechanism whose motions have the values, rates and accelerations of `drive` at the time t."""
        mech, t = self.build(inputs.get("parameters")), inputs["t"]
        if self.meshed is not None:
            mech, _ = measure_marks(mech, self.meshed)
        return with_drive(mech, t, inputs.get("drive", {}))

    def solve(self, inputs: Mapping[str, Any]) -> tuple[Mechanism, Trajectory]:
        """Return the mechanism and its motion at the time t alone, by Newton steps from the estimate q."""
        mech = self.with_drive(inputs)
        return mech, motion_near(mech, inputs["t"], inputs["q"])

    def positions(self, mech: Mechanism, q: Array) -> dict[str, Any]:
        """Return the positions of the points, as an entry of the outputs; none without points."""
        found = {name: mech.point(q, body, s) for name, (body, s) in self.points.items()}
        return {"points": found} if found else {}

    def kinematics(self, inputs):
        """Return configuration, velocities and accelerations that the drivers determine."""
        mech, run = self.solve(inputs)
        outputs = {"q": run.q[0], "v": run.v[0], "a": run.a[0], "status": run.status[0]}
        return outputs | self.positions(mech, run.q[0])

    def inverse_dynamics(self, inputs):
        """Return force or torque of each driver."""
        mech, run = self.solve(inputs)
        found = reactions(mech, run)
        effort = {name: found[name].effort[0] for name in mech.drivers if found[name].effort is not None}
        return {"effort": effort, "status": run.status[0]}

    def jacobian(self, inputs):
        """Return the derivatives of configuration and points with respect to the values of the drivers."""

        def outputs(values):
            """Return what is differentiated, and the status, for values of the drivers."""
            drive = {name: motion.at[0].set(values[name]) for name, motion in inputs["drive"].items()}
            mech, run = self.solve({**inputs, "drive": drive})
            return {"q": run.q[0]} | self.positions(mech, run.q[0]), run.status[0]

        values = {name: motion[0] for name, motion in inputs["drive"].items()}
        derivatives, status = jax.jacfwd(outputs, has_aux=True)(values)
        return derivatives | {"status": status}

    def step(self, inputs):
        """Return q, v and points after one step of length `step_length`, and the status."""
        mech, t = self.with_drive(inputs), inputs["t"]
        options = self.step_length, self.method, self.formulation, self.scales
        q, v, status = single_step(mech, t, inputs["q"], inputs["v"], *options)
        return {"q": q, "v": v, "status": status} | self.positions(mech, q)

    def linearisation(self, inputs):
        """Return the matrices of small motions about a state, and the status."""
        found = self._linearise(inputs)
        return {"A": found.A, "B": found.B, "C": found.C, "D": found.D, "status": found.status}


def _as_real(x: Any) -> Any:
    """Return a Python integer as a real number, because lengths and masses are such; all else unchanged."""
    return float(x) if isinstance(x, int) and not isinstance(x, bool) else x


def _with_names(function: Callable[[dict], Any], parameters: Sequence[str], name: str) -> Callable:
    """Return a function of a dict as a function of its values, with the keys as names of its parameters."""

    def call(*values):
        """Call the function with a dict."""
        return function(dict(zip(parameters, values, strict=True)))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    call.__signature__ = inspect.Signature([inspect.Parameter(each, kind) for each in parameters])  # type: ignore[attr-defined]
    call.__name__ = name
    return call


def _check_build_file(path: Path, name: str) -> None:
    """Raise `ValueError` if there is a build file that was not written for the functions of this name."""
    if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(f"{MADE_HERE} {name}.\n"):
        raise ValueError(f"{path} was not written by export_c for {name!r}; choose another folder, or delete it")


def _build_file(name: str, tests: Sequence[Test]) -> str:
    """Return a file for CMake that builds a library of the functions, and the test program."""
    sources = " ".join(f"{test.code.name}.c" for test in tests)
    return f"""{MADE_HERE} {name}.
cmake_minimum_required(VERSION 3.10)
project({name}_code C)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
add_library({name}_code STATIC {sources})
target_include_directories({name}_code PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
if(NOT MSVC)
  target_link_libraries({name}_code PUBLIC m)
endif()
add_executable({name}_test {name}_test.c)
target_link_libraries({name}_test {name}_code)
enable_testing()
add_test(NAME {name} COMMAND {name}_test)
"""


def _test_program(tests: Sequence[Test], tolerance: float) -> str:
    """Return a program that calls each function once, and compares the outputs with those of Python."""
    parts = [f'#include "{test.code.name}.h"' for test in tests]
    parts += [
        "", "#include <math.h>", "#include <stdio.h>", "",
        "/* Largest deviation of numbers from those of Python, relative to the largest of these if that is above 1. */",
        "static double deviation(const double *found, const double *expected, int count) {",
        "    double size = 1.0, largest = 0.0;",
        "    for (int k = 0; k < count; k++) size = fmax(size, fabs(expected[k]));",
        "    for (int k = 0; k < count; k++) {",
        "        const double error = fabs(found[k] - expected[k]) / size;",
        "        largest = isnan(error) ? INFINITY : fmax(largest, error);",
        "    }",
        "    return largest;", "}", "", "int main(void) {", "    double largest = 0.0;",
    ]  # fmt: skip
    for code, inputs, outputs in tests:
        members = [(m, x) for m, x in zip(code.inputs, inputs, strict=True) if np.size(x)]
        given = ", ".join(f".{member.name} = {_initializer(member, x)}" for member, x in members)
        parts += [
            "    {", f"        const {code.name}_in in = {{{given}}};",
            f"        {code.name}_out out;", f"        static {code.name}_memory memory;",
            f"        {code.name}(&in, &out, &memory);", "        double error = 0.0;",
        ]  # fmt: skip
        for member, value in zip(code.outputs, outputs, strict=True):
            size = np.size(value)
            if not size:
                continue
            expected = ", ".join(number_in_c(float(x), "f") for x in np.ravel(value).tolist())
            place = f"out.{member.name}[k]" if member.shape else f"out.{member.name}"
            parts += [
                "        {", f"            static const double expected[{size}] = {{{expected}}};",
                f"            double found[{size}];",
                f"            for (int k = 0; k < {size}; k++) found[k] = (double){place};",
                f"            error = fmax(error, deviation(found, expected, {size}));", "        }",
            ]  # fmt: skip
        parts += [
            f'        printf("{code.name}: largest deviation %g\\n", error);',
            "        largest = fmax(largest, error);", "    }",
        ]  # fmt: skip
    return "\n".join([*parts, f"    return largest < {tolerance!r} ? 0 : 1;", "}", ""])


def _initializer(member: StructMember, value: Any) -> str:
    """Return the value of a member of a struct, as C writes it."""
    suffix = "f" if np.asarray(value).dtype == np.float32 else ""
    numbers = [number_in_c(x, member.kind, suffix) for x in np.ravel(value).tolist()]
    return f"{{{', '.join(numbers)}}}" if member.shape else numbers[0]
