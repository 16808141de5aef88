"""Stores of parts of a sweep, from several machines, as one."""

from __future__ import annotations

import os
from collections.abc import Sequence

from jaxmbs.sweeps.parts import content_of, missing, written_whole
from jaxmbs.sweeps.results import Results
from jaxmbs.sweeps.store import Store


def merge(stores: Sequence[str | os.PathLike[str]], store: str | os.PathLike[str]) -> Results:
    """The parts of several stores of one sweep in one, which may be new or one of them.

    Args:
        stores: folders, such as those of the shards of a job array. They stay as they are.
        store: the folder for all.

    Returns:
        the `Results` of all; `missing` says what is not there yet.

    Raises:
        ValueError: stores of different sweeps, or a part that is damaged.

    Examples:
        >>> designs = {"x": np.arange(6.0)}
        >>> for k in (1, 2):
        ...     _ = mbs.sweep(jnp.sin, np.arange(6.0), store=f"sines-{k}", shard=(k, 2), progress=False)
        >>> mbs.sweeps.merge(["sines-1", "sines-2"], "sines")
        Results('sines', 6 of 6 samples)
    """
    if not stores:
        raise ValueError("there are no stores to merge")
    opened = [Store(folder) for folder in stores]
    for one in opened:
        one.check(opened[0].manifest)
    whole = Store.opened(store, opened[0].manifest)
    with whole.written(0, whole.size):
        whole.remove_damaged(0, whole.size)
        for one in opened:
            there = whole.parts()
            for part in one.parts():
                if missing(there, part.start, part.stop):
                    written_whole(whole.folder / part.path.name, content_of(part))
    return Results(whole.folder)
