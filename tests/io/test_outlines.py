"""Curves that are read lie where the file draws them, with y up."""

import sys

import numpy as np
import pytest
from PIL import Image

import jaxmbs as mbs

HEAD = '<svg xmlns="http://www.w3.org/2000/svg"'


def drawing(path, content, size='viewBox="0 0 100 60"'):
    path.write_text(f"{HEAD} {size}>{content}</svg>")
    return path


def test_an_arc_is_on_its_circle(tmp_path):
    # From the left over the top to the right: sweep 1 is clockwise as one sees it.
    points = mbs.io.read_curve(drawing(tmp_path / "arc.svg", '<path d="M 20 40 A 25 25 0 0 1 70 40"/>'))
    np.testing.assert_allclose(points[[0, -1]], [(20, 20), (70, 20)], atol=1e-9)
    np.testing.assert_allclose(np.hypot(*(points - [45, 20]).T), 25, rtol=1e-9)
    assert 300 < len(points) < 500
    assert points[:, 1].max() == pytest.approx(45)
    assert points[:, 1].min() == pytest.approx(20)


SMOOTH = lambda x: -30 * (3 * (x / 30) ** 2 - 2 * (x / 30) ** 3)


@pytest.mark.parametrize(
    ("d", "y"),
    [
        ("M 0 0 C 10 0 20 30 30 30", SMOOTH),  # by Bernstein's polynomials: x is 30 times the parameter
        ("m 0 0 c 10 0 20 30 30 30", SMOOTH),
        ("M 0 0 Q 15 30 30 0", lambda x: -60 * (x / 30) * (1 - x / 30)),
        ("M 0 0 Q 15 30 30 0 T 60 0", lambda x: np.where(x < 30, -1, 1) * 60 * (x % 30 / 30) * (1 - x % 30 / 30)),
    ],
)
def test_curved_parts(d, y, tmp_path):
    points = mbs.io.read_curve(drawing(tmp_path / "curve.svg", f'<path d="{d}"/>', size=""))
    np.testing.assert_allclose(points[:, 1], y(points[:, 0]), atol=1e-9)


def test_straight_parts_and_their_corners(tmp_path):
    """A closed path ends where it began, an open one does not, though it has few corners."""
    for end, closed in (("z", True), ("", False)):
        path = drawing(tmp_path / "l.svg", f'<path d="M 10 10 v 40 h 20 {end}"/>')
        points = mbs.io.read_curve(path)
        assert np.array_equal(points[0], points[-1]) == closed
        for corner in ((10, 50), (10, 10), (30, 10)):
            assert np.hypot(*(points - corner).T).min() < 1e-9
        steps = np.hypot(*np.diff(points, axis=0).T)
        assert steps.sum() == pytest.approx(60 + closed * np.hypot(40, 20))
        assert steps.max() <= steps.sum() / 400 * (1 + 1e-9)


def test_transforms_and_units(tmp_path):
    """A quarter turn to the right and a shift; 100 units are 50 mm."""
    content = '<g transform="translate(50 10) rotate(90)"><polyline points="0,0 20,0 20,10"/></g>'
    points = mbs.io.read_curve(drawing(tmp_path / "t.svg", content, 'width="50mm" height="30mm" viewBox="0 0 100 60"'))
    np.testing.assert_allclose(points[[0, -1]], [(25, 25), (20, 15)], rtol=1e-5)


def test_the_longest_part_and_the_first_path_are_taken(tmp_path):
    path = drawing(tmp_path / "two.svg", '<path d="M 0 0 l 1 1 h 1 M 0 60 h 30 v -5"/>')
    with pytest.warns(UserWarning, match=r"two\.svg: its path has 2 parts"):
        points = mbs.io.read_curve(path)
    np.testing.assert_allclose(points[[0, -1]], [(0, 0), (30, 5)])
    path = drawing(tmp_path / "three.svg", '<path d="M 0 60 h 30 v -5"/><path d="M 0 0 h 50 v 9"/>')
    with pytest.warns(UserWarning, match=r"three\.svg: contains 2 paths"):
        np.testing.assert_allclose(mbs.io.read_curve(path), points)


RADIUS = 40.0
CENTRE = (120.0, 130.0)
WIDTH = 300
HEIGHT = 200


