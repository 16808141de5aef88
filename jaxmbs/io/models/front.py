"""Reading and writing of models: the suffix of the path chooses the format."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from jaxmbs.io.files import write_text
from jaxmbs.io.models.model import Model, ModelError, model_of
from jaxmbs.io.models.options import ReadOptions
from jaxmbs.system.mechanism import Coordinates, Mechanism, Velocities

# Larger files are refused: models are far smaller, and a larger file is an accident or an attack.
MAX_FILE_BYTES = 32 * 2**20


def load(
    path: str | PathLike[str],
    *,
    strict: bool = False,
    ignore: Sequence[str] = (),
    loops: Mapping[str, Any] | Sequence[tuple[str, Any]] = (),
    allow: Sequence[str] = (),
    base: str | None = None,
) -> Model:
    """Read a mechanism from a file.

    Formats are `.json` (format of jaxmbs), `.xml` or `.mjcf` (MJCF), `.urdf`, `.sdf`, `.asmt` or `.FCStd` (FreeCAD).

    Nothing in a file is executed. No file outside its folder is opened unless `allow` names its folder. MJCF needs the
    package `mujoco`. A warning says which elements of the file are passed over.

    Args:
        path: the file.
        strict: for all formats except JSON: if True, elements that cannot be represented are errors. Otherwise they are
            passed over, and `.passed_over` of the model lists them.
        ignore: for all formats except JSON: tags such as "actuator" or "range" of elements to leave out without mention.
        loops: for URDF, which describes trees only, and SDF: the joints that close loops by name, as a mapping or pairs:
            constraints, or the names of two frames and maybe "ball" (unless given), "hinge", "slide" or "rigid", such
            as ("closing_1", "closing_2", "hinge"). Links and joints of the file are frames.
        allow: folders outside that of the file, relative to it, such as "../meshes", in which files may be read.
        base: for URDF and SDF: "fixed" connects the root of the robot with the ground, "free" lets it move.

    Returns:
        a `Model`: a `Mechanism` with `.guess`, `.velocity`, `.name`, `.limits` and `.passed_over`.

    Raises:
        ModelError: no such file, not a known format, too large, malformed, or an element that cannot be represented.

    Examples:
        >>> path = mbs.save(mech, "slider_crank.json", guess=guess)
        >>> list(mbs.load(path).constraints)
        ['O', 'A', 'B', 'guide']
    """
    path = Path(path)
    ignore, allow = ((given,) if isinstance(given, str) else tuple(given) for given in (ignore, allow))
    if base not in (None, "fixed", "free"):
        raise ModelError(f'base must be "fixed" or "free", got {base!r}')
    options = ReadOptions(strict, ignore, loops, allow, base)
    reader = _format(path)[0]
    try:
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        raise ModelError(f"{path.name}: {getattr(error, 'strerror', None) or error}") from None
    if not path.is_file():
        raise ModelError(f"{path.name}: is a folder, not a file")
    if size > MAX_FILE_BYTES:
        raise ModelError(f"{path.name}: has {size} bytes; models of more than {MAX_FILE_BYTES} bytes are refused")
    try:
        model = reader(path, options)
    except ModelError as error:
        raise ModelError(f"{path.name}: {error}") from None
    except RecursionError:
        raise ModelError(f"{path.name}: is nested too deeply") from None
    except (ValueError, OSError, OverflowError) as error:
        raise ModelError(f"{path.name}: {one_line(error)}") from None
    if model.passed_over:
        warnings.warn(f"{path.name}: passed over: {'; '.join(model.passed_over)}", stacklevel=2)
    return model


def save(
    mech: Mechanism,
    path: str | PathLike[str],
    *,
    guess: Coordinates | None = None,
    velocities: Velocities | None = None,
    name: str | None = None,
) -> Path:
    """Write a mechanism to a file: `.json`, `.xml` or `.mjcf`, `.urdf`.

    From JSON `load` gives the same mechanism, number for number. Functions of the user are written as lists of scalar
    operations. URDF describes trees; the joints that close loops are written to a file `.yaml` beside it. If a part
    cannot be written, no file is written.

    Args:
        mech: the mechanism, with concrete numbers.
        path: the file; its suffix names the format.
        guess: a configuration to start from; by default that of a `Model`.
        velocities: velocities at this configuration; by default those of a `Model`.
        name: name of the model.

    Returns:
        the path.

    Raises:
        ModelError: an unknown suffix, or an element that the format cannot represent, with its name.

    Examples:
        >>> mbs.save(pendulum, "pendulum.json", guess=below).name
        'pendulum.json'
    """
    path = Path(path)
    writer = _format(path)[1]
    if writer is None:
        raise ModelError(f"{path.name}: this format can only be read; write .json, .xml, .mjcf or .urdf")
    try:
        written = writer(model_of(mech, guess, velocities, name))
    except ValueError as error:
        raise ModelError(f"{path.name}: {one_line(error)}") from None
    text, beside = (written, {}) if isinstance(written, str) else written
    for suffix, more in beside.items():
        write_text(path.with_suffix(suffix), more)
    return write_text(path, text)


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line."""
    return " ".join(str(error).split())


def _format(path: Path) -> tuple[Callable, Callable | None]:
    """Return the reader and the writer for the suffix of a path."""
    match path.suffix.lower():
        case ".json":
            from jaxmbs.io.models.json_format.document import read_json, write_json

            return read_json, write_json
        case ".xml" | ".mjcf":
            from jaxmbs.io.models.mjcf import read_mjcf, write_mjcf

            return read_mjcf, write_mjcf
        case ".urdf":
            from jaxmbs.io.models.urdf import read_urdf, write_urdf

            return read_urdf, write_urdf
        case ".sdf":
            from jaxmbs.io.models.sdf import read_sdf

            return read_sdf, None
        case ".asmt" | ".fcstd":
            from jaxmbs.io.models.freecad import read_asmt, read_fcstd

            return read_asmt if path.suffix.lower() == ".asmt" else read_fcstd, None
    raise ModelError(f"{path.name}: the name of a model must end in .json, .xml, .mjcf, .urdf, .sdf, .asmt or .FCStd")
