"""A piston compressor on a bench: a motor with its gearbox, friction in all joints, a valve that hits its stops.

The motor has a resistance, an inductance and a rotor, and starts from rest. Friction in the pins and of the piston comes
from the reactions of these joints, so it is largest where the gas presses most. The outlet valve is a plate on a spring
that the gas lifts, between two stops. The run prints where the electrical energy went, and that the parts add up; the
picture has speed, current and the friction of the pins over the run, and the last opening of the valve.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Radius of the crank (m).
CRANK = 0.02
# Length of the connecting rod (m).
ROD = 0.08
# Distance of piston and head at the dead centre (m).
CLEARANCE = 0.004
# Area of the piston (m²).
AREA = 1.2e-3
# Area of the outlet valve's plate (m²).
VALVE_AREA = 1.5e-4
# Pressure of the intake (Pa).
INTAKE = 1e5
# Pressure behind the outlet valve (Pa).
OUTLET = 5e5
# Exponent of the polytrope of the gas.
EXPONENT = 1.3
# Voltage of the motor (V).
VOLTAGE = 24.0
# Torque of the motor per current (N m/A).
TORQUE_CONSTANT = 0.04
# Resistance of the motor (Ω).
RESISTANCE = 0.5
# Ratio of the gearbox, motor speed to crank speed.
RATIO = 4.0
# Largest lift of the valve's plate (m).
LIFT = 1e-3


def pressure(state):
    """Return the pressure in the cylinder: that of the intake, then a polytrope until the outlet opens (Pa)."""
    guide = state.joint("cylinder")
    gap = CRANK + ROD + CLEARANCE - guide.slide
    compressed = INTAKE * ((2 * CRANK + CLEARANCE) / gap) ** EXPONENT
    on_the_way = 0.5 * (1 + jnp.tanh(guide.slide_rate / 0.02))
    return INTAKE + on_the_way * (jnp.minimum(compressed, OUTLET) - INTAKE)


def gas(state):
    """Return the force of the gas on the piston (N)."""
    return -(pressure(state) - INTAKE) * AREA


def lift(state):
    """Return the force of the gas on the valve (N)."""
    return (pressure(state) - 0.8 * OUTLET) * VALVE_AREA


def compressor():
    """Return crank, rod and piston, and the plate of the outlet valve."""
    bodies = {
        "crank": planar.Body(mass=0.4, inertia=4e-4),
        "rod": planar.Body(mass=0.15, inertia=1e-4, com=(ROD / 3, 0)),
        "piston": planar.Body(mass=0.2, inertia=1e-4),
        "plate": planar.Body(mass=0.004, inertia=1e-6),
    }
    joints = {
        "main": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
        "crankpin": planar.Revolute("crank", "rod", (CRANK, 0), (0, 0)),
        "wristpin": planar.Revolute("rod", "piston", (ROD, 0), (0, 0)),
        "cylinder": planar.Translational("ground", "piston", (0, 0), (0, 0)),
        "valve": planar.Translational("ground", "plate", (CRANK + ROD + 2 * CLEARANCE, 0), (0, 0)),
    }
    dry = {"dynamic": 0.08, "static": 0.12, "velocity": 0.02}
    forces = {
        "gravity": mbs.Gravity((0, -9.81)),
        "gas": mbs.PointForce("piston", (0, 0), (gas, 0.0)),
        "lift": mbs.PointForce("plate", (0, 0), (lift, 0.0)),
        "motor": mbs.Motor(
            "main", TORQUE_CONSTANT, RESISTANCE, VOLTAGE, ratio=RATIO, inertia=2e-5, inductance=1e-3, efficiency=0.9
        ),
        "rub main": mbs.JointFriction("main", **dry, radius=0.01),
        "rub crankpin": mbs.JointFriction("crankpin", **dry, radius=0.008),
        "rub wristpin": mbs.JointFriction("wristpin", **dry, radius=0.006),
        "rub cylinder": mbs.JointFriction("cylinder", **dry, viscous=2.0),
        "valve spring": mbs.JointSpring("valve", stiffness=4e3, free=-1e-3, damping=0.05),
        "seat": mbs.JointStop("valve", 0.0, LIFT, stiffness=3e8, damping=0.3),
    }
    return mbs.Mechanism(bodies, joints, forces=forces)


def start(angle):
    """Return the closed configuration with the crank at an angle and the valve's plate on its seat."""
    along = np.arcsin(CRANK * np.sin(angle) / ROD)
    piston = CRANK * np.cos(angle) + ROD * np.cos(along)
    pin = CRANK * np.cos(angle), CRANK * np.sin(angle)
    plate = (CRANK + ROD + 2 * CLEARANCE, 0, 0)
    return {"crank": (0, 0, angle), "rod": (*pin, -along), "piston": (piston, 0, 0), "plate": plate}