def disk(mode: str) -> Image.Image:
    """Dark, with grey pixels at its edge; a smaller one aside."""
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    far = lambda x0, y0, radius: np.clip(np.hypot(x - x0, HEIGHT - y - y0) - radius + 0.5, 0, 1)
    light = Image.fromarray((255 * far(*CENTRE, RADIUS) * far(250, 40, 9)).astype(np.uint8))
    if mode == "LA":  # white, but opaque only where the disk is
        return Image.merge("LA", (Image.new("L", light.size, 255), light.point(lambda value: 255 - value)))
    return light.convert(mode)


@pytest.mark.parametrize(
    ("name", "mode"), [("d.png", "L"), ("d.PNG", "RGBA"), ("d.jpg", "RGB"), ("d.png", "1"), ("d.png", "LA")]
)
def test_the_outline_of_a_disk(name, mode, tmp_path):
    disk(mode).save(tmp_path / name)
    points = mbs.io.read_curve(tmp_path / name)
    assert len(points) <= 400
    np.testing.assert_array_equal(points[0], points[-1])
    np.testing.assert_allclose(np.hypot(*(points - CENTRE).T), RADIUS, atol=0.2 if mode != "1" else 0.7)


def test_a_shape_at_the_edge_is_closed(tmp_path):
    """The lower half of an image: as high and as wide as it, y up."""
    image = np.full((100, 60), 255, np.uint8)
    image[50:] = 0
    Image.fromarray(image).save(tmp_path / "half.png")
    points = mbs.io.read_curve(tmp_path / "half.png")
    np.testing.assert_array_equal(points[0], points[-1])
    np.testing.assert_allclose(points.max(axis=0), [60, 50], atol=0.51)
    np.testing.assert_allclose(points.min(axis=0), [0, 0], atol=0.51)


def test_a_light_shape_is_warned_of(tmp_path):
    Image.fromarray(255 - np.asarray(disk("L"))).save(tmp_path / "light.png")
    with pytest.warns(UserWarning, match=r"light\.png: its four corners are dark"):
        mbs.io.read_curve(tmp_path / "light.png")


def test_points_of_a_table_stay(tmp_path):
    (tmp_path / "p.csv").write_text("x,y\n0,0\n1;2\n\n# more\n3,1\n")
    np.testing.assert_array_equal(mbs.io.read_curve(str(tmp_path / "p.csv")), [(0, 0), (1, 2), (3, 1)])


BAD = {
    "a.txt": (b"1,2", "the name of a curve must end in"),
    "three.csv": (b"1,2,3\n4,5,6\n7,8,10\n", "2 columns, x and y; got 3"),
    "few.csv": (b"1,2\n3,4\n1,2\n", "three different points"),
    "words.csv": (b"1,2\nthree,4\n", "line 2: must be numbers"),
    "cut.svg": (b"<svg", "cannot be read as an SVG"),
    "page.svg": (b"<html/>", "cannot be read as an SVG"),
    "bare.svg": (f"{HEAD}><circle r='1'/></svg>".encode(), "contains no path"),
    "dot.svg": (f"{HEAD}><path d='M 1 1'/></svg>".encode(), "no line"),
    "far.svg": (f"{HEAD}><path d='M0 0L1e999 1L3 4'/></svg>".encode(), "must be finite"),
    "junk.png": (b"\x89PNG junk", "cannot be read as an image"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named(name, tmp_path):
    content, what = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"^{name}.*{what}") as raised:
        mbs.io.read_curve(tmp_path / name)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("mode", "ground"), [("L", 200), ("RGBA", (0, 0, 0, 0))])
def test_an_image_without_a_shape(mode, ground, tmp_path):
    Image.new(mode, (30, 20), ground).save(tmp_path / "blank.png")
    with pytest.raises(ValueError, match=r"^blank\.png: contains no shape"):
        mbs.io.read_curve(tmp_path / "blank.png")


@pytest.mark.parametrize(("name", "package"), [("a.svg", "svgelements"), ("a.png", "skimage")])
def test_a_missing_package_is_named(name, package, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r'pip install "\.\[sketch\]"'):
        mbs.io.read_curve(tmp_path / name)
