"""Robot files that load without options, beside MuJoCo and Pinocchio: `benchmarks/robots.py [PACKAGE=FOLDER=VERSION …]`.

Without arguments the installed packages of `PACKAGES` are read. Writes robots.json, from which the docs take their tables;
results of packages that are not read again are kept. A file counts if MuJoCo compiles it and a body in it has a mass
(MJCF), or if Pinocchio reads it and something in it moves (URDF).

For each file that loads, mass matrix and accelerations are compared with those of MuJoCo or Pinocchio in a random state
near the start, without contacts, stops and dry friction. Loops are closed exactly on both sides. The terms J̇q̇ of MuJoCo's
equalities are differences of their Jacobian along the motion.
"""

import importlib.metadata
import importlib.util
import json
import sys
import time
import warnings
from pathlib import Path

import jax

import jaxmbs as mbs

sys.path.append(str(Path(__file__).parents[1] / "tests/helpers"))
import beside_mujoco
import beside_pinocchio
import robot_files

jax.config.update("jax_enable_x64", True)

# File of the results.
RESULTS = Path(__file__).with_suffix(".json")
# Packages with robot files: name of the module ↦ name of the distribution.
PACKAGES = {
    "gymnasium": "gymnasium", "dm_control": "dm_control", "brax": "brax", "robosuite": "robosuite",
    "example_robot_data": "example-robot-data", "pybullet_data": "pybullet",
}  # fmt: skip
# Generated files of pybullet_data, a thousand random objects of one body each, are left out.
LEFT_OUT = "random_urdfs"
# Seed of the random states.
SEED = 1
# Largest relative differences of mass matrices, of accelerations and of constraints that count as rounding.
LIMITS = {"mass": 1e-12, "acceleration": 1e-9, "gap": 1e-9, "freedoms": 0}
# Kinds of elements that are left out on both sides where they are passed over, and inertias, which are repaired on both.
LEFT_OUT_KINDS = ("actuator", "armature", "damping", "fluid", "inertia", "stiffness", "tendon")


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


def compare(path: Path, model: mbs.Model) -> dict[str, float]:
    """Return the differences between the equations of a model and those of MuJoCo or Pinocchio; {} if nothing moves."""
    if path.suffix == ".urdf":
        return beside_pinocchio.Comparison(path, model, SEED).errors()._asdict()
    case = beside_mujoco.Comparison(path, model, SEED, closed=True)
    return case.closed_errors()._asdict() if case.source.m.nv else {}


def row(folder: Path, version: str) -> dict:
    """Return the counts of a package and its largest differences, and the files that do not load, move or agree."""
    files, longest = files_of(folder), 0.0
    found = {"not read": {}, "without motions": [], "different": {}, "left out": {}}
    compared, largest = 0, dict.fromkeys(LIMITS, 0.0)
    for path in files:
        name, begin = str(path.relative_to(folder)), time.process_time()
        try:
            model = mbs.load(path)
        except mbs.ModelError as error:
            found["not read"][name] = str(error).split(": ", 1)[-1]
            continue
        finally:
            longest = max(longest, time.process_time() - begin)
        errors = {key: float(abs(x)) for key, x in compare(path, model).items()}
        if not errors:
            found["without motions"].append(name)
        elif any(not errors[key] <= limit for key, limit in LIMITS.items()):
            found["different"][name] = errors
        else:
            compared += 1
            for kind in {sentence.split(":")[0] for sentence in model.passed_over} & {*LEFT_OUT_KINDS}:
                found["left out"][kind] = found["left out"].get(kind, 0) + 1
            largest = {key: max(x, errors[key]) for key, x in largest.items()}
    counts = {"version": version, "files": len(files), "agree": compared, "longest, CPU s": longest}
    return counts | {"largest differences": largest} | found


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
