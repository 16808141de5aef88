"""Random mechanisms in motion: formulations against each other, energy, momentum, time reversal."""

import jax
import jax.numpy as jnp
import numpy as np

import random_mechanisms as mechanisms
from campaign.mechanisms import (
    FORMULATIONS,
    bench_of,
    conservative_reference_of,
    map_numbers,
    reference,
    reference_of,
    without_dissipation,
)
from campaign.oracle import Oracle
from jaxmbs import planar


class Formulations(Oracle):
    """Motions in joint coordinates, in natural coordinates and by Kane agree with those in body poses."""

    name = "formulations"
    about = (
        "states after 4,000 steps in joint coordinates, natural coordinates and Kane's equations against those of poses"
    )
    seconds = 60.0
    compiles_once = False

    def question(self, seed):
        """Return mechanisms with their motion in body poses, and the formulation to compare."""
        return *reference_of(seed), FORMULATIONS[seed % len(FORMULATIONS)]

    def answer(self, question):
        """Return the motion in this formulation, with bounds on its errors."""
        made, ref, formulation = question
        return reference(made, ref.batch, ref.end, formulation)

    def judge(self, account, question, answer):
        """Compare the final states of both motions, within the bounds of both."""
        made, ref, formulation = question
        account.count("steps", made.steps())
        bound, name = ref.bound + answer.bound, type(formulation).__name__
        good = ref.good & (answer.state.status == 0)[:, None] & (bound < 1e-4 * ref.scale)
        account.within(name, with_sign_of(made, answer.state, ref.state), ref.state.x, bound, ref.scale, good)


def with_sign_of(made, state, like):
    """Return q and v of a state, with the signs of Euler parameters that are nearer to those of the state `like`."""
    q = state.q.copy()
    if made.structure.dimension == 3:
        for k in range(len(made.structure.bodies)):
            part = slice(7 * k + 3, 7 * k + 7)
            q[:, part] *= np.where((q[:, part] * like.q[:, part]).sum(axis=1, keepdims=True) < 0, -1, 1)
    return np.concatenate([q, state.v], axis=1)


class Energy(Oracle):
    """Motions under springs and weights alone keep the sum of kinetic and potential energy."""

    name = "energy"
    about = "mechanisms with only springs and gravity conserve energy"
    seconds = 40.0
    compiles_once = False

    def question(self, seed):
        """Return mechanisms without dissipation, and their motion."""
        return conservative_reference_of(seed)

    def answer(self, question):
        """Return the states at the start, at the end, and at the end with steps of half the length."""
        return question[1].state.start, question[1].state, question[1].halved

    def judge(self, account, question, answer):
        """Compare the total energies at start and end."""
        ref = question[1]
        start, state, _ = answer
        account.count("steps", question[0].steps())
        first, last, better = (one.kinetic + one.potential for one in answer)
        scale = np.abs(start.kinetic) + np.abs(start.potential) + state.kinetic + np.abs(state.potential) + 1
        # The error of an energy relative to its size is that of the state.
        bound = 4 * np.abs(last - better) + scale * ref.rounding[:, 0] / ref.scale[:, 0]
        account.within("energy", last, first, bound, scale, ref.good[:, 0] & (start.status == 0))


class Reversal(Oracle):
    """With all velocities reversed a motion without dissipation goes back to where it began."""

    name = "time reversal"
    about = "with reversed velocities the motion returns to its start"
    seconds = 40.0
    compiles_once = False

    def question(self, seed):
        """Return mechanisms without dissipation, and their motion."""
        return conservative_reference_of(seed)

    def answer(self, question):
        """Return the first state, and the final one of the reversed motion."""
        made, ref = question
        return ref.state.start, made.run((ref.batch[0], ref.state.q, -ref.state.v), (0.0, ref.end))

    def judge(self, account, question, answer):
        """Compare the final state of the reversed motion with the first state, velocities reversed."""
        made, ref = question
        start, back = answer
        account.count("steps", question[0].steps())
        expected = np.concatenate([start.q, -start.v], axis=1)
        scale = np.maximum(np.abs(expected).max(axis=1, keepdims=True), ref.scale)
        # Errors of the first motion grow in the second one.
        bound = 2 * ref.bound * ref.growth
        good = ref.good & (back.status == 0)[:, None] & (bound < 1e-4 * scale)
        account.within("start", with_sign_of(made, back, start), expected, bound, scale, good)


class Momentum(Oracle):
    """Floating bodies that only pull at each other keep linear and angular momentum."""

    name = "momentum"
    about = "bodies with only internal forces conserve linear and angular momentum"
    seconds = 40.0
    compiles_once = False

    def question(self, seed):
        """Return floating mechanisms with internal forces only, and their motion."""
        made = bench_of(seed, True)
        mech, q, v, end = made.sample(seed)
        return made, reference(made, (without_ground_forces(without_dissipation(mech)), q, v), end)

    def answer(self, question):
        """Return the momenta at the start, at the end, and at the end with steps of half the length."""
        _, ref = question
        states = (ref.state.start, ref.state, ref.halved)
        return [np.asarray(_momenta(ref.batch[0], state.q, state.v)) for state in states]

    def judge(self, account, question, answer):
        """Compare the momenta at start and end."""
        ref = question[1]
        first, last, better = answer
        account.count("steps", question[0].steps())
        scale = np.abs(first).max(axis=1, keepdims=True) + ref.scale
        bound = 4 * np.abs(last - better).max(axis=1, keepdims=True) + scale * ref.rounding / ref.scale
        account.within("momentum", last, first, bound, scale, ref.good)


def without_ground_forces(mech):
    """Return a mechanism without weight and without springs to the ground."""

    def free(element, name, value):
        """Return 0 for weights and for springs to the ground, else the value."""
        grounded = mechanisms.GROUND in (getattr(element, "i", None), getattr(element, "j", None))
        held = name == "acceleration" or (name == "stiffness" and grounded)
        return np.zeros_like(value) if held else value

    return map_numbers(mech, free)


def momenta(mech, q, v):
    """Return linear and angular momentum about the origin, in the ground frame."""
    total = 0.0
    for name, body in mech.bodies.items():
        pose = mech.layout.pose(name, q)
        momentum = body.mass_matrix(pose) @ v[mech.layout.velocity_slices[name]]
        if isinstance(body, planar.Body):
            arm = pose.r[0] * momentum[1] - pose.r[1] * momentum[0]
            total += jnp.stack([momentum[0], momentum[1], arm + momentum[2]])
        else:
            total += jnp.concatenate([momentum[:3], jnp.cross(pose.r, momentum[:3]) + pose.direction(momentum[3:])])
    return total


_momenta = jax.jit(jax.vmap(momenta))
