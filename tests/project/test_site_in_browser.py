"""The site as a reader meets it, in Chromium: `make site-check`, after `make docs`."""

import contextlib
import functools
import json
import os
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

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


def test_mechanisms_are_dragged_in_their_frames(browser, site):
    """Each frame of the page fits, computes and draws; what the pages do is tested in tests/io/test_html_page.py."""
    for width, touch in ((WIDTH, False), (400, True)):
        browser.size(width, HEIGHT, touch=touch)
        browser.open(f"{site}/interactive.html")
        assert browser.run(LOOK)["width"] <= width
        frames = "[...document.querySelectorAll('iframe.mechanism')]"
        state = """((frame) => {
            const {documentElement: page} = frame.contentDocument, {whole} = frame.contentWindow.mechanism;
            return {whole, cut: page.scrollHeight - frame.clientHeight, wide: page.scrollWidth - frame.clientWidth};
        })"""
        found = browser.run(f"{frames}.map({state})")
        assert len(found) == 3
        assert all(each["whole"] for each in found)
        assert max(each["cut"] for each in found) <= 0
        assert max(each["wide"] for each in found) <= 0
    assert browser.errors == []
