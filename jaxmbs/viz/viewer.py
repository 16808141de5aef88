"""A live view of a mechanism in the browser, with its motion and with sliders for the numbers of its design."""

from __future__ import annotations

import contextlib
import io
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb

from jaxmbs.element import GROUND
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.trajectory import Trajectory
from jaxmbs.viz.attachments import Marked
from jaxmbs.viz.mesh_scene import MeshScene, configurations, curves_of, merged, mesh_scene, quaternions, span_frames

# Seconds between two pictures of a motion that is played.
PICTURE_SECONDS = 1 / 30
# Number of positions of a slider for a number of the design.
SLIDER_STEPS = 200
# Slowest speed of playback; 1 is real time.
MIN_SPEED = 0.05
# Fastest speed of playback; 1 is real time.
MAX_SPEED = 5.0
# Vertical field of view of the camera, in radians.
FIELD_OF_VIEW = 0.6
# Distance of the camera from the middle of the mechanism, divided by the size of the mechanism.
CAMERA_DISTANCE = 1.9
# Things nearer to the camera are not drawn; divided by the size of the mechanism.
MIN_DRAWN_DISTANCE = 0.01
# Things farther from the camera are not drawn; divided by the size of the mechanism.
MAX_DRAWN_DISTANCE = 100.0
# Width of paths of points, in pixels.
PATH_WIDTH = 2.5
# Largest distance of the lines of the grid, divided by the size of the mechanism.
GRID_CELL = 0.125
# Possible distances of these lines between 1 and 10; powers of ten times these are possible too.
GRID_STEPS = np.array([1.0, 2.0, 5.0])
# Every fifth line of the grid is darker.
CELLS_OF_SECTION = 5
# Width of the grid, divided by the size of the mechanism.
GRID_WIDTH = 6.0
# Seconds after which a viewer that closes no longer waits for its thread.
CLOSING_SECONDS = 5.0
# Height of the view in notebooks, in pixels.
NOTEBOOK_HEIGHT = 560
# Ranges of design numbers by name: lowest, highest and first value.
Design = Mapping[str, tuple[float, float, float]]
# A motion, a configuration, or a function that returns either for a mechanism.
Motion = Trajectory | Coordinates | Callable[[Mechanism], Any]


def show(
    mech: Mechanism | Callable[[dict[str, float]], Mechanism],
    run: Motion,
    *,
    design: Design | None = None,
    traces: Marked = (),
    title: str = "jaxmbs",
    host: str = "127.0.0.1",
    port: int = 8080,
) -> Viewer:
    """Show a mechanism in the browser: turn it, play its motion, and change its design by sliders.

    The view is a web page at `.url`, which notebooks show in a frame. With a `design`, `mech` and `run` are functions:
    after a move of a slider the mechanism is built, and its motion computed, again. Planar linkages are shown as plates in
    layers. Needs `pip install ".[view]"`.

    Args:
        mech: the mechanism; with a `design` a function of its numbers, a dict by name, that returns the mechanism.
        run: a motion or a configuration; or a function of the mechanism that returns one, by `kinematics`, `simulate` or
            `assemble`.
        design: for each number its range and first value, `{"crank": (low, high, value)}`.
        traces: ("coupler", (x, y)), …, in space (x, y, z): points whose paths are drawn.
        title: heading of the page.
        host: address at which the page is served; "0.0.0.0" lets other machines see it.
        port: port of the page; the next free one if it is in use.

    Returns:
        the viewer. It runs in the background: end a script with `.wait()`.

    Raises:
        ValueError: a mechanism that is a function without a `design`, or the reverse; a range that does not contain its
            value; a batch of motions, or one that failed at all times.
        ImportError: viser is not installed.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.linspace(0, 2 * jnp.pi, 9), guess)
        >>> viewer = mbs.show(mech, motion)
        >>> viewer.url.startswith("http://127.0.0.1:")
        True
        >>> viewer.close()
    """
    if callable(mech) != (design is not None):
        raise ValueError(
            "mech: a function of a design needs design={name: (low, high, value)}"
            if design is None
            else "design: mech must be a function that builds the mechanism from the numbers of the design"
        )
    if design is not None and not callable(run):
        raise ValueError("run: with a design it must be a function that computes the motion of a mechanism")
    for name, (low, high, value) in (design or {}).items():
        if not low <= value <= high or low == high:
            raise ValueError(
                f"design: {name!r} must be (low, high, value) with low ≤ value ≤ high, got {low, high, value}"
            )
    try:
        import viser
    except ImportError as error:
        raise ImportError('the viewer is made with viser: pip install ".[view]"') from error
    build = mech if callable(mech) else lambda numbers: mech
    motion = run if callable(run) else lambda mech: run
    first = _Picture(build, motion, {name: float(value) for name, (_, _, value) in (design or {}).items()}, traces)
    with contextlib.redirect_stdout(io.StringIO()):  # viser prints a banner
        server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
    return Viewer(server, first, design or {}, title)