def integral(y, t):
    """Return the integral of y over t by the trapezoidal rule."""
    return float(np.sum((y[1:] + y[:-1]) * np.diff(t)) / 2)


def show(run, elements, file):
    """Draw speed, current and friction over the run, and the valve over its last opening."""
    t, w = np.asarray(run.t), np.asarray(run.velocity("crank.phi"))
    figure, axes = plt.subplots(4, 1, figsize=(7, 8), layout="constrained", height_ratios=(1, 1, 1.2, 1.2))
    speed, current, friction, valve = axes
    speed.plot(t, w * 30 / np.pi, color=style.PALETTE[0])
    speed.set_ylabel("speed of the\ncrank (1/min)")
    current.plot(t, run.state("motor.current"), color=style.PALETTE[1])
    current.set_ylabel("current of the\nmotor (A)")
    for k, name in enumerate(("main", "crankpin", "wristpin")):
        friction.plot(t, -1e3 * np.asarray(elements[f"rub {name}"].power / w), color=style.PALETTE[k], label=name)
    friction.set(ylabel="friction torque at\nthe crank (mN m)", xlabel="time (s)")
    friction.legend(frameon=False, fontsize=9, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 0.97))
    for ax in (current, friction):
        ax.sharex(speed)
    for ax in (speed, current):
        ax.tick_params(labelbottom=False)
    opening = last_opening(t, 1e3 * np.asarray(run.joint("valve").slide))
    valve.plot(
        1e3 * t[opening], 1e3 * np.asarray(run.joint("valve").slide)[opening], color=style.PALETTE[2], linewidth=1
    )
    valve.axhline(1e3 * LIFT, color=style.ACCENT, linewidth=1, linestyle="--", label="stop")
    valve.set(xlabel="time (ms), the last opening of the valve", ylabel="lift of the\nvalve (mm)")
    valve.legend(frameon=False, fontsize=9, loc="center right")
    for ax in axes:
        style.tidy(ax, equal=False)
    figure.align_ylabels(axes)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def last_opening(t, lift):
    """Return the slice of the times around the last time that the valve opened and closed; all times if it did not."""
    half = 1e3 * LIFT / 2
    closing = np.flatnonzero((lift[:-1] >= half) & (lift[1:] < half))
    opening = np.flatnonzero((lift[:-1] < half) & (lift[1:] >= half))
    if not len(closing) or not len(opening) or opening[0] > closing[-1]:
        return slice(None)
    first, last = opening[opening < closing[-1]][-1], closing[-1]
    margin = (last - first) // 4
    return slice(max(first - margin, 0), last + margin)


def main():
    """Simulate the compressor, and draw speed, current, friction and valve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few turns only")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    until, outputs = (0.04, 401) if options.quick else (0.4, 8001)

    mech, times = compressor(), np.linspace(0, until, outputs)
    run = mbs.simulate(mech, times, start(2.0), step=1e-5, formulation=mbs.JointCoordinates(), throw=True)
    elements = mbs.force_elements(mech, run)
    current = np.asarray(run.state("motor.current"))
    power = {name: np.asarray(one.power) for name, one in elements.items()}
    friction = {name.removeprefix("rub "): -integral(power[name], times) for name in power if name.startswith("rub")}
    speed = np.asarray(run.velocity("crank.phi"))
    mechanical = TORQUE_CONSTANT * RATIO * current * speed
    parts = {
        "copper": integral(RESISTANCE * current**2, times),
        "gearbox": integral(mechanical - power["motor"], times),
        **{f"friction, {name}": x for name, x in friction.items()},
        "gas": -integral(power["gas"] + power["lift"], times),
        "valve": -integral(power["valve spring"] + power["seat"], times),
        "gravity": -integral(power["gravity"], times),
        "kinetic": float(run.energy.kinetic[-1] - run.energy.kinetic[0]),
        "inductance": float(1e-3 * current[-1] ** 2 / 2),
    }
    electrical = integral(VOLTAGE * current, times)
    for name, x in parts.items():
        print(f"{name:22s} {x:8.3f} J  {100 * x / electrical:5.1f} %")
    total = sum(parts.values())
    print(f"{'sum':22s} {total:8.3f} J of {electrical:.3f} J")
    options.output.mkdir(parents=True, exist_ok=True)
    turns = float(run.position("crank.phi")[-1]) / (2 * np.pi)
    record = {"parts": parts, "electrical": electrical, "speed": float(speed[-1]), "turns": turns}
    (options.output / "19_compressor.json").write_text(json.dumps(record, indent=2) + "\n")
    show(run, elements, options.output / "19_compressor.png")
    print(f"picture in {options.output / '19_compressor.png'}")


if __name__ == "__main__":
    main()
