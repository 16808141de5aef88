"""Pages of mechanisms in Chromium, opened as files: what they compute is what Python computes, by mouse and by finger."""

import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from browser import needs_browser
from designed_four_bar import GUESS, LENGTHS, PLAIN, four_bar
from jaxmbs import planar, spatial
from jaxmbs.dynamics.linear_inputs import ShiftedMotion
from jaxmbs.io.sliders import missing_drivers

MODELS = Path(__file__).parents[2] / "examples" / "models"
FRAME = "new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => f()))))"
# State of the page: inputs and results of the last motion, the pose that is shown, and the texts.
STATE = """(() => {
    const x = window.mechanism, {input, frames, rates, status} = x.result;
    return {
        values: input.values, q: [...input.q], drive: input.drive, drives: input.rates,
        frames: [...frames], speeds: [...rates], status: [...status], positions: x.positions, whole: x.whole,
        message: x.message.textContent, grey: x.picture.svg.classList.contains("failed"),
        width: document.documentElement.scrollWidth,
    };
})()"""
# Function of a body and its point that returns a place of the page in pixels, and scrolls to the picture.
PIXELS = """((body, s) => {
    const x = window.mechanism, svg = x.picture.svg;
    svg.scrollIntoView({block: "center"});
    const box = svg.getBoundingClientRect(), p = x.picture.px(x.project(body, s));
    return [box.left + p[0], box.top + p[1]];
})"""
# Function of a name and a value that sets a slider.
SLIDE = """((name, value) => {
    const x = [...document.querySelectorAll("input")].find((x) => x.ariaLabel === name);
    x.value = value;
    x.dispatchEvent(new Event("input"));
})"""
# Rows of the diagrams: value of the driver, transmission angle, speed, place of the point.
ROWS = "((x) => x.samples.map((s) => [s.value, x.transmission(s), x.speedAt(s), ...x.place(s)]))(window.mechanism)"
NAMES = "[...document.querySelectorAll('label.length span')].map((x) => x.textContent)"


def slide(browser, name, value):
    """Set the slider of this name."""
    browser.run(f"{SLIDE}({json.dumps(name)}, {value})")
    browser.run(FRAME)
    return browser.run(STATE)


def drag(browser, start, end, touch):
    """Drag from one place of the page, in pixels, to another, with the mouse or a finger."""
    if touch:
        event = lambda kind, *points: browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=list(points))
        event("touchStart", {"x": start[0], "y": start[1]})
        event("touchMove", {"x": end[0], "y": end[1]})
        browser.run(FRAME)
        event("touchEnd")
    else:
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
            browser.run(FRAME)
    return browser.run(STATE)


def pixels(browser, body, point):
    """A point of a body on the page, in pixels."""
    return np.array(browser.run(f"{PIXELS}({json.dumps(body)}, {json.dumps(point)})"))


def opened(browser, path, touch=False):
    browser.size(*((390, 800) if touch else (1280, 800)), touch=touch)
    browser.errors.clear()
    browser.open(path.as_uri())
    return browser.run(STATE)


