"""Names of statuses."""

from __future__ import annotations

from collections.abc import Mapping

from jaxmbs.numerics.results import Status


def counts_by_name(counts: Mapping[int, int]) -> dict[str, int]:
    """Return the number of samples of each status by its name, successful ones first.

    Args:
        counts: number of samples for each value of `mbs.Status`.

    Returns:
        number of samples for each name.

    Examples:
        >>> from jaxmbs.sweeps.status import counts_by_name
        >>> counts_by_name({3: 2, 0: 98})
        {'CONVERGED': 98, 'LOCKED_UP': 2}
    """
    known = {int(x): x.name for x in Status}
    return {known.get(code, str(code)): counts[code] for code in sorted(counts)}
