"""Robot files of installed packages load without options, and are the robots of MuJoCo."""

import warnings

import pytest

import jaxmbs as mbs
import robot_files

beside_mujoco = pytest.importorskip("beside_mujoco")

# Files of packages that cannot be read, with the reason.
NOT_READ = {
    "dog_v2/dog.xml": "is outside the model's folder",
    "bases/null_base.xml": "must have a body with mass",
    "bases/null_mount.xml": "must have a body with mass",
}
# Files whose masses differ: MuJoCo neglects that a centre of mass is 2e-9 m beside the origin.
NEGLECTED = ("convex_convex.xml",)
# Larger models are loaded, but not compared.
MAX_BODIES = 60


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("package", robot_files.PACKAGES)
def test_robot_files_of_packages(package):
    files = robot_files.mjcf_files(package)
    if not files:
        pytest.skip(f"{package} is not installed")
    wrong = []
    for path in files:
        m = robot_files.compiled(path)
        if m is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = mbs.load(path)
            except mbs.ModelError as error:
                expected = next((why for end, why in NOT_READ.items() if str(path).endswith(end)), None)
                if expected is None or expected not in str(error):
                    wrong.append(f"{path.name}: {error}")
                continue
            if not m.nv or m.nbody > MAX_BODIES or path.name in NEGLECTED:
                continue
            errors = beside_mujoco.Comparison(path, model, closed=True).closed_errors()
        if errors.mass > 1e-12 or errors.acceleration > 1e-9 or errors.gap > 1e-9 or errors.freedoms:
            wrong.append(f"{path.name}: {errors}")
    assert not wrong
