"""The picture of parts on the page on CAD: `python docs/site/cad_picture.py [FILE]`, by default docs/images/cad.png.

It is stored, because it needs build123d, viser and Chromium.
"""

import contextlib
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import viser
from films import six_bar
from PIL import Image

import jaxmbs as mbs

# Folder of the repository.
ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "helpers"))
from browser import Browser  # noqa: E402

# Width and height of the picture (pixels).
SIZE = (1100, 520)
# Factor by which the layers are drawn apart on the right.
EXPLODED = 4.5
# Distance of the two drawings, divided by the size of the linkage.
APART = 1.15
# Height by which the right drawing is lower than the left one, with its sign, divided by the size of the linkage.
LOWERED = -0.1
# Largest distance of the triangles from the true surfaces (mm).
TOLERANCE = 0.1
# Direction from the linkage to the camera.
CAMERA = np.array([-0.25, -0.75, 1.0])
# Distance of the camera, divided by the size of the linkage.
CAMERA_DISTANCE = 3.2
# Vertical field of view of the camera (rad).
FIELD_OF_VIEW = 0.35
# Seconds that the browser gets to draw.
PATIENCE = 8.0


def add_parts(server: viser.ViserServer, assembly, size: float, shift: np.ndarray, spread: float) -> None:
    """Add the parts of an assembly to a scene, in units of its size, moved by `shift`, with heights times `spread`."""
    for part in assembly.children:
        corners, faces = part.tessellate(TOLERANCE)
        points = np.array([tuple(corner) for corner in corners])
        points[:, 2] += (spread - 1) * points[:, 2].min()
        colour = tuple(round(255 * x) for x in tuple(part.color)[:3])
        name = f"/{spread}/{part.label}"
        server.scene.add_mesh_simple(name, points / size + shift, np.array(faces), color=colour, flat_shading=True)


def main(path: Path) -> None:
    """Write the picture to a file."""
    mech, run, points = six_bar()
    assembly = mbs.io.solids(mech, run, unit="m", points=points)
    low, high = (np.array(tuple(x)) for x in (assembly.bounding_box().min, assembly.bounding_box().max))
    size = float(np.linalg.norm(high - low))
    server = viser.ViserServer(host="127.0.0.1", port=8090, verbose=False)
    server.scene.set_up_direction("+y")
    add_parts(server, assembly, size, np.zeros(3), 1.0)
    add_parts(server, assembly, size, np.array([APART, LOWERED, 0]), EXPLODED)
    middle = (low + high) / 2 / size + [APART / 2, 0, 0]
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(Browser(Path(folder))) as browser:
        browser.size(*SIZE)
        browser.open(f"http://127.0.0.1:{server.get_port()}")
        time.sleep(PATIENCE)
        (client,) = server.get_clients().values()
        with client.atomic():
            client.camera.up_direction = (0.0, 1.0, 0.0)
            client.camera.position = middle + CAMERA_DISTANCE * CAMERA / np.linalg.norm(CAMERA)
            client.camera.look_at = middle
            client.camera.fov = FIELD_OF_VIEW
        time.sleep(PATIENCE)
        picture = client.get_render(height=2 * SIZE[1], width=2 * SIZE[0])
    server.stop()
    Image.fromarray(picture).convert("RGB").resize(SIZE, Image.Resampling.LANCZOS).save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "cad.png")
