"""Files of trajectories: arrays in the format of NumPy (.npz), without pickle, and the mechanism as JSON."""

from __future__ import annotations

import json
import warnings
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmbs.io.files import replace_file
from jaxmbs.io.models.json_format.document import model_from, parse, write_json
from jaxmbs.io.models.json_format.elements import SPACES, types_of
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.numerics.results import check_outside
from jaxmbs.system.broadcast_tree import BroadcastTree, pack
from jaxmbs.system.equations import Energy
from jaxmbs.system.layout import Layout
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

# Name of the format in the head of a trajectory file.
FORMAT = "jaxmbs trajectory"
# Version of the format of trajectory files, which changes with the layout of the file.
VERSION = 1
# Fields of a trajectory that its file holds as arrays of the same name.
ARRAYS = ("t", "q", "v", "a", "status", "multipliers", "states")


def save_trajectory(run: Trajectory, path: str | PathLike[str]) -> Path:
    """Write a trajectory; see `Trajectory.save`."""
    path = Path(path)
    _check_suffix(path)
    check_outside("save", "return the trajectory and save it there", run)
    arrays = {name: np.asarray(getattr(run, name)) for name in ARRAYS if getattr(run, name) is not None}
    if run.energy is not None:
        arrays |= {name: np.asarray(part) for name, part in run.energy._asdict().items()}
    head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "layout": _json_of_layout(run.layout)}
    head["state_names"] = list(run.state_names)
    if run.mechanism is not None:
        try:
            head["mechanism"], head["precision"], numbers = _document(run.mechanism, np.ndim(run.t))
            arrays |= {} if numbers is None else {"numbers": numbers}
        except ValueError as error:
            warnings.warn(
                f"{path.name}: the mechanism is left out: {error}; after loading, use load_trajectory(…).of(mech)",
                stacklevel=3,
            )
    arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    return replace_file(path, lambda part: _write_arrays(part, arrays))


def load_trajectory(path: str | PathLike[str]) -> Trajectory:
    """Read a trajectory that `Trajectory.save` has written. Nothing in the file is executed.

    Args:
        path: the file, which ends in `.npz`.

    Returns:
        a `Trajectory` with the arrays, names, status, energy, multipliers and states that were saved; and with its
        mechanism, for `joint` and `explain_failure`, unless `save` left it out with a warning.

    Raises:
        ValueError: no such file, or not a trajectory of jaxmbs.

    Examples:
        >>> path = mbs.kinematics(mech, jnp.array([0.0, 1.0]), guess).save("motion.npz")
        >>> mbs.load_trajectory(path).position("slider.x").round(3)
        Array([3.   , 2.355], dtype=float64)
    """
    path = Path(path)
    _check_suffix(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        head = json.loads(arrays.pop("head").tobytes())
        if (head["format"], head["version"]) != (FORMAT, VERSION):
            raise ValueError(f"version {head['version']!r} of {head['format']!r} is not known")
        return _trajectory(head, arrays)
    except OSError as error:
        raise ValueError(f"{path.name}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path.name}: is not a trajectory of jaxmbs ({error})") from None


def _trajectory(head: dict, arrays: dict[str, np.ndarray]) -> Trajectory:
    """Return the trajectory of a head and arrays from a file."""
    found = {name: jnp.asarray(arrays[name]) for name in ARRAYS if name in arrays}
    parts = [jnp.asarray(arrays[name]) for name in Energy._fields if name in arrays]
    kept, layout = None, _layout(head["layout"])
    if "mechanism" in head:
        lead = arrays["t"].shape
        kept = _mechanism_of_samples(_geometry(head["mechanism"], head["precision"]), arrays.get("numbers"), lead)
    energy = Energy(*parts) if parts else None
    return Trajectory(**found, layout=layout, energy=energy, mechanism=kept, state_names=tuple(head["state_names"]))


def _document(kept: BroadcastTree, axes: int) -> tuple[dict, str, np.ndarray | None]:
    """Return the mechanism of the first sample as JSON, its floating-point type, and the numbers of all samples.

    `axes` is the number of axes of samples and times. The numbers are None if they are equal in all samples.

    Raises:
        ModelError: the mechanism cannot be written.
    """
    geometry = kept.at_index((0,) * axes)
    if geometry is None:
        raise ModelError("its tables were traced, and their numbers are lost")
    bodies = {name: kind() for name, kind in geometry.layout.bodies}
    document = json.loads(write_json(Model(bodies, geometry.constraints, geometry.drivers)))
    precision = str(np.dtype(geometry.dtype))
    (numbers,), _ = kept.tree_flatten()
    numbers = np.asarray(numbers)
    for axis in range(axes):
        first = numbers.take([0], axis)
        numbers = first if np.array_equal(np.broadcast_to(first, numbers.shape), numbers) else numbers
    if numbers.shape[:-1] == (1,) * axes:
        return document, precision, None
    again = pack(_geometry(document, precision))[1]
    if not np.array_equal(again, numbers[(0,) * axes]):
        raise ModelError(
            "its functions hold numbers that differ between samples, but a document has one value for each"
        )
    return document, precision, numbers


def _geometry(document: dict, precision: str) -> Mechanism:
    """Return the mechanism of a JSON document with its numbers in the floating-point type `precision`."""
    return model_from(parse(json.dumps(document))).geometry.astype(precision)


def _mechanism_of_samples(geometry: Mechanism, numbers: np.ndarray | None, lead: tuple[int, ...]) -> BroadcastTree:
    """Return the mechanism of a trajectory with the axes `lead`; `numbers` are those of all samples if they differ."""
    if numbers is None:
        return BroadcastTree(geometry, lead)
    packing = pack(geometry)[0]
    if numbers.shape[-1] != packing.size:
        raise ValueError(f"its mechanism has {packing.size} numbers, got {numbers.shape[-1]}")
    return BroadcastTree.tree_unflatten(packing, (np.broadcast_to(numbers, (*lead, packing.size)),))


def _json_of_layout(layout: Layout) -> dict[str, Any]:
    """Return a layout as JSON; raise `ValueError` for bodies with a class of the user."""
    space = next((space for space in SPACES if getattr(SPACES[space].Body, "dimension", 0) == layout.dimension), "")
    known = types_of("body", space)
    for name, kind in layout.bodies:
        if known.get(kind.__name__) is not kind:
            raise ValueError(f"body {name!r}: {kind.__name__} is not a type of jaxmbs, and cannot be saved")
    groups = {"constraints": layout.constraints, "drivers": layout.drivers}
    rows = {key: [[name, count, list(extra)] for name, count, extra in group] for key, group in groups.items()}
    return {"space": space, "bodies": [[name, kind.__name__] for name, kind in layout.bodies], **rows}


def _layout(described: dict[str, Any]) -> Layout:
    """Return a layout from JSON."""
    kinds = types_of("body", described["space"])
    bodies = tuple((str(name), kinds[kind]) for name, kind in described["bodies"])
    groups = (described[key] for key in ("constraints", "drivers"))
    return Layout(bodies, *(tuple((str(name), int(rows), tuple(extra)) for name, rows, extra in x) for x in groups))


def _check_suffix(path: Path) -> None:
    """Raise `ValueError` unless the name ends in .npz."""
    if path.suffix.lower() != ".npz":
        raise ValueError(f"{path.name}: the name of a trajectory must end in .npz")


def _write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a file of any name."""
    with path.open("wb") as file:
        np.savez(file, **arrays)