def check(state, mech):
    """Compare positions, velocities and statuses of the page with `kinematics` from the same values of the drivers."""
    zero = jnp.zeros(())
    drivers = dict(mech.drivers)
    for (name, driver), *given in zip(mech.drivers.items(), state["drive"], state["drives"], strict=True):
        # The same types as in the page, which saves compiling.
        motion = ShiftedMotion(mbs.motion.Constant(zero), zero, *jnp.array([*given, 0.0]))
        drivers[name] = driver.with_motions([motion])
    mech = mbs.Mechanism(mech.bodies, mech.constraints, drivers, mech.forces)
    run = mbs.kinematics(mech, jnp.linspace(0, 1, 121), jnp.array(state["q"]))
    d, count = mech.layout.dimension, len(mech.bodies)
    frames, speeds = (np.reshape(state[name], (121, count, d, d + 1)) for name in ("frames", "speeds"))
    np.testing.assert_array_equal(state["status"], run.status)
    good = np.asarray(run.status) == 0
    assert good[0]
    for k, name in enumerate(mech.bodies):
        scale = max(1.0, np.abs(run.q).max())
        np.testing.assert_allclose(frames[good, k, :, d], run.point(name)[good], rtol=0, atol=1e-12 * scale)
        np.testing.assert_allclose(frames[good, k, :, :d], run.rotation(name)[good], rtol=0, atol=1e-12 * scale)
        fast = np.abs(run.v[good]).max()
        np.testing.assert_allclose(speeds[good, k, :, d], run.point_velocity(name)[good], rtol=0, atol=1e-10 * fast)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of this module, each written once."""
    folder, kept = tmp_path_factory.mktemp("pages"), {}

    def page(name, *args, **options):
        if name not in kept:
            kept[name] = mbs.export_html(*args, folder / f"{name}.html", **options)
        return kept[name]

    return page


def model(tmp_path, name, change):
    """A model of the examples with a change of its text."""
    text = (MODELS / name).read_text()
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / name).write_text(text)
    return mbs.load(tmp_path / name)


@needs_browser
@pytest.mark.one_in(2)
@pytest.mark.parametrize("touch", [False, True], ids=["mouse", "phone"])
def test_a_slider_crank(browser, pages, tmp_path, touch):
    """The rod gets longer, the crank follows the pointer, a rod that is too short stops the picture until it is longer."""
    page = pages("slider", mbs.load(MODELS / "slider_crank.json"), point=("rod", (0.3, 0.1)))
    assert not {"http", "src=", "href="} & set(page.read_text().replace("http://www.w3.org", "").split('"'))
    first = opened(browser, page, touch)
    assert first["width"] <= (390 if touch else 1280)
    assert first["whole"]
    assert first["message"].startswith("motor turns right round. The transmission angle is at least 71°.")  # arccos 1/3
    longer = slide(browser, "rod", 0.8)
    assert longer["values"] == [0.2, 0.8]
    wanted = model(tmp_path, "slider_crank.json", {'"point_i": [0.6, 0]': '"point_i": [0.8, 0]'})
    check(longer, wanted)
    pivot, pin = (pixels(browser, "crank", [x, 0]) for x in (0, 0.2))
    up = pivot - np.array([0, np.linalg.norm(pin - pivot)])
    turned = drag(browser, pin, 0.5 * (pin + up), touch)
    np.testing.assert_allclose(turned["positions"], [np.pi / 4], atol=0.03)
    check(turned, wanted)
    short = slide(browser, "rod", 0.15)
    assert short["grey"] == (np.sin(turned["positions"][0]) * 0.2 > 0.15)
    gone = slide(browser, "motor", 90)
    assert gone["grey"]
    assert gone["message"].startswith("The mechanism cannot be assembled like this.")
    back = slide(browser, "rod", 0.8)
    assert not back["grey"]
    np.testing.assert_allclose(back["positions"], [np.pi / 2])
    check(back, wanted)
    locked = slide(browser, "rod", 0.21), slide(browser, "motor", 45), slide(browser, "rod", 0.19)
    assert "At both ends the mechanism locks up." in locked[-1]["message"]
    assert browser.errors == []


@needs_browser
@pytest.mark.one_in(2)
@pytest.mark.parametrize("touch", [False, True], ids=["mouse", "phone"])
def test_a_four_bar_in_space(browser, pages, tmp_path, touch):
    """A model in MJCF, closed by a ball joint, with redundant constraints: a pivot is moved, the crank turned."""
    page = pages("space", mbs.load(MODELS / "four_bar.xml").drive("O", mbs.motion.Constant(0.0)))
    first = opened(browser, page, touch)
    assert first["message"].startswith("O drive ")
    (name,) = (x for x in browser.run(NAMES) if x.startswith("ground"))
    moved = slide(browser, name, 3.3)
    assert not moved["grey"]
    # In the file the place of B on the rocker depends on that of C.
    wanted = model(tmp_path, "four_bar.xml", {'pos="3.5 0 0"': 'pos="3.3 0 0"'}).drive("O", mbs.motion.Constant(0.0))
    first_b, wrong_b = mbs.load(MODELS / "four_bar.xml").constraints["B"], wanted.constraints["B"]
    fixed = dict(wanted.constraints) | {"B": spatial.Spherical("coupler", "rocker", wrong_b.point_i, first_b.point_j)}
    check(moved, mbs.Mechanism(wanted.bodies, fixed, wanted.drivers, wanted.forces))
    start, end = (
        pixels(browser, "crank", x) for x in ([0.6, 0, 0.8], [0.6 * 0.99 + 0.8 * 0.14, 0, 0.8 * 0.99 - 0.6 * 0.14])
    )
    turned = drag(browser, start, end, touch)
    np.testing.assert_allclose(
        np.abs(turned["positions"][0] - moved["positions"][0]), np.arctan(0.14 / 0.99), atol=0.02
    )
    assert browser.errors == []


@needs_browser
def test_a_double_pendulum_without_drivers(browser, pages, tmp_path):
    """Both hinges get drivers; each body is turned by its own; the other stands still."""
    page = pages("pendulum", mbs.load(MODELS / "double_pendulum.json"))
    first = opened(browser, page)
    assert len(first["positions"]) == 2
    start, end = (pixels(browser, "lower", x) for x in ([0, 0], [0.15, 0.05]))
    turned = drag(browser, start, end, touch=False)
    assert turned["positions"][0] == first["positions"][0]
    assert abs(turned["positions"][1] - first["positions"][1]) > 0.1
    loaded = mbs.load(MODELS / "double_pendulum.json")
    check(turned, loaded.drive("pivot", mbs.motion.Constant(0.0)).drive("elbow", mbs.motion.Constant(0.0)))
    assert browser.errors == []


@needs_browser
def test_gears_need_more_than_a_turn(browser, pages):
    """After a turn of the first gear the second one is not back: the motion does not repeat itself."""
    mech = mbs.Mechanism(
        {"a": planar.Body(), "b": planar.Body()},
        {
            "A": planar.Revolute("ground", "a", (0, 0), (0, 0)),
            "B": planar.Revolute("ground", "b", (3, 0), (0, 0)),
            "mesh": planar.Gear("a", "b", (0, 0), (0, 0), 1.0, 2.0),
        },
        {"motor": planar.RevoluteDriver("ground", "a", mbs.motion.Ramp(1.0))},
    )
    state = opened(browser, pages("gears", mech, guess={"b": (3, 0, 0.1)}, point=("b", (1, 0))))
    assert not state["whole"]
    assert state["message"] == "motor moves from -360° to 360°. These are the ends of its range."
    assert browser.errors == []


@needs_browser
def test_speed_and_transmission_angle_of_a_four_bar(browser, pages):
    """Sliders of a design; by the law of cosines, and by differences of positions."""
    design = {name: (0.5 * x, 2 * x, x) for name, x in LENGTHS.items()}
    build = lambda numbers: four_bar({**PLAIN, "length": numbers})
    page = pages("four_bar", build, guess=GUESS, design=design, point=("coupler", (0.1, 0.2)), title="<four-bar>")
    opened(browser, page)
    assert browser.run("document.querySelector('h1').textContent") == "<four-bar>"
    state = slide(browser, "coupler", 0.3)
    check(state, build({**LENGTHS, "coupler": 0.3}))
    theta, angle, speed, *place = np.array(browser.run(ROWS)).T
    diagonal = 0.1**2 + 0.3**2 - 2 * 0.1 * 0.3 * np.cos(theta)
    cosine = (0.3**2 + LENGTHS["rocker"] ** 2 - diagonal) / (2 * 0.3 * LENGTHS["rocker"])
    np.testing.assert_allclose(angle, np.rad2deg(np.arccos(np.abs(cosine))), rtol=1e-9)
    middle = np.hypot(*(np.array(place)[:, 2:] - np.array(place)[:, :-2])) / (theta[2:] - theta[:-2])
    np.testing.assert_allclose(speed[1:-1], middle, rtol=3e-3)


def test_a_rack_without_drivers():
    """The slide of the rack gets a driver at its present position; the axle of the pinion then needs none."""
    joints = {
        "rail": planar.Translational("ground", "rack", (0, 0), (0, 0), (1, 0)),
        "mesh": planar.RackPinion("rack", "pinion", (0, 0), (0, 0), (1, 0), 0.4),
        "axle": planar.Revolute("ground", "pinion", (0.8, 0.4), (0, 0)),
    }
    mech = mbs.Mechanism({"rack": planar.Body(), "pinion": planar.Body()}, joints)
    found = missing_drivers(mech, mbs.assemble(mech, {"rack": (0.25, 0, 0), "pinion": (0.8, 0.4, 0)}).q)
    assert list(found) == ["rail drive"]
    assert found["rail drive"].motion.value == 0.25


def test_bad_input(tmp_path):
    """Each is named, and nothing is written."""
    slider, page = mbs.load(MODELS / "slider_crank.json"), tmp_path / "page.html"
    for options, message in (
        ({"point": ("crnk", (0, 0))}, "point: unknown body 'crnk'; did you mean 'crank'"),
        ({"point": ("rod", (0, 0, 0))}, "point: 'rod' needs 2 coordinates"),
        ({"ranges": {"moter": (0, 1)}}, "ranges: unknown driver 'moter'; did you mean 'motor'"),
        ({"ranges": {"motor": (1, 2)}}, r"ranges: 'motor' must be \(low, high\) with low ≤ 0 ≤ high"),
        ({"design": {"rod": (0, 1, 0.5)}}, "design: mech must be a function"),
        ({"view": (20, 30)}, "view: a planar mechanism has one view only"),
        ({"guess": {"rood": 1}}, "rood"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            mbs.export_html(slider, page, **options)
    with pytest.raises(ValueError, match=r"the name must end in \.html"):
        mbs.export_html(slider, tmp_path / "page.pdf")
    with pytest.raises(ValueError, match="design is missing"):
        mbs.export_html(four_bar, page)
    with pytest.raises(ValueError, match="design: 'rod': must be"):
        mbs.export_html(four_bar, page, design={"rod": (1, 2, 3)})
    loose = mbs.Mechanism({"a": planar.Body()}, {"x": planar.AbsoluteX("a", (0, 0), 0.0)})
    with pytest.raises(ValueError, match="no joint can be driven that determines it: add drivers"):
        mbs.export_html(loose, page)

    def calls_python(numbers):
        length = jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((), numbers["rod"].dtype), numbers["rod"])
        return four_bar({**PLAIN, "length": {**LENGTHS, "coupler": length}})

    with pytest.raises(mbs.ProgramError, match="pure_callback"):
        mbs.export_html(calls_python, page, guess=GUESS, design={"rod": (0.1, 0.5, 0.28)})
    assert not page.exists()


def test_the_command(tmp_path, monkeypatch, capsys):
    """`jaxmbs export --html` with the point and the sliders that are asked for; bad ones are named."""
    from jaxmbs.cli import main

    monkeypatch.chdir(tmp_path)
    shutil.copy(MODELS / "slider_crank.json", tmp_path)
    run = lambda *words: (main(["export", "slider_crank.json", *words, "--json"]), capsys.readouterr())
    vary = "constraints.slide.point_i.1=-0.1:0.2"
    assert run("--html", "page.html", "--point", "rod", "0.3", "0.1", "--vary", vary)[0] == 0
    text = (tmp_path / "page.html").read_text()
    assert '"sliders":[{"name":"constraints.slide.point_i.1","low":-0.1,"high":0.2,"value":0.0}]' in text
    assert '"point":{"body":1,"s":[0.3,0.1]}' in text
    assert '"title":"slider-crank"' in text
    for words, message in (
        ((), "give --c FOLDER, --fmu FILE or --html FILE"),
        (("--c", "code", "--vary", "bodies.rod.mass=1:2"), "--vary is for --html, which is not given"),
        (("--html", "a.html", "--point", "rod", "x", "0"), "--point: each coordinate must be a number, got x"),
        (("--html", "a.html", "--vary", "bodies.rod.mass"), "--vary: must be PLACE=LOW:HIGH"),
        (("--html", "a.html", "--vary", "bodies.rod.mas=1:2"), "rod has no 'mas'"),
    ):
        code, (out, err) = run(*words)
        assert code == 2
        assert message in out + err
    assert not (tmp_path / "a.html").exists()
