"""The site as a reader meets it, in Chromium: `make site-check`, after `make docs`."""

import contextlib
import functools
import importlib.util
import json
import os
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxmbs as mbs
from browser import needs_browser

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
pytestmark = [
    needs_browser,
    pytest.mark.skipif("JAXMBS_SITE_CHECK" not in os.environ, reason="run by `make site-check`, after `make docs`"),
]
WIDTH = 1280
HEIGHT = 800
# Script that returns the width of a page, lines of code that do not fit, missing pictures, and the colour scheme.
LOOK = """(() => {
    const lines = [...document.querySelectorAll("pre > code")];
    return {
        width: document.documentElement.scrollWidth,
        long: lines.filter((x) => x.scrollWidth > x.clientWidth + 1).map((x) => x.textContent.trim().slice(0, 60)),
        missing: [...document.images].filter((x) => x.complete && !x.naturalWidth).map((x) => x.src),
        title: document.querySelector("h1")?.textContent ?? "",
    };
})()"""
# Pictures that are transparent at a corner: their ink would lie on whatever colour the page has.
TRANSPARENT = """(() => [...document.querySelectorAll("article img")].filter((image) => {
    const {naturalWidth: width, naturalHeight: height} = image;
    const context = Object.assign(document.createElement("canvas"), {width, height}).getContext("2d");
    context.drawImage(image, 0, 0);
    const alpha = (x, y) => context.getImageData(x, y, 1, 1).data[3];
    return [[2, 2], [width - 3, 2], [2, height - 3], [width - 3, height - 3]].some(([x, y]) => alpha(x, y) < 255);
}).map((image) => image.src))()"""


