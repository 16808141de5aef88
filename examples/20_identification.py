"""Parameters of machines from noisy recordings: a chaotic double pendulum, and a four-bar driven by a motor.

The double pendulum swings for some seconds, also over the top. Its run is cut into segments, each with its own initial
state, because a search from wrong parameters cannot follow a chaotic run as a whole. For the four-bar on its bench the
angle of the crank and the current of the motor are recorded. The inertias of the crank and of the rotor behind the gearbox
cannot be distinguished, and the search names them; with the inertia of the rotor from its data sheet, all others are found.
"""

import argparse
import json
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# True parameters of the pendulum (SI units).
PENDULUM = {"upper inertia": 0.03, "lower mass": 0.7, "damping": 0.01}
# Parameters of the pendulum at which the search starts (SI units).
PENDULUM_GUESS = {"upper inertia": 0.06, "lower mass": 1.2, "damping": 0.03}
# True parameters of the bench (SI units).
BENCH = {"torque constant": 0.05, "friction": 0.12, "crank inertia": 0.02, "rotor inertia": 5e-5}
# Parameters of the bench at which the search starts (SI units).
BENCH_GUESS = {"torque constant": 0.07, "friction": 0.05, "crank inertia": 0.03, "rotor inertia": 5e-5}
# Lengths of the bench's four-bar (m).
LENGTHS = {"crank": 0.1, "coupler": 0.3, "rocker": 0.25, "ground": 0.35}
# Ratio of the bench's gearbox, motor speed to crank speed.
RATIO = 20.0
# Resistance of the bench's motor (Ω).
RESISTANCE = 2.0
# Voltage of the bench's motor (V).
VOLTAGE = 6.0


def double_pendulum(p):
    """Return the double pendulum."""
    return mbs.Mechanism(
        bodies={
            "upper": planar.Body(mass=1.0, inertia=p["upper inertia"]),
            "lower": planar.Body(mass=p["lower mass"], inertia=0.02),
        },
        constraints={
            "pin": planar.Revolute("ground", "upper", (0, 0), (-0.25, 0)),
            "elbow": planar.Revolute("upper", "lower", (0.25, 0), (-0.2, 0)),
        },
        forces={"gravity": mbs.Gravity((0, -9.81)), "damper": mbs.TorsionDamper("ground", "upper", p["damping"])},
    )


def bench(p):
    """Return the four-bar with a motor at the crank and dry friction of constant load in the main bearing."""
    rod = lambda length: planar.Body(mass=2 * length, inertia=length**3 / 6)
    half = {name: length / 2 for name, length in LENGTHS.items()}
    return mbs.Mechanism(
        bodies={
            "crank": planar.Body(mass=0.5, inertia=p["crank inertia"]),
            "coupler": rod(LENGTHS["coupler"]),
            "rocker": rod(LENGTHS["rocker"]),
        },
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (LENGTHS["crank"], 0), (-half["coupler"], 0)),
            "B": planar.Revolute("coupler", "rocker", (half["coupler"], 0), (half["rocker"], 0)),
            "C": planar.Revolute("ground", "rocker", (LENGTHS["ground"], 0), (-half["rocker"], 0)),
        },
        forces={
            "gravity": mbs.Gravity((0, -9.81)),
            "motor": mbs.Motor("O", p["torque constant"], RESISTANCE, VOLTAGE, ratio=RATIO, inertia=p["rotor inertia"]),
            "bearing": mbs.JointFriction("O", p["friction"], velocity=0.1, radius=1.0, preload=1.0),
        },
    )


def bench_signals(p, mech, motion):
    """Return the signals that the bench records."""
    return {"angle": motion.position("crank.phi"), "current": mbs.force_elements(mech, motion)["motor"].current}


def bench_start():
    """Return the closed configuration with the crank along the ground."""
    a, b, c, g = (LENGTHS[name] for name in ("crank", "coupler", "rocker", "ground"))
    x = (b**2 - c**2 + (g - a) ** 2) / (2 * (g - a))
    tip = np.array([a + x, np.sqrt(b**2 - x**2)])
    along = lambda start, end: (*(start + end) / 2, np.arctan2(*(end - start)[::-1]))
    return {"crank": (0, 0, 0), "coupler": along(np.array([a, 0]), tip), "rocker": along(np.array([g, 0]), tip)}


def identify_pendulum(until, rng):
    """Simulate and identify the pendulum; return record, result, and the run of the guess."""
    times = np.linspace(0, until, round(50 * until) + 1)
    start = {"upper": (0, 0.25, np.pi / 2), "lower": (0.2, 0.5, 0)}
    run = mbs.simulate(double_pendulum(PENDULUM), times, start, step=0.005, throw=True)
    names = ("upper.phi", "lower.phi")
    signals = {name: np.asarray(run.position(name)) + 0.01 * rng.normal(size=len(times)) for name in names}
    record = mbs.Record(times, signals, 0.01, start)
    options = {"lower": 0.0, "starts": 1, "step": 0.005}
    found = mbs.identify(double_pendulum, PENDULUM_GUESS, record, segments=round(2 * until), **options)
    guessed = mbs.simulate(double_pendulum(PENDULUM_GUESS), times, start, step=0.005)
    return record, found, guessed


