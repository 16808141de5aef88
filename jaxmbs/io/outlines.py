"""Curves from files: points of a table, a path of an SVG drawing, the outline of a silhouette."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path

import numpy as np

# A path of a drawing is divided into about this many straight pieces; each of its segments has at least one.
PATH_PIECES = 400
# Straight pieces into which a segment of a path is divided to measure its length.
LENGTH_PIECES = 16
# The outline of a shape in an image is thinned to at most this many points.
MAX_OUTLINE_POINTS = 400
# Images with a smaller difference of brightness between shape and background are refused; black and white differ by 1.
MIN_CONTRAST = 0.1
# Millimetres in an inch.
MM_PER_INCH = 25.4
# Command that installs the packages for drawings and images.
INSTALL = 'pip install ".[sketch]"'


def read_curve(path: str | os.PathLike) -> np.ndarray:
    """Read the points of a curve from a table, a drawing or an image.

    - `.csv`: x and y on each line; a first line of words is left out.
    - `.svg`: the first path of a drawing, else its first polyline or polygon, with its transformation. Of a path with
      several parts the longest is taken, with a warning.
    - `.png`, `.jpg`, `.jpeg`: the outline of a dark shape on a light background, or of the opaque part of an image that
      is partly transparent. Of several outlines the longest is taken.

    y points up in all of them. Drawings and images have the origin in their lower left corner. The unit of a drawing is
    the millimetre if its size has a unit, else its own; that of an image is the pixel. A closed curve of a drawing or an
    image ends at its first point. Drawings and images need packages that `pip install ".[sketch]"` installs.

    Args:
        path: the file.

    Returns:
        the points (T, 2) in their order along the curve, for instance for `synthesis.curve`.

    Raises:
        ValueError: an unknown suffix; a file that cannot be read as such; no curve in it.

    Examples:
        >>> from pathlib import Path
        >>> d = "M 10 10 h 20 v -5"
        >>> path = Path("hook.svg")
        >>> _ = path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20"><path d="{d}"/></svg>')
        >>> points = mbs.io.read_curve(path)
        >>> points[0], points[-1]
        (array([10., 10.]), array([30., 15.]))
    """
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path.name}: the name of a curve must end in one of {', '.join(READERS)}")
    points = reader(path)
    if len(np.unique(points, axis=0)) < 3:
        raise ValueError(f"{path.name}: a curve needs at least three different points")
    return points


def read_table(path: Path) -> np.ndarray:
    """Read the rows of a CSV file; raise `ValueError` unless all entries are finite numbers in rows of one length."""
    rows: list[list[float]] = []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path.name}: is not text in UTF-8") from None
    for k, line in enumerate(text.splitlines(), 1):
        words = line.replace(";", ",").replace("\t", ",").split(",") if line.strip() else []
        if not words or line.lstrip().startswith("#"):
            continue
        try:
            row = [float(word) for word in words]
        except ValueError:
            if rows or k > 1:
                raise ValueError(f"{path.name}, line {k}: must be numbers, got {line.strip()[:40]!r}") from None
            continue
        if not all(map(math.isfinite, row)):
            raise ValueError(f"{path.name}, line {k}: numbers must be finite")
        if rows and len(row) != len(rows[0]):
            raise ValueError(f"{path.name}, line {k}: {len(row)} numbers, the lines before it have {len(rows[0])}")
        rows.append(row)
    if not rows:
        raise ValueError(f"{path.name}: contains no numbers")
    return np.array(rows)


def _from_table(path: Path) -> np.ndarray:
    """Read points (T, 2) from a CSV file."""
    table = read_table(path)
    if table.shape[1] != 2:
        raise ValueError(f"{path.name}: a curve needs 2 columns, x and y; got {table.shape[1]}")
    return table


def _from_drawing(path: Path) -> np.ndarray:
    """Read points (T, 2) from an SVG file."""
    try:
        import svgelements as svg
    except ImportError as error:
        raise ImportError(f"{path.name}: .svg is read with svgelements: {INSTALL}") from error
    try:
        # With 25.4 units per inch the unit is the millimetre.
        drawing = svg.SVG.parse(str(path), reify=True, ppi=MM_PER_INCH)
        box = drawing.viewbox
        if box is not None:  # sizes in percent refer to the drawing's own units
            drawing = svg.SVG.parse(str(path), reify=True, ppi=MM_PER_INCH, width=box.width, height=box.height)
        shapes = list(drawing.elements(lambda element: isinstance(element, svg.Shape)))
    except (SyntaxError, ValueError, AttributeError, IndexError, TypeError):  # errors of the parser
        raise ValueError(f"{path.name}: cannot be read as an SVG drawing") from None
    paths = [shape for shape in shapes if isinstance(shape, svg.Path)]
    paths = paths or [svg.Path(shape) for shape in shapes if isinstance(shape, svg.Polyline | svg.Polygon)]
    if not paths:
        raise ValueError(f"{path.name}: contains no path, polyline or polygon")
    if len(paths) > 1:
        warnings.warn(f"{path.name}: contains {len(paths)} paths; the first one is taken", stacklevel=3)
    try:
        parts = [part for part in map(_points_along, paths[0].as_subpaths()) if len(part) > 1]
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    if not parts:
        raise ValueError(f"{path.name}: its path has no line")
    if len(parts) > 1:
        warnings.warn(f"{path.name}: its path has {len(parts)} parts; the longest one is taken", stacklevel=3)
    height = drawing.height if box is not None or "height" in drawing.values["attributes"] else 0.0
    return max(parts, key=_length) * [1, -1] + [0, height]


def _points_along(part) -> np.ndarray:
    """Return points (n, 2) along a part of a path of svgelements, with the ends of all segments."""
    segments = [x for x in part if type(x).__name__ != "Move" and x.start is not None and x.end is not None]
    at = lambda segment, n: np.array([tuple(place) for place in segment.npoint(np.linspace(0, 1, n + 1))])
    coarse = [at(segment, LENGTH_PIECES) for segment in segments]
    if not np.all(np.isfinite(coarse)):
        raise ValueError("points of its path must be finite")
    lengths = np.array([_length(points) for points in coarse])
    pieces = np.ceil(PATH_PIECES * lengths / max(lengths.sum(), 1e-300)).astype(int)
    found = [at(segment, n)[k > 0 :] for k, (segment, n) in enumerate(zip(segments, pieces, strict=True))]
    return np.concatenate([np.zeros((0, 2)), *found])


def _length(points: np.ndarray) -> float:
    """Return the length of a polyline through points (n, 2)."""
    return float(np.hypot(*np.diff(points, axis=0).T).sum())


def _from_image(path: Path) -> np.ndarray:
    """Read the outline (T, 2) of a shape from an image, in pixels."""
    try:
        from PIL import Image, ImageOps
        from skimage import filters, measure
    except ImportError as error:
        raise ImportError(f"{path.name}: images are read with Pillow and scikit-image: {INSTALL}") from error
    with path.open("rb") as file:
        try:
            image = ImageOps.exif_transpose(Image.open(file))
            values = _darkness(image)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            raise ValueError(f"{path.name}: cannot be read as an image") from None
    if np.ptp(values) < MIN_CONTRAST:
        raise ValueError(f"{path.name}: contains no shape that is darker than its background")
    dark = values > filters.threshold_otsu(values)
    if dark[[0, 0, -1, -1], [0, -1, 0, -1]].all():
        warnings.warn(
            f"{path.name}: its four corners are dark; a shape must be dark on a light background", stacklevel=3
        )
    ground, shape = values[~dark].mean(), values[dark].mean()
    # A light border closes the outline of a shape at the edge.
    outlines = measure.find_contours(np.pad(values, 1, constant_values=ground), (ground + shape) / 2)
    longest = max(outlines, key=len)
    taken = np.linspace(0, len(longest) - 1, min(len(longest), MAX_OUTLINE_POINTS)).round().astype(int)
    row, column = longest[taken].T - 1
    # Indices of rows and columns refer to the middles of pixels.
    return np.column_stack([column + 0.5, len(values) - 0.5 - row])


def _darkness(image) -> np.ndarray:
    """Return the darkness of each pixel from 0 to 1, or its opacity if the image is partly transparent."""
    if image.has_transparency_data:
        image = image.convert("RGBA")
        opaque = np.asarray(image.getchannel("A"), float) / 255
        if np.ptp(opaque) >= MIN_CONTRAST:
            return opaque
        image = image.convert("RGB")
    light = np.asarray(image.convert("F"), float)
    # In images with more than eight bits per pixel the lightest pixel counts as white.
    return 1 - light / max(255.0, light.max())


# Function that reads the points of a curve, by suffix of the file.
READERS = {".csv": _from_table, ".svg": _from_drawing, ".png": _from_image, ".jpg": _from_image, ".jpeg": _from_image}
