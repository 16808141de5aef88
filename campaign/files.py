"""Model files: random models written and read again, and mutilated files, which must be read or refused in one line."""

import copy
import io
import json
import tempfile
import warnings
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import jax
import numpy as np

import freecad_files
import jaxmbs as mbs
import random_mechanisms as mechanisms
import robots
from campaign.oracle import Oracle
from campaign.schedule import Hangs, alarm

# A file that takes more processor time to read than this, in seconds, is a find. It takes milliseconds, or seconds if a
# program is compiled.
MAX_READ_SECONDS = 60
# Files in a round of mutilated files.
BATCH = 150
# Text of a valid URDF file, with a revolute and a prismatic joint.
URDF = f"""<robot name="arm"><link name="base"/>
<link name="upper">{robots._inertial(1, (0, 0, 0.5), (0.1, 0.1, 0.01))}</link>
<link name="fore">{robots._inertial(2, (0.3, 0, 0), (0.01, 0.2, 0.2))}</link>
{robots._joint("shoulder", "revolute", "base", "upper", axis=(0, 1, 0))}
{robots._joint("elbow", "prismatic", "upper", "fore", (0, 0, 1), axis=(1, 0, 0))}</robot>"""


# Text of a valid SDF file, with frames, a loop, a screw and a gearbox.
SDF = """<sdf version="1.9"><model name="m"><frame name="rear"><pose>1 0 0 0 0 0.5</pose></frame>
<link name="a"><inertial><pose>0 0 0.5 0 0 0</pose><mass>2</mass></inertial></link>
<link name="b"><pose relative_to="rear">0 0 1 0 0 0</pose></link>
<link name="c"><pose relative_to="a">0 0 1 0 0 0</pose></link>
<joint name="one" type="revolute"><parent>world</parent><child>a</child><axis><xyz>0 1 0</xyz><limit><lower>-1</lower>
<upper>1</upper></limit><dynamics><damping>0.1</damping><spring_stiffness>2</spring_stiffness></dynamics></axis></joint>
<joint name="two" type="screw"><parent>world</parent><child>b</child><axis><xyz>0 1 0</xyz></axis>
<screw_thread_pitch>0.2</screw_thread_pitch></joint>
<joint name="three" type="revolute"><parent>a</parent><child>c</child><axis><xyz>0 1 0</xyz></axis></joint>
<joint name="four" type="ball"><parent>b</parent><child>c</child></joint></model></sdf>"""


class RoundTrip(Oracle):
    """A random model, written and read as JSON, is the same to the bit."""

    name = "files there and back"
    about = "a random model that is written and read as JSON has the same bits"
    seconds = 10.0

    def question(self, seed):
        """Return a random mechanism, its q, and random v."""
        rng, dimension = np.random.default_rng(seed), 2 + seed % 2
        build = mechanisms.random_tree if rng.random() < 0.5 else mechanisms.random_closed
        mech, q = build(rng, int(rng.integers(3, 5)), dimension=dimension)
        return mech, q, rng.normal(size=mech.layout.m)

    def answer(self, question):
        """Return mechanism, guess and velocities read from a file, its text, and the text of what was read."""
        mech, q, v = question
        with tempfile.TemporaryDirectory() as folder:
            path = mbs.save(mech, Path(folder) / "model.json", guess=q, velocities=v, name="random")
            text, model = path.read_text(), mbs.load(path)
            return model.mechanism, model.guess, model.velocity, text, mbs.save(model, path).read_text()

    def judge(self, account, question, answer):
        """Record finds for numbers that differ from those written, and for texts of the two files that differ."""
        *found, text, again = answer
        account.count("files", 2)
        for name, one, other in zip(("mechanism", "guess", "velocities"), found, question, strict=True):
            mine, theirs = jax.tree.flatten(one), jax.tree.flatten(other)
            if mine[1] != theirs[1]:
                account.find(f"{name} has another structure")
                continue
            for a, b in zip(mine[0], theirs[0], strict=True):
                account.same(name, a, b)
        if text != again:
            account.find("a file that is read and written again differs")