def identify_bench(until, rng):
    """Simulate and identify the bench; return record, result, and the result with a known rotor."""
    times, start = np.linspace(0, until, round(100 * until) + 1), bench_start()
    run = mbs.simulate(bench(BENCH), times, start, step=0.002, throw=True)
    signals = {
        name: np.asarray(values) + deviation * rng.normal(size=len(times))
        for (name, values), deviation in zip(
            bench_signals(BENCH, bench(BENCH), run).items(), (0.002, 0.03), strict=True
        )
    }
    record = mbs.Record(times, signals, {"angle": 0.002, "current": 0.03}, start)
    options = {"lower": 0.0, "starts": 1, "step": 0.002}
    all_free = mbs.identify(bench, BENCH_GUESS, record, bench_signals, **options)
    rotor = {"rotor inertia": BENCH["rotor inertia"]}
    known = options | {"lower": dict.fromkeys(BENCH, 0.0) | rotor, "upper": rotor}
    return record, all_free, mbs.identify(bench, BENCH_GUESS, record, bench_signals, **known)


def show(pendulum, four_bar, file):
    """Draw recordings, fits and estimates: the pendulum in the upper row, the bench in the lower one."""
    record, found, guessed = pendulum
    bench_record, _, known = four_bar
    figure, axes = plt.subplots(2, 2, figsize=(7, 6.2), layout="constrained", width_ratios=(1.7, 1))
    figure.get_layout_engine().set(h_pad=0.1)
    (angles, pendulum_intervals), (current, bench_intervals) = axes
    for k, name in enumerate(record.signals):
        colour, body = style.PALETTE[k], name.split(".")[0]
        few = slice(None, None, 6)
        angles.plot(
            record.times[few], record.signals[name][few], ".", markersize=5, color=colour, label=f"{body}, measured"
        )
        angles.plot(record.times, found.signals[0][name], color=colour, linewidth=1.2, label="with the values found")
        angles.plot(
            record.times, guessed.position(name), ":", color=colour, linewidth=1.4, label="with the first guess"
        )
    angles.set(xlabel="time (s)", ylabel="angle (rad)")
    angles.set_title("double pendulum (every sixth sample is shown)", fontsize=10)
    angles.legend(frameon=False, fontsize=8, loc="lower left")
    ampere = bench_record.signals["current"], known.signals[0]["current"]
    current.plot(bench_record.times, ampere[0], ".", markersize=4, color=style.PALETTE[2], label="measured")
    current.plot(bench_record.times, ampere[1], color=style.PALETTE[3], linewidth=1.2, label="with the values found")
    current.set(xlabel="time (s)", ylabel="motor current (A)")
    current.set_title("four-bar with a motor", fontsize=10)
    current.legend(frameon=False, fontsize=8, loc="upper right")
    for ax, one, true in ((pendulum_intervals, found, PENDULUM), (bench_intervals, known, BENCH)):
        names = [name for name in one.names if one.deviations[name] > 0]
        for k, name in enumerate(names):
            low, high = (100 * (x / true[name] - 1) for x in one.intervals[name])
            interval = ax.plot([low, high], [k, k], color=style.PALETTE[0], linewidth=3, solid_capstyle="butt")
            estimate = ax.plot(
                100 * (one.estimates[name] / true[name] - 1), k, "o", color=style.PALETTE[1], markersize=5
            )
            label = ax.annotate(
                name, (0.5, k), (0, 7), ("axes fraction", "data"), "offset points", ha="center", fontsize=9
            )
            label.set_bbox({"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.5})
        ax.axvline(0, color=style.INK, linewidth=0.8, zorder=1)
        ax.set(yticks=[], ylim=(-0.5, len(names) - 0.4), xlabel="difference from\nthe true value (%)")
        ax.locator_params(axis="x", nbins=5)
        ax.margins(x=0.1)
    pendulum_intervals.legend(
        [*estimate, *interval], ["estimate", "95 % interval"], frameon=False, fontsize=8,
        ncols=2, columnspacing=1, handlelength=1.2, loc="lower center", bbox_to_anchor=(0.5, 1.0),
    )  # fmt: skip
    for ax in axes.flat:
        style.tidy(ax, equal=False)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def main():
    """Identify pendulum and bench from simulated recordings, and draw fits and estimates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short recordings")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    rng = np.random.default_rng(0)

    pendulum = identify_pendulum(2.0 if options.quick else 6.0, rng)
    print("double pendulum\n" + pendulum[1].explain())
    four_bar = identify_bench(0.5 if options.quick else 2.0, rng)
    print("\nfour-bar, everything free\n" + four_bar[1].explain())
    print("\nfour-bar, the rotor from its data sheet\n" + four_bar[2].explain())

    options.output.mkdir(parents=True, exist_ok=True)
    record = {
        name: {"estimates": one.estimates, "deviations": one.deviations, "undetermined": one.undetermined}
        for name, one in (("pendulum", pendulum[1]), ("bench", four_bar[2]))
    }
    record["undetermined"] = four_bar[1].undetermined
    (options.output / "20_identification.json").write_text(json.dumps(record, indent=2) + "\n")
    show(pendulum, four_bar, options.output / "20_identification.png")


if __name__ == "__main__":
    main()
