"""Moving mechanisms as binary glTF 2.0 (.glb), which browsers, Blender and slides show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb

from jaxmbs.element import GROUND
from jaxmbs.viz.mesh_scene import MeshScene, merged, quaternions, span_frames
from jaxmbs.viz.spatial.meshes import Mesh

# Magic number of a GLB file, "glTF".
MAGIC = 0x46546C67
# Version of glTF.
VERSION = 2
# Type of the chunk of a GLB file with the JSON, "JSON".
JSON_CHUNK = 0x4E4F534A
# Type of the chunk of a GLB file with the arrays, "BIN".
BINARY_CHUNK = 0x004E4942
# Code of 32-bit floating-point numbers in glTF.
FLOAT = 5126
# Code of unsigned 32-bit integers in glTF.
UINT = 5125
# Code of primitives that are lines through points in glTF.
LINE_STRIP = 3
# Names of the shapes of arrays in glTF, by number of columns.
SHAPES = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}
# Roughness of all surfaces, from 0 to 1.
ROUGHNESS = 0.6
# The direction that is up in glTF.
UP = np.array([0.0, 1.0, 0.0])


class Document:
    """A glTF document while it is written: its JSON, and its arrays as bytes."""

    def __init__(self):
        self.json: dict[str, Any] = {"asset": {"version": "2.0", "generator": "jaxmbs"}}
        self.bytes = bytearray()
        self._materials: dict[tuple, int] = {}

    def add(self, kind: str, **entry: Any) -> int:
        """Add an entry to a list of the JSON, without values None, and return its index."""
        entries = self.json.setdefault(kind, [])
        entries.append({key: value for key, value in entry.items() if value is not None})
        return len(entries) - 1

    def array(self, values, *, whole: bool = False) -> int:
        """Add an array (k,) or (k, c) of 32-bit floats, or of whole numbers, and return the index of its accessor."""
        values = np.ascontiguousarray(values, np.uint32 if whole else np.float32)
        data = values.tobytes()
        view = self.add("bufferViews", buffer=0, byteOffset=len(self.bytes), byteLength=len(data))
        self.bytes += data
        columns = values.reshape(len(values), -1)
        return self.add(
            "accessors",
            bufferView=view,
            componentType=UINT if whole else FLOAT,
            count=len(values),
            type=SHAPES[columns.shape[1]],
            min=columns.min(0).tolist(),
            max=columns.max(0).tolist(),
        )

    def material(self, colour: str, opacity: float) -> int:
        """Return the index of the material with this colour and opacity."""
        if (colour, opacity) not in self._materials:
            # Colours of glTF are linear.
            rgb = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in to_rgb(colour)]
            surface = {"baseColorFactor": [*rgb, opacity], "metallicFactor": 0.0, "roughnessFactor": ROUGHNESS}
            blend = "BLEND" if opacity < 1 else None
            self._materials[colour, opacity] = self.add("materials", pbrMetallicRoughness=surface, alphaMode=blend)
        return self._materials[colour, opacity]

    def surface(self, mesh: Mesh, colour: str, opacity: float) -> dict[str, Any]:
        """Return a primitive of glTF for a surface. Without normals it is shown with flat faces."""
        position = self.array(mesh.points)
        indices = self.array(mesh.triangles.ravel(), whole=True)
        return {
            "attributes": {"POSITION": position},
            "indices": indices,
            "material": self.material(colour, opacity),
        }

    def write(self, path: Path) -> None:
        """Write the document as GLB."""
        self.json["buffers"] = [{"byteLength": len(self.bytes)}]
        text = json.dumps(self.json, separators=(",", ":"), ensure_ascii=False).encode()
        chunks = [(JSON_CHUNK, text + b" " * (-len(text) % 4)), (BINARY_CHUNK, bytes(self.bytes))]
        body = b"".join(np.array([len(data), kind], "<u4").tobytes() + data for kind, data in chunks)
        path.write_bytes(np.array([MAGIC, VERSION, 12 + len(body)], "<u4").tobytes() + body)


def write_glb(
    scene: MeshScene,
    times: np.ndarray,
    curves: list[tuple[str, np.ndarray, str]],
    path: Path,
    title: str | None = None,
) -> None:
    """Write a scene with a node for each body, whose translation and rotation have a key at each of the times (F,).

    `curves` are (name, points (k, 3), colour) of lines that stay at rest. A root node turns the direction that is up to
    the y axis of glTF.
    """
    document = Document()
    surfaces: dict[str, list[dict[str, Any]]] = {body: [] for body in scene.places}
    for (body, colour, opacity), mesh in merged(scene.solids).items():
        surfaces[body].append(document.surface(mesh, colour, opacity))
    tracks: list[tuple[int, str, np.ndarray]] = []
    nodes = []
    for body, primitives in surfaces.items():
        index = document.add("meshes", name=body, primitives=primitives) if primitives else None
        motion = {} if body == GROUND else _motion(scene.places[body], scene.axes[body])
        nodes.append(_node(document, body, index, motion, tracks))
    for name, span in scene.spans:
        index = document.add("meshes", name=name, primitives=[document.surface(span.mesh, span.colour, span.opacity)])
        places, axes, scales = span_frames(scene, span)
        nodes.append(_node(document, name, index, _motion(places, axes) | {"scale": scales}, tracks))
    for name, points, colour in curves:
        line = {"attributes": {"POSITION": document.array(points)}, "mode": LINE_STRIP}
        line["material"] = document.material(colour, 1.0)
        nodes.append(document.add("nodes", name=name, mesh=document.add("meshes", name=name, primitives=[line])))
    root = document.add("nodes", name=title or "mechanism", children=nodes, rotation=_upright(scene.up))
    document.add("scenes", nodes=[root])
    document.json["scene"] = 0
    if len(times) > 1:
        keys = document.array(times - times[0])
        samplers = [{"input": keys, "output": document.array(values)} for _, _, values in tracks]
        channels = [{"sampler": k, "target": {"node": node, "path": kind}} for k, (node, kind, _) in enumerate(tracks)]
        document.add("animations", name="motion", samplers=samplers, channels=channels)
    document.write(path)


def _motion(places: np.ndarray, axes: np.ndarray) -> dict[str, np.ndarray]:
    """Return translations (F, 3) and rotations (F, 4) as glTF has them, the scalar part last."""
    return {"translation": places, "rotation": np.roll(quaternions(axes), -1, axis=1)}


def _node(document: Document, name: str, mesh: int | None, motion: dict[str, np.ndarray], tracks: list) -> int:
    """Add a node in the first configuration of its motion, and add the motion to `tracks`; return its index."""
    first = {kind: values[0].tolist() for kind, values in motion.items()}
    node = document.add("nodes", name=name, mesh=mesh, **first)
    tracks += [(node, kind, values) for kind, values in motion.items()]
    return node


def _upright(up: np.ndarray) -> list[float] | None:
    """Return the shortest rotation that turns the direction `up` to y, as a quaternion of glTF; None for y itself."""
    half = np.append(np.cross(up, UP), 1 + up @ UP)
    if np.linalg.norm(half) < 1e-9:  # opposite to y: half a turn about x
        return [1.0, 0.0, 0.0, 0.0]
    return None if half[3] > 2 - 1e-12 else (half / np.linalg.norm(half)).tolist()
