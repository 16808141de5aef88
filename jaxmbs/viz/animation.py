"""Moving pictures: GIF, MP4, or a web page that plays by itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory
from jaxmbs.viz.pictures import add_artists, curve, good_rows
from jaxmbs.viz.player import Player
from jaxmbs.viz.scene import Marked, Scene
from jaxmbs.viz.shapes import CURVE_LAYER
from jaxmbs.viz.style import tidy

DOTS_PER_INCH = 80
# Of a GIF: flat faces and the steps between them need few.
COLOURS = 48


def animate(
    mech: Mechanism,
    trajectory: Trajectory,
    path=None,
    *,
    traces: Marked = (),
    fps: float = 25,
    width: float = 6.0,
    size: float = 1.0,
    title: str | None = None,
):
    """Write the motion of a planar mechanism as a moving picture, one frame per time, and return the path.

    The suffix says which: `.gif`; `.mp4`, for which ffmpeg has to be installed; `.html`, a page with a slider and a
    play button that needs nothing but a browser. Without a path it returns the page as an object that notebooks show.

    Args:
        trajectory: one motion; times at which it failed are left out.
        traces: ("coupler", (x, y)), …: points whose curves are drawn.
        fps: frames per second.
        width: of the picture in inches, at 80 dots per inch.
        size: of the symbols, 1 by default.
        title: a heading.
    """
    if np.ndim(trajectory.t) != 1:
        raise ValueError("animate shows one motion; pick one of the batch: jax.tree.map(lambda x: x[k], trajectory)")
    good = good_rows(trajectory)
    if not good.any():
        raise ValueError("there is nothing to show: the motion failed at all times")
    times = np.asarray(trajectory.t)[good]
    scene = Scene(mech, np.asarray(trajectory.q)[good], times[0], marked=traces, size=size)
    curves = [(body, curve(trajectory, body, point)[good]) for body, point in traces]
    player = Player(scene, times, curves, fps=fps, width=width * DOTS_PER_INCH, title=title)
    if path is None:
        return player
    path = Path(path)
    films = {".gif": _gif, ".mp4": _mp4}
    suffix = path.suffix.lower()
    if suffix not in (".html", *films):
        raise ValueError(f"cannot write {path.name!r}: the name must end in .gif, .mp4 or .html")
    path.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".html":
        player.write(path)
    else:
        films[suffix](_Film(scene, curves, width, title), path, fps)
    return path


class _Film:
    """The frames of an animation in matplotlib. What does not move is drawn once."""

    def __init__(self, scene: Scene, curves, width: float, title: str | None):
        lower, upper = scene.limits()
        span = upper - lower
        height = float(np.clip(width * span[1] / span[0], width / 3, 1.5 * width)) + (0.3 if title else 0)
        self.figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained")
        self.canvas = FigureCanvasAgg(self.figure)
        ax = self.figure.add_subplot()
        tidy(ax, equal=True)
        ax.set(xlim=(lower[0], upper[0]), ylim=(lower[1], upper[1]))
        if title:
            ax.set_title(title, fontsize=10)
        for body, points in curves:
            ax.plot(*points.T, color=scene.colours[body], linewidth=1.4, alpha=0.8, zorder=2 + CURVE_LAYER)
        self.ax = ax
        self.moving = []
        for artist, shape in add_artists(ax, scene):
            places = shape.world(scene.poses)
            artist.set_xy(places[0])
            if np.ptp(places, axis=0).any():
                self.moving.append((artist, places))
        self.count = len(next(iter(scene.poses.values()))[1])

    def __iter__(self):
        """The frames as arrays (height, width, 4) of bytes; each is good until the next."""
        for artist, _ in self.moving:
            artist.set_animated(True)
        self.canvas.draw()
        background = self.canvas.copy_from_bbox(self.figure.bbox)
        for k in range(self.count):
            self.canvas.restore_region(background)
            for artist, places in self.moving:
                artist.set_xy(places[k])
                self.ax.draw_artist(artist)
            yield np.asarray(self.canvas.buffer_rgba())


def _gif(film: _Film, path: Path, fps: float) -> None:
    """One palette for all frames, the commonest colours: a palette per frame flickers and takes more room."""
    weights = np.array([1 << 16, 1 << 8, 1])
    packed = [frame[..., :3] @ weights for frame in film]
    colours, counts = np.unique(np.stack(packed[:: max(len(packed) // 4, 1)]), return_counts=True)
    unpack = lambda values: values[:, None] // weights % 256
    palette = unpack(colours[np.argsort(-counts)[:COLOURS]])
    frames = []
    for pixels in packed:
        own, where = np.unique(pixels, return_inverse=True)
        nearest = np.argmin(((unpack(own)[:, None] - palette) ** 2).sum(-1), axis=1).astype(np.uint8)
        frames.append(Image.fromarray(nearest[where].reshape(pixels.shape)))
        frames[-1].putpalette(palette.astype(np.uint8).tobytes())
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=round(1000 / fps), loop=0, optimize=False)


def _mp4(film: _Film, path: Path, fps: float) -> None:
    if shutil.which("ffmpeg") is None:
        raise RuntimeError(f"writing {path.name!r} needs ffmpeg, which is not installed; .gif and .html do without")
    width, height = film.canvas.get_width_height()
    source = ["-f", "rawvideo", "-pix_fmt", "rgba", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    # Most players want even sizes and this pixel format.
    target = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white", "-pix_fmt", "yuv420p", str(path)]
    frames = b"".join(frame.tobytes() for frame in film)
    subprocess.run(["ffmpeg", "-y", "-loglevel", "error", *source, *target], input=frames, check=True)
