"""Assembly from rough guesses: a status of success means a small gap, and derivatives agree with differences."""

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
import random_mechanisms as mechanisms
from campaign.mechanisms import SPATIAL
from campaign.oracle import Oracle

# Guesses in a round of the oracle of assemblies, the samples of its batch.
LANES = 2048
# Successive rounds that share a structure, so that its programs are compiled once.
ROUNDS = 8
# Mechanisms in a round of the oracle of assemblies, each with many guesses.
MECHANISMS = 16
# Largest change of a coordinate from an assembled configuration to a wild guess, every second one; angles change by at
# most π. Bodies have lengths of about 1.
MAX_GUESS_DISTANCE = 10.0
# Largest displacement of a guess from an assembled configuration, so small that both sets of unknowns nearly always find
# the same one.
SMALL_DISPLACEMENT = 0.02
# Configurations that differ by more than this are two assembly modes.
MAX_DIFFERENCE_IN_ONE_MODE = 1e-3
# Largest difference of a configuration that both sets of unknowns find, relative to the lengths of bodies, about 1.
MAX_DIFFERENCE = 1e-9
# Step of the central differences of assemblies, which are taken with it and with half of it. If the two disagree, there
# is no derivative to compare with.
STEP = 1e-5
# Upper bound on gaps, relative to the mechanism's `own_length`, as `assemble` promises.
MAX_GAP = 1e-8


