"""A mechanism as one web page, which computes its motion without Python: to drag, with sliders for its lengths."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs import planar, spatial
from jaxmbs.analyses.assembly import assemble
from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.element import GROUND, AbstractConstraint, errors_of, require, unknown
from jaxmbs.io.driven_motions import motions_of, names_of_motions, with_drive
from jaxmbs.io.files import replace_file
from jaxmbs.io.sliders import Slider, lengths_of, missing_drivers, with_drivers, with_lengths
from jaxmbs.numerics.results import Status
from jaxmbs.programs import PerformanceWarning, ProgramWithFallback
from jaxmbs.system.marks import measure_marks
from jaxmbs.system.mechanism import Coordinates, Mechanism

# Number of steps from the present position to an end of the range of a driver, or through its turn.
STEPS = 120
# Drivers of an angle, which may turn right round.
TURNING = (planar.RevoluteDriver, planar.RelativeAngleDriver, planar.AbsoluteAngleDriver, spatial.RevoluteDriver)
# Default range of a driver of a length on each side of its first value, divided by the size of the mechanism.
DRIVER_RANGE = 0.5


def export_html(
    mech: Mechanism | Callable[[dict[str, Any]], Mechanism],
    path: str | os.PathLike[str],
    *,
    guess: Coordinates | None = None,
    design: Mapping[str, tuple[float, float, float]] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    point: tuple[str, Sequence[float]] | None = None,
    view: tuple[float, float] | None = None,
    title: str | None = None,
) -> Path:
    """Write a mechanism as one web page that anyone can open: it needs no Python, no server and no network.

    Bodies are dragged with mouse or finger, drivers and lengths are set by sliders. The page shows the curve of a point,
    its speed, the transmission angle where the mechanism has one, and says in words where the mechanism cannot be
    assembled or locks up. It computes by `kinematics`, emitted as JavaScript; see `mbs.program(f).javascript`.

    The values of the drivers are set in the page, their motions are not used. A joint or driver with several motions has
    a slider for each. If the drivers do not determine the motion, hinges and slides get drivers, in their order.
    The transmission angle is that between a link with two pins and the lever that it pushes; for a slide, between the link
    and the normal of the slide. The page shows the smallest one, in the plane only. Cams, springs and other symbols keep
    their size. The page is as accurate as the type of the mechanism's numbers allows: export in float64.

    Args:
        mech: the mechanism; or, with a `design`, a function of its numbers, a dict by name, that returns the mechanism.
        path: the file, which ends in `.html`.
        guess: estimate of the configuration at t = 0.
        design: range and first value of each number that has a slider, `{"crank": (low, high, value)}`. By default the
            sliders are the distances of joints on bodies and on the ground, and the lengths of rods.
        ranges: smallest and largest value of drivers of lengths, by name: {"cylinder": (0.3, 0.8)}. By default half the
            size of the mechanism on both sides of the value at t = 0. Drivers of angles turn round.
        point: body and point whose curve is drawn, ("coupler", (0.1, 0.2)). By default the middle of a body that the
            ground does not hold. The page can choose another one.
        view: for a spatial mechanism, elevation and azimuth of the camera in degrees; see `viz.draw`. The page shows it
            from there, without perspective.
        title: a heading; by default the name of the model.

    Returns:
        The path.

    Raises:
        ValueError: another suffix, an unknown name, a range without its value, a guess that cannot be assembled, or a
            motion that drivers of joints cannot determine.
        ProgramError: a function of yours in the mechanism cannot be written as a list of scalar operations, for example
            because it calls back into Python.

    Examples:
        >>> mbs.export_html(mech, "slider_crank.html", guess=guess, point=("rod", (1.0, 0.5))).name
        'slider_crank.html'
    """
    path = Path(path)
    require(path.suffix.lower() == ".html", f"cannot write {path.name!r}: the name must end in .html")
    text = html_page(mech, guess=guess, design=design, ranges=ranges, point=point, view=view, title=title)
    path.parent.mkdir(parents=True, exist_ok=True)
    return replace_file(path, lambda place: place.write_text(text, encoding="utf-8"))


def html_page(
    mech: Mechanism | Callable[[dict[str, Any]], Mechanism],
    *,
    guess: Coordinates | None = None,
    design: Mapping[str, tuple[float, float, float]] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    point: tuple[str, Sequence[float]] | None = None,
    view: tuple[float, float] | None = None,
    title: str | None = None,
) -> str:
    """Return the text of the page that `export_html` writes."""
    # Drawings need matplotlib.
    from jaxmbs.viz.sketch import Sketch

    page = PageFunctions(mech, guess, design)
    names = list(page.motions)
    for name in ranges or {}:
        require(name in names, f"ranges: {unknown('driver', name, names)}")
    first = page.mech
    size = float(first.size(page.q))
    drivers = [page.driver(name, (ranges or {}).get(name), size) for name in names]
    if point is not None:
        _check_point(first, *point)
    # No "</" in the program or "<" in the data, or they could end the script elements.
    program = page.javascript().replace("</", "<\\/")
    sketch = Sketch(first, page.motion_samples(drivers[0]), view)
    title = getattr(mech, "name", None) if title is None else title
    data = sketch.drawing() | {
        "title": title or "",
        "sliders": [slider._asdict() for slider in page.sliders],
        "drivers": drivers,
        "q": page.q.tolist(),
        "point": _point(first, point, sketch),
    }
    read = lambda name: files("jaxmbs.io").joinpath(name).read_text(encoding="utf-8")
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    head, _, tail = read("html_page.html").rpartition('<script type="module"></script>')
    head = head.replace("{}</script>", text + "</script>", 1)
    script = "\n".join([program, read("html_drawing.js"), read("html_page.js")])
    return f'{head}<script type="module">\n{script}</script>{tail}'


class PageFunctions:
    """The function that the page computes, for a mechanism with sliders.

    Attributes:
        sliders: numbers that the page can change.
        build: the mechanism as a function of these numbers, with drivers that determine its motion.
        mech: the mechanism of the first values.
        motions: motions of drivers and joints by name.
        owners: the driver or joint of each motion.
        q: the first configuration.
    """

    def __init__(self, mech: Any, guess: Coordinates | None, design: Mapping[str, Any] | None):
        # `with_lengths` drops the guess of a model file.
        guess = guess if callable(mech) else mech.coordinates(guess)
        build, self.sliders = _with_lengths(mech) if design is None else _with_design(mech, design)
        values = jnp.array([slider.value for slider in self.sliders], dtype=float)
        first = build(values)
        self.q = assemble(first, guess, throw=True).q
        more = missing_drivers(first, self.q)
        self.build = (lambda values: with_drivers(build(values), more)) if more else build
        self.mech = self.build(values)
        self.motions = motions_of(self.mech)
        elements: dict[str, AbstractConstraint] = {**self.mech.drivers, **self.mech.constraints}
        self.owners = {each: x for name, x in elements.items() for each in names_of_motions(name, x)}
        self.values = values
        zero = jnp.zeros((), self.q.dtype)
        self.drive = jnp.stack([motion(zero) for motion in self.motions.values()])

    def driver(self, name: str, given: tuple[float, float] | None, size: float) -> dict[str, Any]:
        """Return name, range, value and bodies of a driver for the page."""
        value, owner = float(self.drive[list(self.motions).index(name)]), self.owners[name]
        low, high = (value - DRIVER_RANGE * size, value + DRIVER_RANGE * size) if given is None else map(float, given)
        require(
            -math.inf < low <= value <= high < math.inf and low < high,
            f"ranges: {name!r} must be (low, high) with low ≤ {value:g} ≤ high, its value at t = 0",
        )
        if given is None and isinstance(owner, (planar.DistanceDriver, spatial.DistanceDriver)):
            low = max(low, value / 10)
        bodies = [x for x in (owner.i, owner.j) if x in self.mech.bodies]
        # A driver between two moving bodies moves the second one.
        entry = {"name": name, "value": value, "low": low, "high": high, "bodies": bodies[-1:]}
        return entry | {"turns": isinstance(owner, TURNING) and given is None}

    def motion(self, values, q, drive, rates):
        """Compute the motion for one unit of time from a configuration near q.

        Args:
            values: numbers of the sliders.
            q: estimate of the first configuration.
            drive: values of the drivers at its beginning.
            rates: their rates, which stay the same.

        Returns:
            Frames of the bodies (T, bodies, d, d + 1): axes and origins as columns; their rates; configurations; status;
            points, axes and sizes of the anchors of the drawing.
        """
        from jaxmbs.viz.sketch import anchor_arrays

        run = self._run(values, q, drive, rates)
        layout = run.layout

        def frames(q):
            """Return axes and origins of the bodies."""
            poses = [layout.pose(name, q) for name in layout.body_types]
            axes = jnp.eye(layout.dimension, dtype=q.dtype)
            return jnp.stack([jnp.stack([*(x.direction(e) for e in axes), x.r], axis=1) for x in poses])

        # A loop over times in the program keeps the JavaScript short.
        moved = jax.lax.map(lambda state: jax.jvp(frames, (state[0],), (layout.rate(*state),)), (run.q, run.v))
        return *moved, run.q, run.status, *anchor_arrays(self.build(values))

    def _run(self, values, q, drive, rates):
        """Return the motion from a configuration near q with constant rates of the drivers."""
        zero = jnp.zeros((), q.dtype)
        given = {name: jnp.stack([drive[k], rates[k], zero]) for k, name in enumerate(self.motions)}
        mech = with_drive(measure_marks(self.build(values), self.q)[0], zero, given)
        return kinematics(mech, jnp.linspace(0, 1, STEPS + 1, dtype=q.dtype), q)

    def motion_samples(self, driver: dict[str, Any]) -> np.ndarray:
        """Return the configurations through which the first driver passes in its range, those of the first drawing."""
        ends = (-2 * math.pi, 2 * math.pi) if driver["turns"] else (driver["low"], driver["high"])
        start = 0.0 if driver["turns"] else driver["value"]
        found = [np.asarray(self.q)[None]]
        for end in ends:
            run = self._run(self.values, self.q, self.drive, jnp.zeros(len(self.drive)).at[0].set(end - start))
            found.append(np.asarray(run.q)[np.asarray(run.status) == Status.CONVERGED])
        return np.concatenate(found)

    def javascript(self) -> str:
        """Return `motion` as JavaScript."""
        program = ProgramWithFallback(self.motion, runs="once").program
        with warnings.catch_warnings():
            # A function that cannot be written as a program is an error here.
            warnings.simplefilter("ignore", PerformanceWarning)
            return program.javascript(self.values, self.q, self.drive, jnp.zeros(len(self.drive)), name="motion")


def _with_lengths(mech: Any) -> tuple[Callable[[Any], Mechanism], list[Slider]]:
    """Return a mechanism as a function of its lengths, and their sliders."""
    require(not callable(mech), "design is missing: mech is a function, pass design={name: (low, high, value)}")
    lengths = lengths_of(mech)
    return lambda values: with_lengths(mech, lengths, values), [length.slider for length in lengths]


def _with_design(mech: Any, design: Mapping[str, Any]) -> tuple[Callable[[Any], Mechanism], list[Slider]]:
    """Return the mechanism of a design as a function of its numbers in a row, and their sliders."""
    require(callable(mech), "design: mech must be a function that builds the mechanism from the numbers of the design")
    sliders = []
    for name, given in design.items():
        with errors_of(f"design: {name!r}"):
            row = np.asarray(given, float)
            good = row.shape == (3,) and np.all(np.isfinite(row)) and row[0] <= row[2] <= row[1] and row[0] < row[1]
            require(good, f"must be (low, high, value) with low ≤ value ≤ high, got {given}")
        sliders.append(Slider(str(name), *row.tolist()))
    return lambda values: mech({name: values[k] for k, name in enumerate(design)}), sliders


def _check_point(mech: Mechanism, body: str, s: Sequence[float]) -> None:
    """Raise `ValueError` for an unknown body, or a point with a wrong number of coordinates."""
    require(body in mech.bodies, f"point: {unknown('body', body, list(mech.bodies))}")
    d = mech.layout.dimension
    require(np.shape(s) == (d,), f"point: {body!r} needs {d} coordinates, got {s}")


def _point(mech: Mechanism, point: tuple[str, Sequence[float]] | None, sketch: Any) -> dict[str, Any]:
    """Return the body and the point that draws the curve."""
    names = list(mech.bodies)
    if point is not None:
        return {"body": names.index(point[0]), "s": np.asarray(point[1], float).tolist()}
    held = {x for joint in mech.constraints.values() if GROUND in (joint.i, joint.j) for x in (joint.i, joint.j)}
    body = next((name for name in names if name not in held), names[-1])
    points = [np.asarray(sketch.anchors[k].point, float) for k in sketch.plate(body)["anchors"]]
    return {"body": names.index(body), "s": np.mean(points, axis=0).tolist()}