def damage_bytes(rng, text: str) -> bytes:
    """Return a text as bytes of which a few are changed, deleted or repeated."""
    data = bytearray(text.encode())
    for _ in range(int(rng.integers(1, 4))):
        k = int(rng.integers(len(data)))
        change = rng.integers(4)
        if change == 0:
            data[k] = int(rng.integers(256))
        elif change == 1:
            del data[k : k + int(rng.integers(1, 30))]
        elif change == 2:
            data[k:k] = data[k : k + int(rng.integers(1, 30))]
        else:
            data[k] = b'{}[]",:<>/="\'0-e.'[int(rng.integers(17))]
        if not data:
            break
    return bytes(data)


def cut_off(rng, text: str) -> bytes:
    """Return a text as bytes without its end."""
    return text.encode()[: int(rng.integers(len(text)))]


# Values that replace others in mutilated JSON.
STRANGE_VALUES = (
    None, True, -1, 0, 1e300, -1e-300, 5e-324, 10**30, "", "ground", "NaN", "a b",
    [], {}, [[]], [1, 2, 3], [1e308] * 3, {"": 0},
)  # fmt: skip


def damage_values(rng, text: str) -> bytes:
    """Return a JSON text with some values changed, deleted, renamed or copied."""
    document = json.loads(text)
    for _ in range(int(rng.integers(1, 4))):
        places = list(_holders_and_keys(document))
        if not places:
            break
        holder, key = places[int(rng.integers(len(places)))]
        change = rng.integers(5)
        if change == 0:
            del holder[key]
        elif change == 1 and isinstance(holder, dict):
            holder[str(key) + str(rng.choice(["", "x", " ", "\u0000"]))] = holder.pop(key)
        elif change == 2:
            # A copy of another value, or null if that has been deleted.
            source, name = places[int(rng.integers(len(places)))]
            holder[key] = json.loads(json.dumps(source[name]))
        elif change == 3 and isinstance(holder[key], (int, float)):
            holder[key] = float(rng.choice([0.0, -1.0, 1e9, 1e-9, 1e200])) * holder[key]
        else:
            # A copy, because the next change may alter it.
            holder[key] = copy.deepcopy(STRANGE_VALUES[int(rng.integers(len(STRANGE_VALUES)))])
    return json.dumps(document).encode()


def _holders_and_keys(value):
    """Yield each container of a document with each of its keys."""
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _holders_and_keys(value[key])


# Values that replace those of attributes in mutilated XML.
WORDS = (
    "", "nan", "inf", "1e999", "-1", "0", "1 2", "1 2 3 4 5", "abc", "world", "revolute", "ball", "free", "true", "\u00e9",
    "&#0;", "1e308 1e308 1e308",
)  # fmt: skip
# Texts that replace words between the attributes in mutilated XML.
XML_FRAGMENTS = ("", "x=", "name=", "pos=", "<body>", "</body>", "<joint/>", "<geom/>")


def damage_attributes(rng, text: str) -> bytes:
    """Return an XML text with some values of attributes, or words between them, replaced."""
    for _ in range(int(rng.integers(1, 4))):
        # Parts with an odd index stand between quotes.
        parts = text.split('"')
        k = int(rng.integers(len(parts)))
        if k % 2:
            parts[k] = str(rng.choice(WORDS if rng.random() < 0.7 else parts[1::2]))
        else:
            words = parts[k].split(" ")
            words[int(rng.integers(len(words)))] = str(rng.choice(XML_FRAGMENTS))
            parts[k] = " ".join(words)
        text = '"'.join(parts)
    return text.encode()


@lru_cache(maxsize=1)
def sources() -> dict[str, tuple[str, ...]]:
    """Return the texts of valid files by suffix."""
    rng = np.random.default_rng(0)
    texts = []
    with tempfile.TemporaryDirectory() as folder:
        for dimension in (2, 3):
            mech, q = mechanisms.random_tree(rng, 2, dimension=dimension)
            texts.append(mbs.save(mech, Path(folder) / "model.json", guess=q).read_text())
    return {
        ".json": tuple(texts),
        ".xml": (robots.FOUR_BAR, robots.SCARA, robots.WILD),
        ".urdf": (URDF,),
        ".sdf": (SDF,),
        ".asmt": (freecad_files.pendulum_text(),),
        ".fcstd": (freecad_files.pendulum_document(),),
    }


