"""Robot files of installed packages."""

import importlib.util
import warnings
from pathlib import Path

import numpy as np

# Packages with MJCF files.
PACKAGES = ("gymnasium", "dm_control", "brax", "robosuite")


def mjcf_files(package):
    """Return the MJCF files of a package, () if it is not installed; see `mjcf_files_in`."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return ()
    return tuple(path for folder in map(Path, spec.submodule_search_locations) for path in mjcf_files_in(folder))


def mjcf_files_in(folder):
    """Return the MJCF files of a folder; those that only other files include are left out."""
    texts = {path: path.read_text(errors="replace") for path in sorted(folder.rglob("*.xml"))}
    return tuple(path for path, text in texts.items() if "<worldbody" in text and "<mujocoinclude" not in text)


def compiled(path):
    """Return the file as an `MjModel` with at least one body, None if it is not valid or not complete."""
    import mujoco

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            m = mujoco.MjSpec.from_file(str(path)).compile()
        except (ValueError, RuntimeError, mujoco.FatalError):
            return None
    return m if m.nbody > 1 and np.any(m.body_mass > 0) else None
