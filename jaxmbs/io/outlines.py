"""Curves that are read: points of a table, a path of an SVG drawing, the outline of a silhouette."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path

import numpy as np

# A path becomes about this many straight pieces, at least one for each segment; its length is measured with fewer.
MAX_PIECES, COARSE_PIECES = 400, 16
# Points of an outline that is read from an image.
MAX_OUTLINE_POINTS = 400
# A shape is at least this much darker than what is around it, of a full range of 1.
MIN_CONTRAST = 0.1
MM_PER_INCH = 25.4
INSTALL = 'pip install ".[sketch]"'


def read_curve(path: str | os.PathLike) -> np.ndarray:
    """Points (T, 2) of a curve in their order along it. The suffix says how they are read:

    - `.csv`: x and y on each line; a first line of words is left out.
    - `.svg`: the first path of a drawing, else its first polyline or polygon, as it is transformed. Of a path with
      several parts the longest is taken, with a warning.
    - `.png`, `.jpg`, `.jpeg`: the outline of a dark shape on a light ground, or of what is opaque where the image is
      transparent in parts. Of several outlines the longest is taken.

    y points up in all of them. Drawings and images have the origin in their lower left corner. The unit of a drawing is
    the millimetre if its size has a unit, else its own; that of an image is the pixel. A closed curve of a drawing or an
    image ends at its first point.

    Args:
        path: the file.

    Returns:
        (T, 2), for instance for `synthesis.curve`.

    Raises:
        ValueError: an unknown suffix; a file that cannot be read as such; no curve in it.
        ImportError: a package is missing; `pip install ".[sketch]"` installs all that drawings and images need.

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
        raise ValueError(f"{path.name}: no curve can be read from it; a name ends in {', '.join(READERS)}")
    points = reader(path)
    if len(np.unique(points, axis=0)) < 3:
        raise ValueError(f"{path.name}: a curve needs at least three different points")
    return points


def read_table(path: Path) -> np.ndarray:
    """The numbers of a CSV file.

    Raises:
        ValueError: something in it is not a finite number, or lines are of different lengths.
    """
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
        raise ValueError(f"{path.name}: there is no number in it")
    return np.array(rows)


def _from_table(path: Path) -> np.ndarray:
    table = read_table(path)
    if table.shape[1] != 2:
        raise ValueError(f"{path.name}: points of a curve have 2 columns, got {table.shape[1]}")
    return table


def _from_drawing(path: Path) -> np.ndarray:
    try:
        import svgelements as svg
    except ImportError as error:
        raise ImportError(f"{path.name}: .svg is read with svgelements: {INSTALL}") from error
    try:
        # An inch of this many units makes a millimetre one.
        drawing = svg.SVG.parse(str(path), reify=True, ppi=MM_PER_INCH)
        box = drawing.viewbox
        if box is not None:  # what is as wide as a page is as wide as the drawing's own units say
            drawing = svg.SVG.parse(str(path), reify=True, ppi=MM_PER_INCH, width=box.width, height=box.height)
        shapes = list(drawing.elements(lambda element: isinstance(element, svg.Shape)))
    except (SyntaxError, ValueError, AttributeError, IndexError, TypeError):  # whatever the parser stumbles over
        raise ValueError(f"{path.name}: cannot be read as an SVG drawing") from None
    paths = [shape for shape in shapes if isinstance(shape, svg.Path)]
    paths = paths or [svg.Path(shape) for shape in shapes if isinstance(shape, svg.Polyline | svg.Polygon)]
    if not paths:
        raise ValueError(f"{path.name}: there is no path in it, nor a polyline or a polygon")
    if len(paths) > 1:
        warnings.warn(f"{path.name}: {len(paths)} paths are in it; the first one is taken", stacklevel=3)
    try:
        parts = [part for part in map(_flattened, paths[0].as_subpaths()) if len(part) > 1]
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    if not parts:
        raise ValueError(f"{path.name}: its path has no line")
    if len(parts) > 1:
        warnings.warn(f"{path.name}: its path has {len(parts)} parts; the longest one is taken", stacklevel=3)
    height = drawing.height if box is not None or "height" in drawing.values["attributes"] else 0.0
    return max(parts, key=_length) * [1, -1] + [0, height]


def _flattened(part) -> np.ndarray:
    """Points (n, 2) of a part of a path of svgelements, in its axes, with the ends of all segments among them."""
    segments = [x for x in part if type(x).__name__ != "Move" and x.start is not None and x.end is not None]
    at = lambda segment, n: np.array([tuple(place) for place in segment.npoint(np.linspace(0, 1, n + 1))])
    coarse = [at(segment, COARSE_PIECES) for segment in segments]
    if not np.all(np.isfinite(coarse)):
        raise ValueError("points of its path must be finite")
    lengths = np.array([_length(points) for points in coarse])
    pieces = np.ceil(MAX_PIECES * lengths / max(lengths.sum(), 1e-300)).astype(int)
    found = [at(segment, n)[k > 0 :] for k, (segment, n) in enumerate(zip(segments, pieces, strict=True))]
    return np.concatenate([np.zeros((0, 2)), *found])


def _length(points: np.ndarray) -> float:
    return float(np.hypot(*np.diff(points, axis=0).T).sum())


def _from_image(path: Path) -> np.ndarray:
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
        raise ValueError(f"{path.name}: there is no shape in it; it must be darker than its ground")
    dark = values > filters.threshold_otsu(values)
    if dark[[0, 0, -1, -1], [0, -1, 0, -1]].all():
        warnings.warn(f"{path.name}: its four corners are dark; a shape must be dark on a light ground", stacklevel=3)
    ground, shape = values[~dark].mean(), values[dark].mean()
    # Light all round, so that the outline of a shape at the edge is closed as well.
    outlines = measure.find_contours(np.pad(values, 1, constant_values=ground), (ground + shape) / 2)
    longest = max(outlines, key=len)
    taken = np.linspace(0, len(longest) - 1, min(len(longest), MAX_OUTLINE_POINTS)).round().astype(int)
    row, column = longest[taken].T - 1
    # Rows and columns are counted at the middles of pixels.
    return np.column_stack([column + 0.5, len(values) - 0.5 - row])


def _darkness(image) -> np.ndarray:
    """From 0 to 1 for each pixel: how opaque it is where the image is transparent in parts, else how dark."""
    if image.has_transparency_data:
        image = image.convert("RGBA")
        opaque = np.asarray(image.getchannel("A"), float) / 255
        if np.ptp(opaque) >= MIN_CONTRAST:
            return opaque
        image = image.convert("RGB")
    light = np.asarray(image.convert("F"), float)
    # Images with more than eight bits for a pixel are as light as their lightest one at most.
    return 1 - light / max(255.0, light.max())


READERS = {".csv": _from_table, ".svg": _from_drawing, ".png": _from_image, ".jpg": _from_image, ".jpeg": _from_image}
