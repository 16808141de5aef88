"""A long search in phases, which reports its progress, keeps it in a file, and resumes from there."""

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
from jax.typing import ArrayLike

from jaxmbs.programs import gather

# Called with (steps done, steps in all, least error so far). `jaxmbs.viz.progress_bar` makes one that draws on the screen.
ProgressCallback = Callable[[int, int, float], None]


class SearchOptions(NamedTuple):
    """Options of a search.

    Attributes:
        starts: number of starts.
        seed: seed of the random numbers.
        keep: number of results.
        progress: called every few steps; its method `close`, if it has one, at the end.
        resume: a file in which the carry is saved at every report. If it exists, the search goes on from it and gives the
            same result as without the break.
    """

    starts: int
    seed: int
    keep: int
    progress: ProgressCallback | None = None
    resume: str | os.PathLike[str] | None = None

    @classmethod
    def from_arguments(
        cls,
        starts: Any,
        seed: Any,
        keep: Any,
        progress: ProgressCallback | None = None,
        resume: str | os.PathLike[str] | None = None,
    ) -> SearchOptions:
        """Check a user's options.

        Returns:
            The options.

        Raises:
            ValueError: the number of starts or of results is not positive; the seed is negative.
        """
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ValueError(f"seed must be an integer that is not negative, got {seed!r}")
        return cls(positive_integer("starts", starts), int(seed), positive_integer("keep", keep), progress, resume)

    @property
    def rng(self) -> np.random.Generator:
        """A new generator of random numbers from the seed."""
        return np.random.default_rng(self.seed)


class SearchPhase(NamedTuple):
    """One phase of a search.

    Attributes:
        steps: number of steps.
        steps_per_report: number of steps between two reports.
        advance: (carry, count) ↦ the carry `count` steps later.
        select: carry at the end of the phase before ↦ carry with which this one begins.
    """

    steps: int
    steps_per_report: int
    advance: Callable[[Any, int], Any]
    select: Callable[[Any], Any] = lambda carry: carry


def run_phases(
    phases: Sequence[SearchPhase],
    carry: Any,
    options: SearchOptions,
    *,
    least_error: Callable[[Any], float],
    task: Any = (),
) -> Any:
    """Run all phases of a search and return the last carry, a tree of arrays on which all further steps depend.

    Args:
        phases: the phases in their order.
        carry: before the first step.
        options: of the search; progress and resume are used here.
        least_error: carry ↦ the least error in it, for the reports.
        task: a tree of arrays and strings that identifies the search: a file of another task raises ValueError.

    Returns:
        The carry after all phases.
    """
    progress, path = options.progress, None if options.resume is None else Path(options.resume)
    total = sum(phase.steps for phase in phases)
    task_hash = fingerprint((task, [phase.steps for phase in phases]))
    first, done = 0, 0
    # All processes of a distributed run do the same; only one of them reports and writes.
    first_process = jax.process_index() == 0
    if path is not None and path.exists():
        first, done, carry = _load_carry(path, task_hash, jax.tree.structure(carry))
    try:
        for k, phase in list(enumerate(phases))[first:]:
            if k > first or not done:
                carry, done = phase.select(carry), 0
            while done < phase.steps:
                count = min(phase.steps_per_report, phase.steps - done)
                carry = gather(phase.advance(carry, count))
                done += count
                if path is not None and first_process:
                    _save_carry(path, task_hash, (k, done), carry)
                if progress is not None and first_process:
                    progress(sum(earlier.steps for earlier in phases[:k]) + done, total, float(least_error(carry)))
    finally:
        close = getattr(progress, "close", None)
        if close is not None:
            close()
    return carry


def fingerprint(task: Any) -> str:
    """Return a hash of the arrays and strings of a tree: equal tasks have equal ones."""
    leaves, structure = jax.tree.flatten(task)
    digest = hashlib.sha256(str(structure).encode())
    for leaf in leaves:
        array = np.asarray(leaf)
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.tobytes() if array.dtype.kind != "O" else str(leaf).encode())
    return digest.hexdigest()


def rounded_text(values: ArrayLike) -> str:
    """Return numbers as text with five digits, the same on every machine, to identify the function they come from."""
    return " ".join(f"{x:.5g}" for x in np.round(np.ravel(np.asarray(values, float)), 9) + 0.0)


def _save_carry(path: Path, task_hash: str, done: tuple[int, int], carry: Any) -> None:
    """Write a carry to a new file and rename it, so that a break never leaves half a file."""
    leaves = {f"leaf_{k}": leaf for k, leaf in enumerate(jax.tree.leaves(carry))}
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        np.savez(file, head=np.array(json.dumps({"task": task_hash, "done": done})), **leaves)
    part.replace(path)


def _load_carry(path: Path, task_hash: str, structure: Any) -> tuple[int, int, Any]:
    """Return the number of the phase, its steps done, and the carry with this tree structure, from the file of a task."""
    try:
        with np.load(path, allow_pickle=False) as file:
            head = json.loads(str(file["head"]))
            leaves = [file[f"leaf_{k}"] for k in range(structure.num_leaves)]
            (phase, done), is_same = head["done"], head["task"] == task_hash
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} holds no search that could be resumed") from error
    if not is_same:
        raise ValueError(f"{path} belongs to a search with other arguments; remove it, or give another file")
    return phase, done, jax.tree.unflatten(structure, leaves)


def positive_integer(name: str, value: Any) -> int:
    """Return an argument that is a number of things, an integer of at least one; `name` is for the error."""
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(value)
