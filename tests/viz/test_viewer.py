"""The live view: it shows the configurations of the motion, follows its sliders, and appears in the browser."""

import contextlib
import time

import numpy as np
import pytest
from PIL import Image

import jaxmbs as mbs
from browser import needs_browser
from jaxmbs import planar
from jaxmbs.viz.style import PALETTE

pytest.importorskip("viser")

TIMES = np.linspace(0, 1, 21)


def arm(length=1.0):
    return mbs.Mechanism(
        {"arm": planar.Body()},
        {"pin": planar.Revolute("ground", "arm", (0, 0), (-length, 0))},
        {"motor": planar.RevoluteDriver("ground", "arm", mbs.motion.Ramp(2 * np.pi))},
        {"coil": mbs.Spring("ground", "arm", (3.0, 0.5), (2.0, 0.0), stiffness=1.0, free_length=1.0)},
    )


def turn(mech):
    return mbs.kinematics(mech, TIMES, {"arm": (1, 0, 0)})


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def viewer():
    viewer = mbs.show(
        lambda numbers: arm(numbers["length"]), turn, design={"length": (0.5, 2.0, 1.0)}, traces=[("arm", (0.5, 0.0))]
    )
    with contextlib.closing(viewer):
        yield viewer


def shown(viewer):
    return viewer._handles["/arm"].position


def test_it_follows_its_sliders(viewer):
    run = turn(arm())
    assert viewer.url in viewer._repr_html_()
    for k in (0, 7, 20):
        viewer._time.value = float(TIMES[k])
        place = np.append(np.asarray(run.point("arm"))[k], 0)
        wait_for(lambda place=place: np.allclose(shown(viewer), place, atol=1e-12))
    coil = viewer._handles["/coil 0"]
    np.testing.assert_allclose(coil.position[:2], (3.0, 0.5), atol=1e-12)
    np.testing.assert_allclose(
        coil.scale[2], np.hypot(*(np.asarray(run.point("arm", (2.0, 0.0)))[20] - (3.0, 0.5))), rtol=1e-12
    )
    viewer._numbers["length"].value = 1.5
    viewer._changed.set()
    wait_for(lambda: np.allclose(shown(viewer), (1.5, 0, 0), atol=1e-9))


def test_it_plays_and_stops(viewer):
    viewer._switch()
    wait_for(lambda: viewer._time.value > 0.1)
    viewer._switch()
    time.sleep(0.1)
    now = viewer._time.value
    time.sleep(0.1)
    assert viewer._time.value == now


def test_a_design_that_fails_is_explained():
    """The last good one stays."""

    def build(numbers):
        if numbers["length"] > 1:
            raise ValueError("too\nlong")
        return arm(numbers["length"])

    rest = lambda mech: {"arm": (1, 0, 0)}
    with contextlib.closing(mbs.show(build, rest, design={"length": (0.5, 2.0, 1.0)})) as viewer:
        viewer._numbers["length"].value = 2.0
        viewer._changed.set()
        wait_for(lambda: viewer._message.content == "**ValueError**: too long")
        np.testing.assert_allclose(shown(viewer), (1, 0, 0))
        viewer._numbers["length"].value = 0.5
        viewer._changed.set()
        wait_for(lambda: viewer._message.content == "")


BAD = {
    "no design": ((arm, turn), {}, "mech: a function of a design needs design="),
    "no function": ((arm(), turn), {"design": {"length": (0, 2, 1)}}, "design: mech must be a function"),
    "no motion": ((arm, {}), {"design": {"length": (0, 2, 1)}}, "run: with a design it must be a function"),
    "range": ((arm, turn), {"design": {"length": (0, 2, 3)}}, "design: 'length' must be"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name):
    given, options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        mbs.show(*given, **options)


@pytest.mark.slow
@needs_browser
def test_the_page_shows_the_arm(viewer, browser, tmp_path):
    browser.size(900, 600)
    browser.open(viewer.url)
    wait_for(lambda: len(viewer.server.get_clients()) == 1)
    colour = [int(PALETTE[0][k : k + 2], 16) for k in (1, 3, 5)]

    def seen():
        browser.picture(tmp_path / "page.png")
        pixels = np.asarray(Image.open(tmp_path / "page.png").convert("RGB"), float)[:, :600].reshape(-1, 3)
        # Lit surfaces are brighter or darker, but of the same hue.
        saturated = pixels[np.ptp(pixels, axis=1) > 60]
        return len(saturated) > 500 and np.corrcoef(saturated.mean(0), colour)[0, 1] > 0.95

    wait_for(seen, 60.0)
    assert browser.errors == []
