"""A thousand random mechanisms, each with four of all forces in joints: all formulations give the same motion.

A friction from reactions makes forces depend on multipliers, a rotor's inertia on accelerations; motors, bristles and lags
have states of their own. What differs from formulation to formulation, coordinates, mass matrices, multipliers and how they
are solved for, must not be seen in the motion.
"""

import jax
import numpy as np
import pytest

import jaxmbs as mbs
import random_mechanisms as mechanisms

SAMPLES = 125
TIMES = np.array([0.0, 0.02])
# The error of a step, which is not the same in all coordinates, is below the tolerance.
STEP = 5e-4
SPATIAL = ("Revolute", "Prismatic", "Cylindrical", "Universal", "Spherical")
TOLERANCE = 1e-8


def joint_forces(rng, joint, bodies, dimension):
    """All kinds with random numbers, for a revolute or sliding joint of the tree."""
    u = rng.uniform
    turns = joint.kind == "Revolute"
    rubbing = {"radius": u(0.02, 0.1)} if turns else {}
    coordinates = 3 if dimension == 2 else 6
    place = lambda: rng.uniform(-0.2, 0.2, dimension)
    laws = {"velocity": u(0.1, 0.5), "viscous": u(0, 0.2)}
    return {
        "dry": mbs.JointFriction(joint.name, u(0.05, 0.3), **laws, **rubbing),
        "preloaded": mbs.JointFriction(
            joint.name, u(0.05, 0.3), static=u(0.3, 0.5), preload=u(1, 5), **laws, **rubbing
        ),
        "bristles": mbs.BristleFriction(
            joint.name, u(0.1, 1), stiffness=u(10, 100), damping=u(1, 3), viscous=u(0, 0.2)
        ),
        "spring": mbs.JointSpring(joint.name, u(1, 20), u(-1, 1), u(0.1, 1)),
        "stop": mbs.JointStop(joint.name, u(-1, -0.1), u(0.1, 1), stiffness=u(5, 50), damping=u(0, 0.3)),
        "clutch": mbs.OneWayClutch(joint.name, damping=u(1, 5), capacity=u(1, 5)),
        "rotor": mbs.JointInertia(joint.name, u(0.1, 1)),
        "motor": mbs.Motor(
            joint.name, u(0.05, 0.2), u(1, 3), u(-9, 9), ratio=5.0, inertia=u(1e-3, 1e-2), inductance=u(0.1, 1)
        ),
        "servo": mbs.Servo(
            joint.name,
            mbs.motion.Ramp(u(-1, 1), u(-1, 1)),
            position_gain=u(1, 20),
            velocity_gain=u(0, 2),
            limit=u(2, 9),
        ),
        "actuator": mbs.Actuator(
            joint.name, u(-1, 1), gain=(u(1, 20), 0, 0), bias=(0, -u(1, 20), -u(0, 1)), time_constant=u(0.05, 0.5)
        ),
        "mount": mbs.Bushing(*bodies, place(), place(), stiffness=u(1, 20, coordinates), damping=u(0, 1, coordinates)),
        "pin": mbs.ClearanceRevolute(
            *bodies,
            place(),
            place(),
            clearance=u(0.01, 0.1),
            stiffness=u(5, 50),
            restitution=u(0.5, 1),
            impact_velocity=u(0.5, 1),
        ),
    }


def batch(seed):
    """Mechanisms of one structure as a batch, their configurations and velocities."""
    rng = np.random.default_rng(seed)
    dimension = 2 if seed % 2 else 3
    while True:
        if seed % 4 == 1:
            structure = mechanisms.closed_structure(rng, 3, dimension=2, branching=0.5)
        else:
            structure = mechanisms.tree_structure(
                rng, 2 if dimension == 3 else 3, SPATIAL if dimension == 3 else None, dimension
            )
        hinges = [joint for joint in structure.joints if joint.kind in ("Revolute", "Prismatic", "Translational")]
        if hinges:
            break
    joint = hinges[int(rng.integers(len(hinges)))]
    pair = structure.bodies[-1], structure.bodies[-2]
    names = list(joint_forces(rng, joint, pair, dimension))
    # Every kind comes up: a window that moves over them, and friction from the reaction always.
    chosen = {"dry", *(names[(3 * seed + k) % len(names)] for k in range(3))}

    def sample():
        mech, q = mechanisms.draw(rng, structure)
        forces = joint_forces(rng, joint, pair, dimension)
        added = {f"{name} force": forces[name] for name in names if name in chosen}
        mech = mbs.Mechanism(mech.bodies, mech.constraints, mech.drivers, {**mech.forces, **added})
        # Velocities that joints do not allow: all formulations begin with the nearest ones that they do.
        return mech, q, rng.normal(size=mech.layout.m)

    return mechanisms.stacked([sample() for _ in range(SAMPLES)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_formulations_agree(seed):
    """Velocities after 40 steps to 1e-8 of their size, and nearly no sample fails."""
    mech, q, v = batch(seed)

    def ends(formulation):
        def run(mech, q, v):
            motion = mbs.simulate(mech, TIMES, q, v, step=STEP, formulation=formulation)
            return motion.v[-1], motion.status[-1]

        return jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(mech, q, v))

    wanted, status = ends(None)
    for formulation in (None, mbs.JointCoordinates(), mbs.Natural(), mbs.Kane()):
        found, other = (wanted, status) if formulation is None else ends(formulation)
        good = (status == 0) & (other == 0)
        assert good.mean() > 0.95, formulation
        gap = np.abs(found - wanted)[good].max(axis=1) / np.maximum(np.abs(wanted)[good].max(axis=1), 1)
        assert np.isfinite(found[good]).all()
        assert gap.max() < TOLERANCE, formulation