@pytest.fixture
def site():
    """The address of the site: another port for each test, so that nothing is stored from the test before."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    assert (SITE / "index.html").exists(), "no site in build/site: run `make docs`"
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    seconds_between_looks = 0.02
    thread = threading.Thread(target=server.serve_forever, args=(seconds_between_looks,), daemon=True)
    thread.start()
    with contextlib.closing(server.socket):
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _a_wide_light_window(browser):
    browser.size(WIDTH, HEIGHT)
    browser.scheme("light")
    browser.errors.clear()


def test_every_page(browser, site):
    """No error, no request that fails, nothing wider than the window, no line of code that does not fit."""
    # Players are looked at in the pages that show them.
    pages = sorted({*SITE.rglob("*.html")} - {*SITE.glob("players/*")})
    assert len(pages) > 80
    problems = {}
    for page in pages:
        name = page.relative_to(SITE).as_posix()
        browser.errors.clear()
        browser.open(f"{site}/{name}")
        seen = browser.run(LOOK)
        bad = [
            *browser.errors,
            *(f"does not fit: {x}" for x in seen["long"]),
            *(f"no picture: {x}" for x in seen["missing"]),
        ]
        if seen["width"] > WIDTH:
            bad.append(f"{seen['width']} pixels wide")
        if not seen["title"]:
            bad.append("no heading")
        if bad:
            problems[name] = bad
    assert problems == {}


@pytest.mark.parametrize("page", ["index.html", "gallery/index.html", "elements/planar_Revolute.html", "speed.html"])
def test_dark_mode(browser, site, page):
    """Dark ground, light letters; pictures have paper of their own."""
    browser.scheme("dark")
    browser.open(f"{site}/{page}")
    browser.wait("document.body.dataset.mdColorScheme === 'slate' && !('mdColorSwitching' in document.body.dataset)")
    luminance = (
        "((x) => { const [r, g, b] = x.match(/[\\d.]+/g).map(Number); return (0.3 * r + 0.6 * g + 0.1 * b) / 255; })"
    )
    for what in ("article p", "article code"):
        style = f"getComputedStyle(document.querySelector('{what}') ?? document.body)"
        assert browser.run(f"{luminance}({style}.color)") > 0.6
    assert browser.run(f"{luminance}(getComputedStyle(document.body).backgroundColor)") < 0.25
    assert browser.run(TRANSPARENT) == []
    assert browser.errors == []


def test_search_finds_an_element(browser, site):
    browser.open(f"{site}/index.html")
    browser.wait("!!document.querySelector('input.md-search__input')")
    browser.run("document.querySelector('input.md-search__input').focus()")
    browser.call("Input.insertText", text="Revolute")
    links = "[...document.querySelectorAll('.md-search-result__link')].map((x) => x.pathname)"
    found = browser.wait(f"(({links}).length ? {links} : null)")
    assert "/elements/planar_Revolute.html" in found
    assert browser.errors == []


def test_players_play(browser, site):
    """Each page of the gallery with a player: its frame moves on, and stands still when it is paused."""
    pages = [x for x in sorted((SITE / "gallery").glob("*.html")) if "<iframe" in x.read_text()]
    assert len(pages) >= 3
    frame = "document.querySelector('iframe').contentDocument"
    for page in pages:
        browser.open(f"{site}/gallery/{page.name}")
        browser.run("document.querySelector('iframe').scrollIntoView({block: 'center'})")
        first = browser.wait(
            f"{frame}.querySelector('input[type=range]')?.max > 1 && {frame}.querySelector('output').textContent"
        )
        browser.wait(f"{frame}.querySelector('output').textContent !== {json.dumps(first)}")
        browser.run(f"{frame}.querySelector('button').click()")
        held = browser.run(f"new Promise((f) => setTimeout(() => f({frame}.querySelector('output').textContent), 100))")
        later = browser.run(
            f"new Promise((f) => setTimeout(() => f({frame}.querySelector('output').textContent), 300))"
        )
        assert held == later
        assert browser.errors == []


def dragged():
    """The linkages of the page."""
    spec = importlib.util.spec_from_file_location("dragged", ROOT / "docs" / "site" / "dragged.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["four_bar", "slider_crank"])
def test_the_page_computes_what_python_computes(browser, site, name):
    """Random linkages, good ones and those that lock up or cannot be assembled."""
    rng, count = np.random.default_rng(7), 100
    linkage = getattr(dragged(), name)
    lengths = rng.uniform(0.5, 5, (count, 3 if name == "four_bar" else 2))
    ground = rng.uniform(2, 7, (count, 2, 2))
    point, near, angle = rng.normal(size=(count, 2)), rng.uniform(1, 8, (count, 2)), rng.uniform(-4, 4, count)
    arguments = ground, lengths, point, angle, rng.choice([-1.0, 1.0], count), near
    wanted = [np.asarray(x) for x in jax.jit(jax.vmap(mbs.program(linkage)))(*arguments)]
    browser.open(f"{site}/interactive.html")
    samples = json.dumps([[np.ravel(x[k]).tolist() for x in arguments] for k in range(count)])
    script = f"""import("./interactive/{name}.js").then((module) => {samples}.map(
        (args) => module.{name}(...args.map((x) => Float64Array.from(x))).map((y) => Array.from(y))))"""
    found = [np.array(x).reshape(y.shape) for x, y in zip(zip(*browser.run(script), strict=True), wanted, strict=True)]
    np.testing.assert_array_equal(found[-1], wanted[-1])
    good = wanted[-1] == mbs.Status.CONVERGED
    assert {mbs.Status.CONVERGED, mbs.Status.LOCKED_UP, mbs.Status.NOT_ASSEMBLED} <= set(wanted[-1].ravel())
    for a, b in zip(found[:3], wanted[:3], strict=True):
        np.testing.assert_allclose(a[good], b[good], rtol=1e-12, atol=1e-12)
    clear = good & (wanted[4] > 0.05)  # at a dead point the speed is without bound, and so is its rounding
    np.testing.assert_allclose(found[3][clear], wanted[3][clear], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found[4][clear], wanted[4][clear], rtol=1e-12, atol=1e-12)


STATE = """((name) => { const x = document.querySelector(`[data-linkage=${name}]`).linkage; return {
    lengths: x.lengths, samples: x.samples.length, whole: x.whole, message: x.message.textContent, pins: x.pins()}; })"""
CENTRE = """((name, pin) => { const x = document.querySelector(`[data-linkage=${name}] [aria-label="pin ${pin}"] .dot`);
    x.scrollIntoView({block: "center"}); const box = x.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2]; })"""
FRAME = "new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(() => f())))"


def drag(browser, linkage, pin, right, down, touch):
    """Moves a pin by pixels to the right and down, with the mouse or a finger."""
    x, y = browser.run(f"{CENTRE}('{linkage}', '{pin}')")
    if touch:
        event = lambda kind, *points: browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=list(points))
        event("touchStart", {"x": x, "y": y})
        event("touchMove", {"x": x + right, "y": y + down})
        browser.run(FRAME)
        event("touchEnd")
    else:
        event = lambda kind, x, y: browser.call(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
        )
        event("mousePressed", x, y)
        event("mouseMoved", x + right, y + down)
        browser.run(FRAME)
        event("mouseReleased", x + right, y + down)


@pytest.mark.parametrize("touch", [False, True], ids=["mouse", "phone"])
@pytest.mark.parametrize("linkage", ["four_bar", "slider_crank"])
def test_pins_are_dragged(browser, site, linkage, touch):
    """The pin is where it was dragged to, links on it have new lengths, the others keep theirs; a crank that no longer
    turns right round, and a linkage that does not close, are named; the page fits a phone."""
    if touch:
        browser.size(400, 800, touch=True)
    browser.open(f"{site}/interactive.html")
    state = lambda: browser.run(f"{STATE}('{linkage}')")
    assert browser.run(LOOK)["width"] <= (400 if touch else WIDTH)
    before = state()
    assert before["whole"]
    assert "turns right round" in before["message"]
    drag(browser, linkage, "B", 14, -10, touch)
    after = state()
    assert after["pins"]["B"][0] > before["pins"]["B"][0] + 0.1
    assert after["pins"]["B"][1] > before["pins"]["B"][1] + 0.1
    np.testing.assert_allclose(after["pins"]["A"], before["pins"]["A"], atol=1e-9)
    np.testing.assert_allclose(after["lengths"][0], before["lengths"][0])
    np.testing.assert_allclose(
        after["lengths"][1], np.hypot(*np.subtract(after["pins"]["B"], after["pins"]["A"])), rtol=1e-9
    )
    assert abs(after["lengths"][1] - before["lengths"][1]) > 0.05
    set_length = lambda name, value: browser.run(
        f"""(() => {{ const x = document.querySelector('[data-linkage={linkage}] input[aria-label={name}]');
        x.value = {value}; x.dispatchEvent(new Event("input")); }})()"""
    )
    other, long = {"four_bar": ("coupler", 4.2), "slider_crank": ("rod", 5.0)}[linkage]
    set_length("crank", long)
    assert "does not turn right round" in state()["message"]
    set_length(other, 0.2)
    assert state()["samples"] == 0
    assert "Cannot be assembled" in state()["message"]
    assert browser.errors == []
