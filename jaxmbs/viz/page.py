"""Web pages that play an animation in any browser, without a server."""

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
    """An animation as a web page, which notebooks show.

    The page contains each shape once, in the frame of its body, and the poses of the bodies in all frames.

    Attributes:
        scene: the shapes.
        times: time of each frame, (F,).
        curves: (body, points (F, d)), drawn in the colour of the body.
        fps: frames per second.
        width: width of the picture in pixels.
        title: a heading.
        template: file beside this module with the page without its data.
        library: file beside this module with a script that the page needs, or "".
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
        """Return the data that the page draws, as dicts, lists, numbers and texts that JSON can hold."""

    @property
    @abc.abstractmethod
    def height(self) -> float:
        """Height of the picture in a notebook, in pixels."""

    @cached_property
    def html(self) -> str:
        """Text of the page."""
        read = lambda name: files("jaxmbs.viz").joinpath(name).read_text(encoding="utf-8")
        # No "<" in the data, or it could end the script element.
        data = json.dumps(self.film(), separators=(",", ":")).replace("<", "\\u003c")
        # The placeholders are replaced before the data are inserted, which may contain the same text.
        head, _, tail = read(self.template).rpartition('<script id="library"></script>')
        library = f"<script>{read(self.library)}</script>" if self.library else ""
        return head + library + tail.replace("{}</script>", data + "</script>", 1)

    def write(self, path: Path) -> None:
        """Write the page to a file."""
        path.write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        """Return the page in a frame of its height, which notebooks show for the player."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="{self.height + 110:.0f}" '
            'style="border:0"></iframe>'
        )
