"""Export of a mechanism as an FMU: descriptions, C sources, and the library that the C compiler makes of them."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import uuid
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.analyses.assembly import assemble
from jaxmbs.dynamics.methods.explicit import RK4
from jaxmbs.dynamics.methods.method import AbstractFixedStep
from jaxmbs.dynamics.named_velocities import contradiction
from jaxmbs.element import require
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.io.driven_motions import motions_of
from jaxmbs.io.files import replace_file
from jaxmbs.io.fmu.description import Description
from jaxmbs.io.fmu.functions import FmuFunctions, VectorForm
from jaxmbs.io.fmu.variables import PLAIN_NAME, check_unique, known_variables, leaf_names, unknown_variables
from jaxmbs.io.models.model import LENGTH_UNITS
from jaxmbs.numerics.arrays import instance_of
from jaxmbs.programs import CSource, PerformanceWarning, ProgramWithFallback
from jaxmbs.system.mechanism import Coordinates, Mechanism, Velocities

# Folder in `binaries` of an FMU, by version of FMI, and by system and processor.
PLATFORMS = {
    "2.0": {("Linux", "x86_64"): "linux64", ("Darwin", "x86_64"): "darwin64", ("Darwin", "arm64"): "darwin64"},
    "3.0": {
        ("Linux", "x86_64"): "x86_64-linux",
        ("Linux", "aarch64"): "aarch64-linux",
        ("Darwin", "x86_64"): "x86_64-darwin",
        ("Darwin", "arm64"): "aarch64-darwin",
    },
}
# Options of the compiler. Without fused multiply-add, results are those of Python up to the functions of math.h.
OPTIONS = ("-std=c99", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off")
# Folder of the C code that is the same in all FMUs.
SOURCES = Path(__file__).parent / "sources"


def export_fmu(
    mech: Mechanism | Callable[[Any], Mechanism],
    file: str | os.PathLike[str],
    *,
    version: str = "2.0",
    guess: Coordinates | None = None,
    v0: Velocities | None = None,
    parameters: Any = None,
    inputs: Sequence[str] = (),
    points: Mapping[str, tuple[str, Sequence[float]]] | None = None,
    step: float = 1e-3,
    method: AbstractFixedStep | None = None,
    formulation: JointCoordinates | None = None,
    unit: str | None = None,
    binary: bool = True,
) -> Path:
    """Write a mechanism as an FMU, for co-simulation and model exchange.

    The FMU has C sources without dependencies, and the library for this machine. Its variables are

    - parameters: the numbers of `parameters`, with names such as "length.crank" or "centre.rod[2]", and the start values
      "start.crank.phi" of the coordinates. They can be set before the initialisation ends; then the FMU assembles the
      mechanism: it finds the configuration nearest to the start values.
    - inputs: value, rate and acceleration of motions, "motor.value", "motor.rate", "motor.acceleration", and arguments of
      forces, "push" or "push.x". They replace the numbers of the model.
    - outputs: "crank.x", "crank.phi" and "der(crank.phi)" of the bodies, "tip.x" and "der(tip.x)" of points, and
      "motor.effort", the force or torque of each driver.
    - states: "joints.A.phi", "rates.A.phi", "states.motor.current". If loops are closed, the states depend on each other:
      derivatives and outputs are those of the nearest closed state.

    A status other than 0 is an error of the FMU, with a message that names it.

    Args:
        mech: the mechanism; or a function of `parameters` that returns it.
        file: the file, which ends in .fmu; its name is that of the model, an identifier of C.
        version: of FMI, "2.0" or "3.0".
        guess: estimate of the configuration at t = 0.
        v0: velocities at t = 0, as for `simulate`. Those that are named are parameters, "start.velocity.crank.phi".
        parameters: values of the parameters, any pytree of real numbers.
        inputs: names of drivers, of joints with motions, and of forces. A joint with several motions has inputs "joint_0",
            "joint_1", …; a force may be followed by an axis, "push.x".
        points: points of bodies whose positions are outputs, by name: {"tip": ("coupler", (0.1, 0.2))}.
        step: largest step in co-simulation. A communication step is divided into equal steps.
        method: method of co-simulation with fixed steps, `RK4()` by default.
        formulation: `JointCoordinates()`, with another tree if you choose one.
        unit: unit of length, "m" unless the mechanism is a `Model` with another one.
        binary: False to leave out the library, and to need no compiler.

    Returns:
        The path of the file.

    Raises:
        ValueError: an unknown name, a name that stands for two variables, an input that is a function in the model, a guess
            that cannot be assembled, motions that determine all joint coordinates of an open chain, single precision, or no
            C compiler.
        ProgramError: a function of yours in the mechanism cannot be written as a list of scalar operations.

    Examples:
        >>> file = mbs.export_fmu(mech, "slider_crank.fmu", guess=guess, inputs=("motor",), binary=False)
        >>> import zipfile
        >>> print(zipfile.ZipFile(file).namelist()[:2])
        ['modelDescription.xml', 'sources/model.h']
    """
    path = Path(file)
    require(path.suffix == ".fmu", f"the file must end in .fmu, got {str(path)!r}")
    name = path.stem
    require(
        PLAIN_NAME.fullmatch(name) and "." not in name, f"the name of an FMU must be an identifier of C, got {name!r}"
    )
    require(version in PLATFORMS, f"version must be one of {', '.join(map(repr, PLATFORMS))}, got {version!r}")
    require(not isinstance(inputs, str), f"inputs must be a tuple of names, such as ({inputs!r},)")
    require(callable(mech) or parameters is None, "parameters need a function that returns the mechanism")
    require(0 < step < np.inf, f"step must be positive, got {step}")
    repeated = sorted({name for name in inputs if list(inputs).count(name) > 1})
    require(not repeated, f"inputs: {', '.join(map(repr, repeated))} is repeated")
    method = instance_of(AbstractFixedStep, "method", method, RK4())
    formulation = instance_of(JointCoordinates, "formulation", formulation, JointCoordinates())
    compiler = _compiler(version) if binary else None

    build = mech if callable(mech) else lambda _: mech
    names = leaf_names(parameters)
    real = jax.tree.map(lambda x: jnp.asarray(x, float), parameters) if callable(mech) else ()
    model = build(real)
    require(model.dtype == np.float64, 'an FMU needs double precision: jax.config.update("jax_enable_x64", True)')
    numbers = [float(x) for leaf in jax.tree.leaves(real) for x in np.ravel(leaf)]
    check_unique(names)
    chosen, length = dict(points or {}), str(unit or getattr(model, "unit", "m"))
    require(length in LENGTH_UNITS, f"unit must be one of {', '.join(LENGTH_UNITS)}, got {length!r}")
    q = assemble(model, guess, throw=True).q
    _check_velocities(model, q, v0)
    known, named, forces = known_variables(
        model, dict(zip(names, numbers, strict=True)), q, v0, inputs, formulation, length
    )
    unknowns = unknown_variables(model, known.states, chosen, length)
    check_unique(x.name for x in (*known.all, *unknowns))
    sizes, motions = tuple(map(len, known)), tuple(name for name in inputs if name in motions_of(model))
    functions = FmuFunctions(
        build, VectorForm.of(real), sizes, named, motions, forces, chosen, method, formulation
    )  # fmt: skip
    values = jnp.array([x.start or 0.0 for x in known.all])
    functions = functions.with_forms(values)
    codes = _codes(functions, values)
    assert functions.scales is not None
    assert functions.carry is not None
    sources = f"fmi{version[0]}.c", *(f"{code.name}.c" for code in codes)
    tool = f"jaxmbs {metadata.version('jaxmbs')}"
    found = Description(
        name, version, tool, sources, known, unknowns, float(step), functions.scales.size, functions.carry.size
    )  # fmt: skip
    return replace_file(path, lambda part: _write(part, found, codes, compiler))


def _check_velocities(mech: Mechanism, q: Array, v0: Velocities | None) -> None:
    """Raise `ValueError` for named velocities that the constraints do not allow."""
    named = mech.named_velocities(v0)
    reason = contradiction(mech, q, jnp.zeros(()), mech.velocities(v0), named) if named else None
    if reason is not None:
        raise ValueError(reason)


def _codes(functions: FmuFunctions, values: Array) -> list[CSource]:
    """Return the functions of the FMU as C."""
    assert functions.scales is not None
    assert functions.carry is not None
    scales, carry, length = jnp.ones(functions.scales.size), jnp.zeros(functions.carry.size), jnp.ones(())
    arguments: dict[str, tuple[Array, ...]] = {
        "start": (values,),
        "close": (values, scales, length),
        "step": (values, scales, carry, length),
        "evaluate": (values, scales),
        "directional": (values, scales, jnp.zeros_like(values)),
    }
    found = []
    for name, given in arguments.items():
        with warnings.catch_warnings():
            # A function that cannot be written as a program is an error here.
            warnings.simplefilter("ignore", PerformanceWarning)
            program = ProgramWithFallback(getattr(functions, name), runs="once").program
            found.append(program.c(*given, name=f"fmu_{name}"))
    return found


def _compiler(version: str) -> list[str]:
    """Return the command of the C compiler, or raise `ValueError` if the library cannot be made here."""
    machine = platform.system(), platform.machine()
    known = PLATFORMS[version]
    require(machine in known, f"binary: a library for {' '.join(machine)} cannot be made; pass binary=False")
    command = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(command[0]) is None:
        raise ValueError(f"binary: there is no C compiler {command[0]!r}; install one, or pass binary=False")
    return command


def _write(path: Path, found: Description, codes: Sequence[CSource], compiler: list[str] | None) -> None:
    """Write the archive; the library is compiled in a temporary folder unless there is no compiler."""
    files = {file: (SOURCES / file).read_text("utf-8") for file in ("instance.h", found.sources[0])}
    for code in codes:
        files |= {f"{code.name}.h": code.header, f"{code.name}.c": code.source}
    # Equal FMUs have equal tokens.
    token = f"{{{uuid.uuid5(uuid.NAMESPACE_OID, repr((found, files)))}}}"
    files = {"model.h": found.header(token), **files}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, tempfile.TemporaryDirectory() as folder:
        archive.writestr("modelDescription.xml", found.xml(token))
        for file, text in files.items():
            Path(folder, file).write_text(text, encoding="utf-8")
            archive.writestr(f"sources/{file}", text)
        if found.version == "3.0":
            archive.writestr("sources/buildDescription.xml", found.build_file())
        if compiler is not None:
            system, machine = platform.system(), platform.machine()
            library = f"{found.name}.{'dylib' if system == 'Darwin' else 'so'}"
            command = [*compiler, *OPTIONS, *found.sources, "-o", library, "-lm"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            require(done.returncode == 0, f"the C compiler {compiler[0]} failed: {done.stderr[-1000:]}")
            archive.write(Path(folder, library), f"binaries/{PLATFORMS[found.version][system, machine]}/{library}")