@lru_cache(maxsize=2)
def structure_of(seed: int):
    """Return the structure of a round: a single joint, a tree or a closed chain."""
    rng = np.random.default_rng((seed // ROUNDS, 3))
    dimension = int(rng.choice([2, 3]))
    # A screw fits once in every turn, so that most guesses lie near a border between two configurations.
    kinds = tuple(kind for kind in SPATIAL if kind != "Screw") if dimension == 3 else None
    if rng.random() < 0.4:
        return mechanisms.closed_structure(rng, 4 if dimension == 2 else 3, dimension=dimension, kinds=kinds)
    return mechanisms.tree_structure(rng, int(rng.integers(1, 4)), kinds, dimension)


@lru_cache(maxsize=2)
def programs_of(seed: int):
    """Return two compiled functions of h for a batch: the assembly of inputs that change with h, and its derivative."""
    del seed

    def along(h, mech, change, guess, moved, t):
        """Return q, status, Φ and Φ_q of the assembly with mechanism, guess and time changed by h."""
        at = jax.tree.map(lambda x, dx: x + h * dx if eqx.is_inexact_array(x) else x, mech, change)
        assembly = mbs.assemble(at, at.layout.retract(guess, h * moved), t + h)
        matrix = mbs.constraint_jacobian(at, assembly.q, t + h)
        return assembly.q, assembly.status, mbs.constraints(at, assembly.q, t + h), matrix

    axes = (None, 0, 0, 0, 0, None)
    rate = lambda h, *args: jax.jvp(lambda h: along(h, *args)[0], (h,), (1.0,))[1]
    return jax.jit(jax.vmap(along, in_axes=axes)), jax.jit(jax.vmap(rate, in_axes=axes))


def drawn_for(seed: int):
    """Return the generator of a round, its mechanisms as a batch, assembled configurations (LANES, n) and their layout."""
    rng, structure = np.random.default_rng((seed, 5)), structure_of(seed)
    drawn = [mechanisms.draw(rng, structure) for _ in range(MECHANISMS)]
    mech, q = jax.tree.map(np.asarray, mechanisms.stacked(drawn))
    repeat = lambda x: np.repeat(x, LANES // MECHANISMS, axis=0)
    return rng, *jax.tree.map(repeat, (mech, q)), drawn[0][0].layout


class RoughGuesses(Oracle):
    """From any guess, status 0 means a small gap and a derivative that agrees with differences."""

    name = "rough guesses"
    about = "gaps of assembled configurations, and derivatives against finite differences"
    seconds = 45.0

    def question(self, seed):
        """Return random mechanisms and guesses, and the directions in which they change with h."""
        rng, mech, q, layout = drawn_for(seed)
        # Frames are kept: a change of single entries would not give a rotation.
        varies = lambda x: eqx.is_inexact_array(x) and np.shape(x)[-2:] != (3, 3)
        change = jax.tree.map(lambda x: rng.normal(size=np.shape(x)) if varies(x) else np.zeros_like(x), mech)
        # Half of the guesses are rough, half are wild.
        largest = np.where(np.arange(LANES) % 2, MAX_GUESS_DISTANCE, 0.5)[:, None]
        distance = largest * rng.uniform(-1, 1, (LANES, layout.m))
        shift = np.where(layout.angular, np.clip(distance, -np.pi, np.pi), distance)
        guess = np.asarray(jax.vmap(layout.retract)(q, jnp.asarray(shift)))
        return seed // ROUNDS, mech, change, guess, rng.normal(size=(LANES, layout.m))

    def answer(self, question):
        """Return results and derivative at h = 0, two central differences, and the mean of q over the four other h."""
        seed, *args = question
        value, rate = programs_of(seed)
        at = lambda h: jax.tree.map(np.asarray, value(h, *args, 0.1))
        found, derivative = at(0.0), np.asarray(rate(0.0, *args, 0.1))
        (upper, *_), (lower, *_), (near, *_), (other, *_) = (at(h) for h in (STEP, -STEP, STEP / 2, -STEP / 2))
        between = (upper + lower + near + other) / 4
        return found, derivative, (upper - lower) / (2 * STEP), (near - other) / STEP, between

    def judge(self, account, question, answer):
        """Record finds: statuses of 0 with a gap, and derivatives that differ from the differences."""
        (q, status, value, matrix), derivative, coarse, fine, between = answer
        _, mech, *_ = question
        account.count("guesses", len(status))
        good = (status == 0)[:, None]
        size = np.asarray(jax.vmap(lambda mech: mech.own_length)(mech))[:, None]
        lengths = ~mech.layout.angular
        slope = np.abs(matrix[..., lengths]).max(axis=-1, initial=0)
        scale = np.where(slope > 0, slope * size, 1)
        account.within("gap of an assembled configuration", value, 0.0, MAX_GAP * scale, scale, good)
        jump = np.abs(between - q).max(axis=1) >= STEP
        account.derivative("derivative of an assembly", derivative, coarse, fine, jump, status == 0)


@lru_cache(maxsize=2)
def assemblies_of(number: int):
    """Return two compiled functions of a batch (mechanisms, guesses), in coordinates of the bodies and of the joints.

    The number of the structure is only the key of the cache.
    """
    del number

    def assembly(formulation):
        """Return the compiled function that assembles a batch in one formulation: q and status."""

        def assembled(mech, guess):
            """Return q and status of one sample."""
            found = mbs.assemble(mech, guess, 0.1, formulation=formulation)
            return found.q, found.status

        return jax.jit(jax.vmap(assembled))

    return assembly(mbs.Augmented()), assembly(mbs.JointCoordinates())


class JointUnknowns(Oracle):
    """Assembly in joint coordinates gives the same results as in coordinates of the bodies."""

    name = "unknowns of joints"
    about = "assemblies in joint coordinates against those in coordinates of the bodies"
    seconds = 30.0

    def question(self, seed):
        """Return random mechanisms, and guesses near configurations in which they are assembled."""
        rng, mech, q, layout = drawn_for(seed)
        shift = SMALL_DISPLACEMENT * rng.uniform(-1, 1, (LANES, layout.m))
        return seed // ROUNDS, mech, np.asarray(jax.vmap(layout.retract)(q, jnp.asarray(shift)))

    def answer(self, question):
        """Return q and status in both sets of unknowns."""
        number, mech, guess = question
        return [jax.tree.map(np.asarray, assemble(mech, guess)) for assemble in assemblies_of(number)]

    def judge(self, account, question, answer):
        """Record a find if only one of two assemblies succeeds, or if they differ; other assembly modes are counted."""
        (q, status), (of_joints, joint_status) = answer
        account.count("guesses", len(status))
        good = (status == 0) & (joint_status == 0)
        if np.any((status == 0) != (joint_status == 0)):
            account.find(
                f"failures: {np.sum(status != 0)} in coordinates of the bodies, {np.sum(joint_status != 0)} of the joints"
            )
        same = good & (np.abs(q - of_joints).max(axis=1) < MAX_DIFFERENCE_IN_ONE_MODE)
        account.count("guesses with two nearest configurations", np.sum(good & ~same))
        account.within("configuration", of_joints, q, MAX_DIFFERENCE, 1.0, same[:, None])
