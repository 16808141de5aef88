"""Merging of several stores of one sweep, such as those of its shards."""

from __future__ import annotations

import os
from collections.abc import Sequence

from jaxmbs.sweeps.parts import content_of, missing_ranges, write_atomically
from jaxmbs.sweeps.results import Results
from jaxmbs.sweeps.store import Store


def merge(stores: Sequence[str | os.PathLike[str]], store: str | os.PathLike[str]) -> Results:
    """Copy the parts of several stores of one sweep into one store, which may be new or one of them.

    Args:
        stores: folders, such as those of the shards of a job array. They are not changed.
        store: folder of the merged store.

    Returns:
        the `Results` of the merged store; `missing` holds the ranges of samples that no store has.

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
        raise ValueError("stores is empty: give at least one folder to merge")
    sources = [Store(folder) for folder in stores]
    for source in sources:
        source.check(sources[0].manifest)
    target = Store.open_or_create(store, sources[0].manifest)
    with target.write_lock(0, target.size):
        target.remove_damaged(0, target.size)
        for source in sources:
            present = target.parts()
            for part in source.parts():
                if missing_ranges(present, part.start, part.stop):
                    write_atomically(target.folder / part.path.name, content_of(part))
    return Results(target.folder)