class Mutilated(Oracle):
    """Mutilated files of one format: each is read, or refused by a `ModelError` in one line."""

    about = "a damaged file is read, or raises a ModelError of one line; no other error, no endless run, no crash"
    seconds = 10.0
    share = 3.0  # most finds came from here
    suffix: ClassVar[str]
    damages: ClassVar[tuple]

    def question(self, seed):
        """Return damaged files as bytes."""
        rng = np.random.default_rng(seed)
        texts = sources()[self.suffix]
        any_of = lambda choices: choices[int(rng.integers(len(choices)))]
        return [any_of(self.damages)(rng, any_of(texts)) for _ in range(BATCH)]

    def answer(self, question):
        """Return for each file None if it was read, else the error."""
        answers = []
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(folder) / f"model{self.suffix}"
            for content in question:
                path.write_bytes(content)
                answers.append(_read(path))
        return answers

    def judge(self, account, question, answer):
        """Record a find for each error that is not a `ModelError` with a message of one line."""
        for content, error in zip(question, answer, strict=True):
            account.count("files", 1)
            account.comparisons += 1
            if error is None:
                continue
            refused = isinstance(error, mbs.ModelError) and str(error).startswith("model") and "\n" not in str(error)
            if not refused:
                account.find(f"{type(error).__name__}: {str(error)[:300]!r} for the file {content[:4000]!r}")


def _read(path: Path):
    """Return the error of reading a file, or None if it is read."""
    try:
        with alarm(MAX_READ_SECONDS):
            mbs.load(path)
    except (Exception, Hangs) as error:
        return error
    return None


class MutilatedJson(Mutilated):
    """Mutilated files in the JSON format of jaxmbs."""

    name = "mutilated JSON"
    suffix = ".json"
    damages = (damage_bytes, cut_off, damage_values, damage_values)


class MutilatedMjcf(Mutilated):
    """Mutilated MJCF files."""

    name = "mutilated MJCF"
    suffix = ".xml"
    damages = (damage_bytes, cut_off, damage_attributes)


class MutilatedSdf(Mutilated):
    """Mutilated SDF files."""

    name = "mutilated SDF"
    suffix = ".sdf"
    damages = (damage_bytes, cut_off, damage_attributes)


class MutilatedUrdf(Mutilated):
    """Mutilated URDF files."""

    name = "mutilated URDF"
    suffix = ".urdf"
    damages = (damage_bytes, cut_off, damage_attributes)


# Texts that replace words in mutilated files of FreeCAD's solver.
SOLVER_WORDS = (
    "",
    "nan",
    "1e999",
    "-1",
    "0",
    "1 2",
    "/A/O",
    "A",
    "Part",
    "Marker",
    "GearJoint",
    "ScrewJoint",
    "time",
    "1/0",
)


def damage_lines(rng, text: str) -> bytes:
    """Return a text with some lines deleted, repeated, indented otherwise, or with another word."""
    lines = text.split("\n")
    for _ in range(int(rng.integers(1, 4))):
        k = int(rng.integers(len(lines)))
        change = rng.integers(4)
        if change == 0:
            del lines[k : k + int(rng.integers(1, 4))]
        elif change == 1:
            lines[k:k] = lines[k : k + int(rng.integers(1, 20))]
        elif change == 2:
            lines[k] = "\t" * int(rng.integers(8)) + lines[k].strip()
        else:
            lines[k] = lines[k][: len(lines[k]) - len(lines[k].lstrip("\t"))] + str(rng.choice(SOLVER_WORDS))
        if not lines:
            break
    return "\n".join(lines).encode()


def packed(damage):
    """Return a damage of the content of a document that packs the damaged content."""

    def make(rng, text: str) -> bytes:
        """Return an archive with the damaged content as bytes."""
        return _archive(damage(rng, text))

    return make


def damage_archive(rng, text: str) -> bytes:
    """Return an archive with the content as bytes of which a few are changed."""
    data = bytearray(_archive(text.encode()))
    for _ in range(int(rng.integers(1, 6))):
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
    return bytes(data)


def _archive(content: bytes) -> bytes:
    """Return an archive with the content of a document as bytes."""
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Document.xml", content)
    return stored.getvalue()


class MutilatedAsmt(Mutilated):
    """Mutilated files of FreeCAD's solver."""

    name = "mutilated ASMT"
    suffix = ".asmt"
    damages = (damage_bytes, cut_off, damage_lines, damage_lines)


class MutilatedFreecad(Mutilated):
    """Mutilated documents of FreeCAD."""

    name = "mutilated FCStd"
    suffix = ".fcstd"
    damages = (damage_archive, packed(damage_bytes), packed(cut_off), packed(damage_attributes))
