"""Every example runs, makes its picture, and finds what it says it finds."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image

import jaxmbs as mbs

EXAMPLES = Path(__file__).parents[2] / "examples"
# These compile for half a minute and more.
LONG = (
    "04_andrews", "05_balancing", "06_bricard", "07_shafts", "08_velocity_transformation", "09_arms", "10_six_bar",
    "11_excavator", "12_published_paths", "13_five_bar_policy", "14_five_bar_ppo", "15_five_bar_codesign",
    "17_two_processes", "18_alphabet", "19_compressor", "20_identification",
    "21_worn_pin", "22_desk_lamp", "23_suspension", "24_geneva", "25_cam",
)  # fmt: skip
REFERENCE = json.loads((Path(__file__).parent.parent / "references" / "path_synthesis.json").read_text())


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Runs an example once and gives the folder with its output."""
    folders = {}

    def output(name):
        if name not in folders:
            folder = folders[name] = tmp_path_factory.mktemp(name)
            settings = {
                "MPLBACKEND": "Agg",
                "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir,
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
                "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
            }
            command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--quick", "--output", str(folder)]
            run = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
            assert run.returncode == 0, run.stderr
        return folders[name]

    return output


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=[pytest.mark.slow] * (path.stem in LONG))
        for path in sorted(EXAMPLES.glob("[0-9]*.py"))
    ],
)
def test_example_runs_and_makes_its_picture(name, outputs):
    if name == "14_five_bar_ppo":
        pytest.importorskip("skrl")
    folder = outputs(name)
    json.loads((folder / f"{name}.json").read_text())
    with Image.open(folder / f"{name}.png") as picture:
        pixels = np.asarray(picture.convert("RGB"), int)
    assert min(pixels.shape[:2]) > 200
    assert np.ptp(pixels) > 100
    assert f"{name}.py" in (EXAMPLES / "README.md").read_text()


def coupler_points(b):
    """Coupler points at 20° steps of the crank, with the pin of the rocker from two circles in coordinates."""
    angle = b["start"] + b["turn"] * np.deg2rad(20) * np.arange(18)
    pin = b["pivot"] + b["crank"] * np.column_stack([np.cos(angle), np.sin(angle)])
    far = b["pivot"] + b["ground"] * np.array([np.cos(b["angle"]), np.sin(b["angle"])])
    line = far - pin
    square = (line**2).sum(1)
    along = (square + b["coupler"] ** 2 - b["rocker"] ** 2) / (2 * square)
    across = b["side"] * np.sqrt(b["coupler"] ** 2 / square - along**2)
    e = (along[:, None] * line + across[:, None] * np.column_stack([-line[:, 1], line[:, 0]])) / b["coupler"]
    x, y = b["point"]
    return pin + x * e + y * np.column_stack([-e[:, 1], e[:, 0]])


def test_path_synthesis_design_passes_the_published_points(outputs):
    b = json.loads((outputs("01_path_synthesis") / "01_path_synthesis.json").read_text())
    error = np.sum((coupler_points(b) - REFERENCE["targets"]) ** 2)
    np.testing.assert_allclose(b["error"], error, rtol=1e-9)
    # Even 128 designs and 40 steps get as far as the best published design; the whole run reaches 0.0090289.
    assert error < REFERENCE["SSE_threshold"]
    lengths = sorted(b[name] for name in ("ground", "crank", "coupler", "rocker"))
    assert b["crank"] == lengths[0]
    assert lengths[0] + lengths[3] < lengths[1] + lengths[2]


def test_path_synthesis_measures_the_published_design_as_published():
    example = runpy.run_path(str(EXAMPLES / "01_path_synthesis.py"))
    np.testing.assert_array_equal(example["TARGETS"], REFERENCE["targets"])
    assert round(REFERENCE["published_SSE"], 6) == example["PUBLISHED"]
    d = REFERENCE["published_design"]
    names = {"ground": "r1_ground", "crank": "r2_crank", "coupler": "r3_coupler", "rocker": "r4_rocker"}
    b = {name: d[key] for name, key in names.items()}
    b |= {"pivot": np.array([d["x0"], d["y0"]]), "point": np.array([d["rcx"], d["rcy"]]), "angle": d["theta0"]}
    b |= {"start": d["theta0"] + d["theta_start"], "turn": 1, "side": d["sgn"]}
    np.testing.assert_allclose(example["closed_form_error"](b), REFERENCE["published_SSE"], rtol=1e-12)
    np.testing.assert_allclose(np.sum((coupler_points(b) - example["TARGETS"]) ** 2), REFERENCE["published_SSE"])