class _Picture:
    """A mechanism of some design, and its motion."""

    def __init__(self, build, motion, numbers: dict[str, float], traces: Marked):
        self.build, self.motion, self.traces = build, motion, traces
        mech = build(dict(numbers))
        computed = motion(mech)
        self.times, q = configurations(mech, computed)
        self.flat = mech.layout.dimension == 2
        self.scene: MeshScene = mesh_scene(mech, q, float(self.times[0]), marked=traces)
        self.turns = {body: quaternions(axes) for body, axes in self.scene.axes.items()}
        self.curves = curves_of(self.scene, mech, q, traces) if len(q) > 1 else []
        self.spans = []
        for name, span in self.scene.spans:
            places, axes, scales = span_frames(self.scene, span)
            self.spans.append((name, span, places, quaternions(axes), scales))
        failed = isinstance(computed, Trajectory) and len(self.times) < len(np.asarray(computed.t))
        self.message = f"The motion fails after t = {self.times[-1]:.4g}." if failed else ""

    def of(self, numbers: dict[str, float]) -> _Picture:
        """Return the picture of another design."""
        return _Picture(self.build, self.motion, numbers, self.traces)


class Viewer:
    """A view of a mechanism in the browser, which `show` opens.

    Args:
        server: the server of viser, to which you can add things.
        picture: the mechanism with its motion.
        design: ranges and values of the numbers of the design.
        title: heading of the page.

    Attributes:
        url: address of the page.

    Examples:
        >>> viewer = mbs.show(mech, mbs.assemble(mech, guess))
        >>> viewer.close()
    """

    def __init__(self, server: Any, picture: _Picture, design: Design, title: str):
        """Show a picture on a server of viser; `show` calls this."""
        self.server, self._picture = server, picture
        self.url = f"http://{'127.0.0.1' if server.get_host() == '0.0.0.0' else server.get_host()}:{server.get_port()}"
        self._handles: dict[str, Any] = {}
        self._closed, self._changed = threading.Event(), threading.Event()
        self._playing, self._shown = False, -1
        self._add_surroundings()
        self._add_controls(design, title)
        self._add_mechanism()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the view; the page stays without a connection."""
        self._closed.set()
        self._thread.join(CLOSING_SECONDS)
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()

    def __repr__(self) -> str:
        return f"Viewer({self.url})"

    def wait(self) -> None:
        """Wait until the view is closed, or until Ctrl-C, at the end of a script."""
        try:
            self._closed.wait()
        except KeyboardInterrupt:
            self.close()

    def _repr_html_(self) -> str:
        """Return the page in a frame, which notebooks show for the viewer."""
        return f'<iframe src="{self.url}" width="100%" height="{NOTEBOOK_HEIGHT}" style="border:0"></iframe>'

    def _add_surroundings(self) -> None:
        """Add the grid, and place the camera."""
        scene, view = self.server.scene, self._picture.scene
        low, high = view.corners()
        middle, size = (low + high) / 2, max(view.extent, float(np.linalg.norm(high - low)))
        direction = view.camera / np.linalg.norm(view.camera)
        scene.set_up_direction(tuple(view.up))
        camera = self.server.initial_camera
        camera.look_at, camera.up = tuple(middle), tuple(view.up)
        camera.position = tuple(middle + CAMERA_DISTANCE * size * direction)
        camera.fov, camera.near, camera.far = FIELD_OF_VIEW, size * MIN_DRAWN_DISTANCE, size * MAX_DRAWN_DISTANCE
        steps = 10 ** np.floor(np.log10(GRID_CELL * size)) * GRID_STEPS
        cell = float(steps[steps <= GRID_CELL * size].max(initial=steps[0]))
        # Behind a planar linkage, below a spatial one.
        normal = 2 if self._picture.flat else int(np.argmax(np.abs(view.up)))
        back = -1.0 if self._picture.flat else -np.sign(view.up[normal])
        origin = middle.copy()
        origin[normal] = (low if back < 0 else high)[normal] + 0.02 * size * back
        scene.add_grid(
            "/grid",
            width=GRID_WIDTH * size,
            height=GRID_WIDTH * size,
            plane=("yz", "xz", "xy")[normal],
            cell_size=cell,
            section_size=CELLS_OF_SECTION * cell,
            cell_color=(233, 236, 240),
            section_color=(208, 214, 222),
            fade_distance=GRID_WIDTH * size,
            position=tuple(origin),
        )

    def _add_controls(self, design: Design, title: str) -> None:
        """Add buttons and sliders."""
        gui = self.server.gui
        gui.configure_theme(show_logo=False, show_share_button=False)
        gui.set_panel_label(title)
        moving = len(self._picture.times) > 1
        self._play = gui.add_button("Play", icon="player-play", visible=moving)
        self._time = gui.add_slider("time", 0.0, self._end, self._end / 1000, 0.0, visible=moving)
        self._speed = gui.add_slider("speed", MIN_SPEED, MAX_SPEED, MIN_SPEED, 1.0, visible=moving)
        self._play.on_click(lambda _: self._switch())
        self._numbers = {}
        if design:
            with gui.add_folder("design"):
                for name, (low, high, value) in design.items():
                    self._numbers[name] = gui.add_slider(name, low, high, (high - low) / SLIDER_STEPS, value)
                    self._numbers[name].on_update(lambda _: self._changed.set())
        self._message = gui.add_markdown(self._picture.message)

    @property
    def _end(self) -> float:
        """Duration of the motion, at least a little, to the digits that a slider has room for."""
        return float(f"{max(self._picture.times[-1] - self._picture.times[0], 1e-9):.4g}")

    def _switch(self) -> None:
        """Start or stop the motion."""
        self._playing = not self._playing
        self._play.label = "Pause" if self._playing else "Play"
        self._play.icon = "player-pause" if self._playing else "player-play"

    def _add_mechanism(self) -> None:
        """Add the surfaces of the mechanism in place of those before, with the same names where these stay."""
        scene, view, old = self.server.scene, self._picture.scene, self._handles
        rgb = lambda colour: tuple(round(255 * x) for x in to_rgb(colour))
        self._handles = {f"/{body}": scene.add_frame(f"/{body}", show_axes=False) for body in view.places}
        for number, ((body, colour, opacity), mesh) in enumerate(merged(view.solids).items()):
            name = f"/{body}/{number}"
            self._handles[name] = scene.add_mesh_simple(
                name,
                mesh.points,
                mesh.triangles,
                color=rgb(colour),
                opacity=None if opacity == 1 else opacity,
                flat_shading=True,
            )
        for number, (name, span, *_) in enumerate(self._picture.spans):
            name = f"/{name} {number}"
            self._handles[name] = scene.add_mesh_simple(
                name, span.mesh.points, span.mesh.triangles, color=rgb(span.colour), flat_shading=True
            )
        for number, (name, points, colour) in enumerate(self._picture.curves):
            name = f"/{name} {number}"
            self._handles[name] = scene.add_line_segments(
                name,
                np.stack([points[:-1], points[1:]], axis=1),
                rgb(colour),
                thickness=PATH_WIDTH,
                thickness_units="screen",
            )
        for name in set(old) - set(self._handles):
            old[name].remove()
        self._shown = -1
        self._move_to(self._time.value)

    def _move_to(self, elapsed: float) -> None:
        """Show the configuration at a time from the start of the motion."""
        picture = self._picture
        k = int(np.abs(picture.times - picture.times[0] - elapsed).argmin())
        if k == self._shown:
            return
        self._shown = k
        with self.server.atomic():
            for body, places in picture.scene.places.items():
                if body != GROUND:
                    handle = self._handles[f"/{body}"]
                    handle.position, handle.wxyz = places[k], picture.turns[body][k]
            for number, (name, _, places, turns, scales) in enumerate(picture.spans):
                handle = self._handles[f"/{name} {number}"]
                handle.position, handle.wxyz, handle.scale = places[k], turns[k], tuple(scales[k])

    def _work(self) -> None:
        """Play the motion and follow the sliders until the view is closed."""
        before = time.monotonic()
        while not self._closed.wait(PICTURE_SECONDS):
            now = time.monotonic()
            if self._changed.is_set():
                self._changed.clear()
                self._rebuild()
            elif self._playing:
                self._time.value = (self._time.value + (now - before) * self._speed.value) % self._end
            self._move_to(self._time.value)
            before = now

    def _rebuild(self) -> None:
        """Show the design of the sliders, or say why it cannot be shown."""
        try:
            self._picture = self._picture.of({name: slider.value for name, slider in self._numbers.items()})
        except Exception as error:  # functions of the user may raise anything
            self._message.content = f"**{type(error).__name__}**: {' '.join(str(error).split())}"
            return
        self._message.content = self._picture.message
        if self._time.max != self._end:
            self._time.max, self._time.step = self._end, self._end / 1000
            self._time.value = min(self._time.value, self._end)
        self._add_mechanism()
