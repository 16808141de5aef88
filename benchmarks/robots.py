"""Count of robot files that load without options: `python benchmarks/robots.py [PACKAGE=FOLDER=VERSION …]`.

Without arguments the installed packages of `PACKAGES` are read. Writes robots.json, from which the docs take their table;
results of packages that are not read again are kept. A file counts if MuJoCo compiles it (MJCF) or Pinocchio reads it
(URDF) and something in it moves.
"""

import importlib.metadata
import importlib.util
import json
import sys
import time
import warnings
from pathlib import Path

import jaxmbs as mbs

sys.path.append(str(Path(__file__).parents[1] / "tests/helpers"))
import robot_files

# File of the results.
RESULTS = Path(__file__).with_suffix(".json")
# Packages with robot files: name of the module ↦ name of the distribution.
PACKAGES = {
    "gymnasium": "gymnasium", "dm_control": "dm_control", "brax": "brax", "robosuite": "robosuite",
    "example_robot_data": "example-robot-data", "pybullet_data": "pybullet",
}  # fmt: skip
# Generated files of pybullet_data, a thousand random objects of one body each, are left out.
LEFT_OUT = "random_urdfs"


def is_movable_urdf(path: Path) -> bool:
    """Return True if Pinocchio reads a URDF and it has a joint that moves."""
    import pinocchio

    try:
        return pinocchio.buildModelFromUrdf(str(path)).nv > 0
    except (ValueError, RuntimeError, UnicodeDecodeError):
        return False


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder that count."""
    mjcf = [path for path in robot_files.mjcf_files_in(folder) if robot_files.compiled(path) is not None]
    urdf = [path for path in sorted(folder.rglob("*.urdf")) if LEFT_OUT not in path.parts and is_movable_urdf(path)]
    return mjcf + urdf


def row(folder: Path, version: str) -> dict:
    """Return the counts of a package, the files that do not load with the reasons, and the longest time of loading."""
    files, not_read, longest = files_of(folder), {}, 0.0
    for path in files:
        begin = time.process_time()
        try:
            mbs.load(path)
        except mbs.ModelError as error:
            not_read[str(path.relative_to(folder))] = str(error).split(": ", 1)[-1]
        longest = max(longest, time.process_time() - begin)
    return {"version": version, "files": len(files), "not read": not_read, "longest, CPU s": longest}


def main() -> None:
    """Read the packages and write the results."""
    warnings.simplefilter("ignore")
    given = {name: place for name, *place in (argument.split("=") for argument in sys.argv[1:])}
    found = {
        name: (spec.submodule_search_locations[0], importlib.metadata.version(PACKAGES[name]))
        for name in PACKAGES
        if (spec := importlib.util.find_spec(name)) and spec.submodule_search_locations
    }
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, (folder, version) in (given or found).items():
        results[name] = row(Path(folder), version)
        print(name, results[name], flush=True)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