def example(name):
    """Return the names that an example defines."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def found(name, outputs):
    """The numbers that an example wrote."""
    return json.loads((outputs(name) / f"{name}.json").read_text())


def test_engine_takes_from_the_gas_what_it_gives_to_the_shaft(outputs):
    numbers = found("02_engine", outputs)
    assert abs(numbers["sum (J)"]) < 1e-6
    # ∮ p dV from the indicator diagram alone.
    engine = example("02_engine")
    angle = np.linspace(0, 4 * np.pi, 4001)
    largest = 2 * engine["CRANK"] * engine["AREA"] * engine["COMPRESSION"] / (engine["COMPRESSION"] - 1)
    volume = largest * np.asarray(engine["volume"](angle))
    np.testing.assert_allclose(volume[[0, 1000, 2000]] / largest, [1 / engine["COMPRESSION"], 1, 0.1], rtol=1e-12)
    work = np.trapezoid(np.asarray(engine["pressure"](angle)), volume)
    np.testing.assert_allclose(numbers["work of the gas (J)"], work, rtol=1e-5)
    np.testing.assert_allclose(numbers["mean torque (N m)"], work / (4 * np.pi), rtol=1e-5)


def test_double_pendulums_keep_their_energy_and_flip_only_where_it_suffices(outputs):
    numbers = found("03_double_pendulums", outputs)
    assert numbers["status converged"] == numbers["pendulums"]
    assert numbers["energy error over m g l, worst"] < 1e-3
    assert numbers["flipped"] > numbers["pendulums"] / 3
    assert numbers["flipped without the energy for it"] == 0


def test_first_flip_is_found_between_the_times():
    angles = np.array([[0, 3.0, np.pi + 0.1], [0, -3.0, -2 * np.pi + 3.0], [0, 1, 2]])
    flips = example("03_double_pendulums")["first_flip"](np.array([0.0, 1, 3]), angles)
    part = (np.pi - 3) / (np.pi - 2.9)
    np.testing.assert_allclose(flips, [1 + 2 * part, 2, np.inf])


@pytest.mark.slow
def test_andrews_mechanism_ends_at_the_published_angles(outputs):
    reference = json.loads((EXAMPLES.parent / "tests" / "references" / "andrews.json").read_text())
    script, numbers = example("04_andrews"), found("04_andrews", outputs)
    assert script["START"] == reference["q_initial"]
    assert script["PUBLISHED"] == reference["reference_at_t_0.03"]["q"]
    np.testing.assert_allclose(list(numbers["angles"].values()), script["PUBLISHED"], rtol=0, atol=1e-5)
    assert numbers["energy error"] < 1e-6


@pytest.mark.slow
def test_balancing_makes_the_four_bar_quiet(outputs):
    numbers = found("05_balancing", outputs)
    assert numbers["shaking force after (N)"] < 0.1 * numbers["shaking force before, root mean square (N)"]
    assert numbers["misses Newton's law by (N)"] < 1e-9
    # Berkof & Lowen 1969: half of the uniform coupler counts at either pin, and is balanced there.
    script = example("05_balancing")
    arm = script["REACH"]
    moment = lambda length: script["BAR"] * length**2 / 2 + script["BAR"] * script["COUPLER"] / 2 * length
    discs = {name: (moment(script[name.upper()]) / arm, np.array([-arm, 0])) for name in ("crank", "rocker")}
    assert (
        np.abs(script["shaking"](discs, script["turn"](25))[0]).max()
        < 1e-9 * numbers["shaking force before, root mean square (N)"]
    )
    # No design within reach that is lighter shakes less than not at all.
    assert numbers["added mass (kg)"] < sum(mass for mass, _ in discs.values())


@pytest.mark.slow
def test_bricard_swings(outputs):
    numbers = found("06_bricard", outputs)
    assert (numbers["rank"], numbers["redundant"]) == (29, ["P6"])
    assert numbers["energy change (J)"] < 1e-6
    assert numbers["gap (m)"] < 1e-10


@pytest.mark.slow
def test_shafts_turn_as_the_formula_says(outputs):
    numbers = found("07_shafts", outputs)
    assert numbers["failed"] == 0
    assert numbers["universal: largest difference to the formula"] < 1e-12
    assert numbers["constant velocity: largest difference to 1"] < 1e-12


@pytest.mark.slow
def test_velocity_transformation_is_that_of_the_paper(outputs):
    numbers = found("08_velocity_transformation", outputs)
    # Issa & Arczewski 1998, the matrices after figures 1 and 2.
    assert numbers["grounded"]["π*"] == [[-1, 0, 0, 0], [-2, -1, 0, 0], [-3, -2, -1, 0], [-4, -3, -2, -1]]
    assert numbers["floating"]["π*"][4] == [-2, 0, 0, 0, -1]
    # (4.9), the row of ṙ₅, and (4.13), that of u̇₈.
    assert numbers["grounded"]["R"]["R5"] == ["−Du", "−Du", "u", ""]
    assert numbers["floating"]["R"]["5.e1"] == ["", "−U", "", "", "", "−Uu"]
    for system in numbers.values():
        assert max(system["|Ψ_q R|"], system["|q̇ − R θ̇|"]) < 1e-12


@pytest.mark.slow
def test_arms_keep_their_energy(outputs):
    numbers = found("09_arms", outputs)
    assert numbers["status converged"] == numbers["arms"]
    assert numbers["energy error, median"] < 1e-5


@pytest.mark.slow
def test_six_bar_moves_alike_in_all_coordinates(outputs):
    numbers = found("10_six_bar", outputs)
    assert numbers["coordinates apart"] < 1e-7
    for name in ("Cartesian", "joint coordinates", "… cut at C and F"):
        assert numbers[name]["gap (m)"] < 1e-12
        assert numbers[name]["force off by (N)"] < 1e-6 * numbers["largest force in D (N)"]


@pytest.mark.slow
def test_excavator_holds_its_load(outputs):
    numbers = found("11_excavator", outputs)
    assert numbers["all good"]
    assert numbers["energy not put in by the moments, relative"] < 1e-3
    # At rest at the end the boom's actuator bears the weight of all that hangs on its pin.
    script = example("11_excavator")
    reach = height = rise = 0.0
    places, loads = [], [*script["BODIES"].items()][1:]
    for (name, (mass, com, _)), joint in zip(loads, [*script["MOVES"]][1:], strict=True):
        rise += np.deg2rad(script["MOVES"][joint][1][-1][2])
        points = [(mass, com), *([(1500, script["LOAD"])] if name == "bucket" else [])]
        places += [(m, reach + c[0] * np.cos(rise) - c[2] * np.sin(rise)) for m, c in points]
        pin = script["PINS"][name]
        reach, height = reach + pin[0] * np.cos(rise), height + pin[0] * np.sin(rise)
    held = script["GRAVITY"] * sum(m * x for m, x in places) / 1e3
    np.testing.assert_allclose(numbers["moments at the end, heaviest load (kN m)"]["lift"], held, rtol=1e-9)


@pytest.mark.slow
def test_published_paths_are_bettered(outputs):
    for name, problem in found("12_published_paths", outputs).items():
        assert problem["assembled"], name
        assert problem["closed"], name
        assert problem["published"] is None or problem["error"] < problem["published"], name


@pytest.mark.slow
def test_letters_are_written(outputs):
    """More links write better, and well."""
    for name, letter in found("18_alphabet", outputs).items():
        links, errors, _ = zip(*letter["front"], strict=True)
        assert list(links) == sorted(links), name
        assert list(errors) == sorted(errors, reverse=True), name
        assert errors[-1] < 0.05, name


def test_tolerances_add_up(outputs):
    """Errors are those of the closed form, and within the bound to first order."""
    numbers = found("16_tolerances", outputs)
    assert numbers["statuses"] == {"CONVERGED": numbers["samples"]}
    bound = numbers["largest error to first order, no more than (mm)"]
    assert 0.8 * bound < numbers["error (mm)"]["largest"] < 1.01 * bound
    tolerances = example("16_tolerances")
    nominal, angles = tolerances["NOMINAL"], tolerances["ANGLES"]
    pin = lambda b: b["crank"] * np.column_stack([np.cos(angles), np.sin(angles)])

    def points(b):
        """The coupler point from two circles."""
        line = np.array([b["ground"], 0.0]) - pin(b)
        square = (line**2).sum(1)
        along = (square + b["coupler"] ** 2 - b["rocker"] ** 2) / (2 * square)
        across = np.sqrt(b["coupler"] ** 2 / square - along**2)
        e = (along[:, None] * line + across[:, None] * np.column_stack([-line[:, 1], line[:, 0]])) / b["coupler"]
        x, y = tolerances["POINT"]
        return pin(b) + x * e + y * np.column_stack([-e[:, 1], e[:, 0]])

    designs = mbs.sweeps.Sobol(dict.fromkeys(nominal, mbs.sweeps.Uniform(-0.1, 0.1)), 10**5)
    rows = designs.rows(0, 50)
    store = mbs.sweeps.Results(outputs("16_tolerances") / "tolerances_quick")
    errors = store.numpy("error")
    for k in range(50):
        away = points({name: nominal[name] + rows[name][k] for name in nominal}) - points(nominal)
        assert errors[k] == pytest.approx(np.linalg.norm(away, axis=1).max(), rel=1e-9)


@pytest.mark.slow
def test_two_processes_find_what_one_finds(outputs):
    numbers = found("17_two_processes", outputs)
    assert numbers["difference of the designs"] < 1e-9
    assert numbers["difference of the weights"] < 1e-12


@pytest.mark.slow
def test_the_energies_of_a_compressor_add_up(outputs):
    numbers = found("19_compressor", outputs)
    assert sum(numbers["parts"].values()) == pytest.approx(numbers["electrical"], rel=2e-3)
    assert all(numbers["parts"][name] > 0 for name in numbers["parts"] if name.startswith("friction"))


@pytest.mark.slow
def test_what_was_identified_is_true_within_its_deviations(outputs):
    numbers = found("20_identification", outputs)
    true = {"pendulum": (0.01, 0.7, 0.03), "bench": (0.02, 0.12, 0.05)}
    for name, values in true.items():
        estimates = {key: x for key, x in numbers[name]["estimates"].items() if numbers[name]["deviations"][key] > 0}
        for (key, x), value in zip(sorted(estimates.items()), values, strict=True):
            assert abs(x - value) < 4 * numbers[name]["deviations"][key]
    (direction,) = numbers["undetermined"]
    assert set(direction) == {"crank inertia", "rotor inertia"}


@pytest.mark.slow
def test_a_worn_pin_hits_its_hole(outputs):
    """It cannot leave its hole, and is pressed into its wall by a part of the play only."""
    numbers = found("21_worn_pin", outputs)
    assert numbers["hits"] > 5
    assert 0 < numbers["depth"] < 0.1 * 3e-4
    assert numbers["force"] > 5 * numbers["proper"]


@pytest.mark.slow
def test_desk_lamp_rests_anywhere(outputs):
    """Its springs are those of the exact solution, and it stays where it is let go."""
    numbers = found("22_desk_lamp", outputs)
    torques = numbers["largest torque (N m)"]
    assert torques["free length zero"] < 1e-9 < torques["free length 60 mm"] < torques["without springs"] / 5
    assert max(numbers["relative distance from the exact solution"].values()) < 1e-9
    assert max(numbers["travel of the head after release (m)"]) < 1e-9


@pytest.mark.slow
def test_suspension_is_tuned(outputs):
    """Newton's method squares the misfit in each step, as only right derivatives let it."""
    numbers = found("23_suspension", outputs)
    assert numbers["stability"] == "stable"
    np.testing.assert_allclose(numbers["height (m)"], 0.295, rtol=1e-10)
    np.testing.assert_allclose([numbers["frequencies (Hz)"][0], numbers["damping ratios"][0]], [1.25, 0.3], rtol=1e-10)
    before, after = [x for x in numbers["largest misfit after each step"] if 1e-8 < x < 1e-2][:2]
    assert after < 10 * before**2


@pytest.mark.slow
def test_geneva_pin_enters_along_its_slot(outputs):
    """The crank is the one with which the circle of the pin is tangential to the slot."""
    numbers = found("24_geneva", outputs)
    np.testing.assert_allclose(numbers["design (m)"]["crank"], numbers["tangential (m)"], atol=1e-4)
    assert numbers["jerk after"] < numbers["jerk before"] / 5


@pytest.mark.slow
def test_cam_keeps_its_follower(outputs):
    """Kinematic analysis and simulation agree which follower leaves its cam."""
    numbers = found("25_cam", outputs)
    assert numbers["first cam"]["least force (N)"] < 0 < 30 < numbers["found"]["least force (N)"]
    assert numbers["found"]["gap (m)"] < 0 < 5e-5 < numbers["first cam"]["gap (m)"]
