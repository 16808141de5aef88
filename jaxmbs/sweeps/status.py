"""Names of statuses."""

from __future__ import annotations

from collections.abc import Mapping

from jaxmbs.numerics.results import Status


def named(counts: Mapping[int, int]) -> dict[str, int]:
    """How many samples ended how, by name, those that went well first.

    Examples:
        >>> from jaxmbs.sweeps.status import named
        >>> named({3: 2, 0: 98})
        {'CONVERGED': 98, 'LOCKED_UP': 2}
    """
    known = {int(x): x.name for x in Status}
    return {known.get(code, str(code)): counts[code] for code in sorted(counts)}
