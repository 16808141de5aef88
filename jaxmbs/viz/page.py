"""A page that plays an animation in any browser, without a server."""

from __future__ import annotations

import abc
import dataclasses
import html
import json
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import numpy as np


@dataclasses.dataclass(frozen=True)
class AbstractPlayer(abc.ABC):
    """An animation as a page: `html` is its text, and notebooks show it.

    The page holds every shape once, in its body's frame, and the poses of the bodies in all frames.

    Attributes:
        template, library: files beside this module: the page without its data, and a script that it needs, if any.
        curves: (body, points (F, d)) to be drawn in the body's colour.
        width: of the picture in pixels.
    """

    scene: Any
    times: np.ndarray
    curves: list[tuple[str, np.ndarray]]
    fps: float
    width: float
    title: str | None = None

    template: ClassVar[str]
    library: ClassVar[str] = ""

    @abc.abstractmethod
    def film(self) -> dict:
        """All that the page draws, as JSON knows it."""

    @property
    @abc.abstractmethod
    def height(self) -> float:
        """Of the picture in a notebook, in pixels."""

    @cached_property
    def html(self) -> str:
        """The page."""
        read = lambda name: files("jaxmbs.viz").joinpath(name).read_text(encoding="utf-8")
        # "<" must not end the script element that holds the data.
        data = json.dumps(self.film(), separators=(",", ":")).replace("<", "\\u003c")
        # The library last: what stands in the data is not to be taken for its place.
        head, _, tail = read(self.template).rpartition('<script id="library"></script>')
        library = f"<script>{read(self.library)}</script>" if self.library else ""
        return head + library + tail.replace("{}</script>", data + "</script>", 1)

    def write(self, path: Path) -> None:
        """Write the page to a file."""
        path.write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="{self.height + 110:.0f}" '
            'style="border:0"></iframe>'
        )
