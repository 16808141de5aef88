"""Options of reading a model, which `load` gives to the readers of all formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxmbs.io.models.model import ModelError


class ReadOptions(NamedTuple):
    """Options of `load`.

    Attributes:
        strict: True if elements that cannot be represented are errors; otherwise they are passed over.
        ignore: tags of elements that are left out even if they could be represented.
        loops: constraints by name that close loops, for formats that describe trees.
        allow: folders outside that of the file, relative to it, in which files may be read.
        base: "fixed" or "free" to hold or to release the base of a robot; None for the format's own rule.
    """

    strict: bool = False
    ignore: tuple[str, ...] = ()
    loops: Mapping[str, Any] | Sequence[tuple[str, Any]] = ()
    allow: tuple[str, ...] = ()
    base: str | None = None

    def refuse_loops_and_base(self, instead: str) -> None:
        """Raise `ModelError` if `loops` or `base` is given; the message ends with a clause that says what to do instead."""
        for name, given in (("loops", self.loops), ("base", self.base)):
            if given:
                raise ModelError(f"{name}: only for URDF and SDF; {instead}")
