"""Moving pictures: GIF, MP4, or a web page that plays by itself."""

from __future__ import annotations

import shutil
import subprocess
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory
from jaxmbs.viz.attachments import Marked
from jaxmbs.viz.dimension import kit, scene_of
from jaxmbs.viz.glb import write_glb
from jaxmbs.viz.mesh_scene import configurations, curves_of, mesh_scene
from jaxmbs.viz.pictures import converged_times, curve
from jaxmbs.viz.style import DOTS_PER_INCH


def animate(
    mech: Mechanism,
    trajectory: Trajectory,
    path: str | PathLike[str] | None = None,
    *,
    traces: Marked = (),
    fps: float = 25,
    width: float = 6.0,
    size: float = 1.0,
    title: str | None = None,
    view: tuple[float, float] | None = None,
) -> Any:
    """Write the motion of a mechanism as a moving picture, with one frame per time.

    The suffix of the path chooses the format: `.gif`; `.mp4`, which needs ffmpeg; `.html`, a page with a slider and a
    play button that needs only a browser; `.glb`, binary glTF with a node for each body, for programs that show scenes in
    space, where planar linkages are plates in layers.

    Args:
        mech: the mechanism.
        trajectory: one motion; times at which it failed are left out.
        path: the file; none by default.
        traces: ("coupler", (x, y)), …, in space (x, y, z): points whose curves are drawn.
        fps: frames per second; a `.glb` has the times of the motion, in seconds.
        width: width of the picture in inches, at 80 dots per inch.
        size: size of the symbols, 1 by default.
        title: a heading.
        view: for a spatial mechanism, elevation and azimuth of the camera in degrees; see `draw`.

    Returns:
        the path; without a path the page, as an object that notebooks show.

    Raises:
        ValueError: a batch of motions, a motion that failed at all times, or an unknown suffix.
        RuntimeError: a film without ffmpeg.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.linspace(0, 2 * jnp.pi, 9), guess)
        >>> mbs.viz.animate(mech, motion, "slider_crank.html").name
        'slider_crank.html'
    """
    if np.ndim(trajectory.t) != 1:
        raise ValueError("animate shows one motion; pick one of the batch: jax.tree.map(lambda x: x[k], trajectory)")
    good = converged_times(trajectory)
    if not good.any():
        raise ValueError("trajectory: the motion failed at all times, so there is nothing to show")
    times = np.asarray(trajectory.t)[good]
    if path is not None and Path(path).suffix.lower() == ".glb":
        return _glb(mech, trajectory, Path(path), traces, title)
    scene = scene_of(mech, np.asarray(trajectory.q)[good], times[0], marked=traces, size=size, view=view)
    curves = [(body, curve(trajectory, body, point)[good]) for body, point in traces]
    player = kit(mech.layout).Player(scene, times, curves, fps=fps, width=width * DOTS_PER_INCH, title=title)
    if path is None:
        return player
    path = Path(path)
    films = {".gif": _gif, ".mp4": _mp4}
    suffix = path.suffix.lower()
    if suffix not in (".html", *films):
        raise ValueError(f"cannot write {path.name!r}: the name must end in .gif, .mp4, .html or .glb")
    path.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".html":
        player.write(path)
    else:
        films[suffix](kit(mech.layout).Film(scene, curves, width, title), path, fps)
    return path


def _glb(mech: Mechanism, trajectory: Trajectory, path: Path, traces: Marked, title: str | None) -> Path:
    """Write a motion as binary glTF, and return the path."""
    times, q = configurations(mech, trajectory)
    scene = mesh_scene(mech, q, float(times[0]), marked=traces)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_glb(scene, times, curves_of(scene, mech, q, traces), path, title)
    return path


def _gif(film, path: Path, fps: float) -> None:
    """Write the frames of a film as a GIF with one palette: a palette per frame flickers and makes larger files."""
    weights = np.array([1 << 16, 1 << 8, 1])
    packed = [frame[..., :3] @ weights for frame in film]
    colours, counts = np.unique(np.stack(packed[:: max(len(packed) // 4, 1)]), return_counts=True)
    unpack = lambda values: values[:, None] // weights % 256
    palette = _palette(unpack(colours[np.argsort(-counts)]), film.palette_size, film.min_colour_distance)
    frames = []
    for pixels in packed:
        own, where = np.unique(pixels, return_inverse=True)
        nearest = np.argmin(((unpack(own)[:, None] - palette) ** 2).sum(-1), axis=1).astype(np.uint8)
        frames.append(Image.fromarray(nearest[where].reshape(pixels.shape)))
        frames[-1].putpalette(palette.astype(np.uint8).tobytes())
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=round(1000 / fps), loop=0, optimize=False)


def _palette(colours: np.ndarray, count: int, min_distance: float) -> np.ndarray:
    """Return the first `count` of the colours (k, 3), without those nearer than `min_distance` to one chosen before."""
    if min_distance == 0:
        return colours[:count]
    kept: list[np.ndarray] = []
    free = np.full(len(colours), True)
    while free.any() and len(kept) < count:
        kept.append(colours[free.argmax()])
        free &= ((colours - kept[-1]) ** 2).sum(-1) > min_distance**2
    return np.array(kept)


def _mp4(film, path: Path, fps: float) -> None:
    """Write the frames of a film as an MP4 file, by ffmpeg."""
    if shutil.which("ffmpeg") is None:
        raise RuntimeError(f"writing {path.name!r} needs ffmpeg, which is not installed; write .gif or .html instead")
    width, height = film.canvas.get_width_height()
    source = ["-f", "rawvideo", "-pix_fmt", "rgba", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    # Most players want even sizes and this pixel format.
    target = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white", "-pix_fmt", "yuv420p", str(path)]
    frames = b"".join(frame.tobytes() for frame in film)
    subprocess.run(["ffmpeg", "-y", "-loglevel", "error", *source, *target], input=frames, check=True)
