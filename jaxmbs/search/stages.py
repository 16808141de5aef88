"""A long search in stages: what it has reached is told, kept in a file, and taken up again from there."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmbs.programs.sharding import gathered

# report(steps done, steps in all, least error so far). `jaxmbs.viz.progress_bar` draws one on the screen.
Report = Callable[[int, int, float], None]


class Part(NamedTuple):
    """One part of a search.

    Attributes:
        steps: their number. at_once: steps of one call. advance: (state, count) ↦ the state `count` steps later.
        select: the state of the part before ↦ the state with which this one begins.
    """

    steps: int
    at_once: int
    advance: Callable[[Any, int], Any]
    select: Callable[[Any], Any] = lambda state: state


def in_stages(
    parts: Sequence[Part],
    state: Any,
    *,
    best: Callable[[Any], float],
    progress: Report | None = None,
    resume: str | os.PathLike | None = None,
    task: Any = (),
) -> Any:
    """The state, a tree of arrays on which all further steps depend, after all parts of a search.

    Args:
        best: state ↦ the least error in it.
        progress: called after every stage; its `close`, if it has one, at the end.
        resume: a file in which the state is kept after every stage. If it is there, the search goes on from it and gives
            what it would have given without the break.
        task: a tree of arrays and strings that says what is asked for: a file of another task is refused.

    Raises:
        ValueError: the file belongs to another task, or is not one of these.
    """
    path, total = None if resume is None else Path(resume), sum(part.steps for part in parts)
    mark = fingerprint((task, [part.steps for part in parts]))
    first, done = 0, 0
    # Of several processes, which all do the same, one tells of it.
    first_process = jax.process_index() == 0
    if path is not None and path.exists():
        first, done, state = _loaded(path, mark, jax.tree.structure(state))
    try:
        for k, part in list(enumerate(parts))[first:]:
            if k > first or not done:
                state, done = part.select(state), 0
            while done < part.steps:
                count = min(part.at_once, part.steps - done)
                state = gathered(part.advance(state, count))
                done += count
                if path is not None and first_process:
                    _saved(path, mark, (k, done), state)
                if progress is not None and first_process:
                    progress(sum(before.steps for before in parts[:k]) + done, total, float(best(state)))
    finally:
        close = getattr(progress, "close", None)
        if close is not None:
            close()
    return state


def fingerprint(task: Any) -> str:
    """A number that says whether two tasks are the same."""
    leaves, structure = jax.tree.flatten(task)
    digest = hashlib.sha256(str(structure).encode())
    for leaf in leaves:
        array = np.asarray(leaf)
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.tobytes() if array.dtype.kind != "O" else str(leaf).encode())
    return digest.hexdigest()


def told(values) -> str:
    """Numbers to a few digits: what is left of a function's values on every machine, to tell one function from another."""
    return " ".join(f"{x:.5g}" for x in np.round(np.ravel(np.asarray(values, float)), 9) + 0.0)


def _saved(path: Path, mark: str, done: tuple[int, int], state: Any) -> None:
    """Written beside and then moved, so that a break never leaves half a file."""
    leaves = {f"leaf_{k}": leaf for k, leaf in enumerate(jax.tree.leaves(state))}
    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as file:
        np.savez(file, head=np.array(json.dumps({"task": mark, "done": done})), **leaves)
    beside.replace(path)


def _loaded(path: Path, mark: str, structure) -> tuple[int, int, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            head = json.loads(str(file["head"]))
            leaves = [file[f"leaf_{k}"] for k in range(structure.num_leaves)]
            (part, done), same = head["done"], head["task"] == mark
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} holds no search that could be resumed") from error
    if not same:
        raise ValueError(f"{path} belongs to a search with other arguments; remove it, or give another file")
    return part, done, jax.tree.unflatten(structure, leaves)
