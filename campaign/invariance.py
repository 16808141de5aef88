"""Equivalent mechanisms: moved and turned, in other units, with bodies in another order, in other batches."""

import dataclasses

import jax
import numpy as np

import jaxmbs as mbs
from campaign.mechanisms import ENDS, LANES, STOP_EXPONENT, map_numbers, reference_of
from campaign.motions import with_sign_of
from campaign.oracle import Oracle
from random_mechanisms import GROUND
from random_placements import placed_in_plane, placed_in_space


class Repetition(Oracle):
    """The motion of a round, repeated with an equivalent mechanism."""

    seconds = 40.0
    compiles_once = False

    def question(self, seed):
        """Return the mechanisms of a round with their reference motion, and a generator of random numbers."""
        made, ref = reference_of(seed)
        return made, ref, np.random.default_rng((seed, 3))


def map_ground_fields(mech, move):
    """Return a mechanism whose numbers that are fixed to the ground are replaced by move(kind of the field, value)."""

    def change(element, name, value):
        """Return the value of a field of an element, moved if it is fixed to the ground."""
        kind = type(element).__name__
        if ENDS.get(name) and getattr(element, ENDS[name], None) == GROUND:
            return move(name.split("_")[0], value)
        if name == "acceleration" or (
            name == "value" and not element.follower and (kind == "PointForce" or value.shape[-1:] == (3,))
        ):
            return move("axis", value)
        return value

    return map_numbers(mech, change)


class Moved(Repetition):
    """The motion of a batch whose ground points are elsewhere and whose ground directions are turned."""

    name = "moved and turned"
    about = "the same motion with all points and directions of the ground moved and turned"

    def question(self, seed):
        """Return mechanisms, their reference motion, and a random displacement of everything."""
        made, ref, rng = super().question(seed)
        place = (placed_in_plane if made.structure.dimension == 2 else placed_in_space)(rng)
        return made, ref, place

    def answer(self, question):
        """Return the motion of the displaced mechanisms."""
        made, ref, place = question
        mech, q, v = ref.batch
        turn = lambda x: np.einsum("ij,...j->...i", place.a, x)

        def move(kind, value):
            """Return a point, an axis or a frame (`kind`) of the ground after the displacement."""
            if kind == "frame":
                return np.einsum("ij,...jk->...ik", place.a, value)
            return turn(value) + (place.r if kind == "point" else 0)

        return made.run((map_ground_fields(mech, move), *_move_bodies(made, place, q, v, turn)), (0.0, ref.end))

    def judge(self, account, question, answer):
        """Compare the motion with the reference, displaced in the same way."""
        made, ref, place = question
        account.count("steps", made.steps())
        turn = lambda x: np.einsum("ij,...j->...i", place.a, x)
        q, v = _move_bodies(made, place, ref.state.q, ref.state.v, turn)
        wanted = dataclasses.replace(ref.state, q=q, v=v)
        good = ref.good & (answer.status == 0)[:, None]
        account.within("state", with_sign_of(made, answer, wanted), wanted.x, 4 * ref.bound, ref.scale, good)


def _move_bodies(made, place, q, v, turn):
    """Return the coordinates and velocities of all bodies after a displacement `place` of everything."""
    q, v = q.copy(), v.copy()
    d = made.structure.dimension
    n, m = (3, 3) if d == 2 else (7, 6)
    for k in range(len(made.structure.bodies)):
        r, w = slice(n * k, n * k + d), slice(m * k, m * k + d)
        q[:, r], v[:, w] = turn(q[:, r]) + place.r, turn(v[:, w])
        if d == 2:
            q[:, n * k + 2] += place.q[2]
        else:
            part = slice(n * k + 3, n * k + 7)
            q[:, part] = np.stack([np.asarray(_product(place.q[3:], p)) for p in q[:, part]])
    return q, v


_product = jax.jit(mbs.rotation.product)

# Powers of length, mass and time in the unit of a field of an element.
UNIT_POWERS = {
    "point": (1, 0, 0), "com": (1, 0, 0), "distance": (1, 0, 0), "offset": (1, 0, 0), "pitch": (1, 0, 0),
    "radius": (1, 0, 0),
    "free_length": (1, 0, 0), "mass": (0, 1, 0), "inertia": (2, 1, 0), "acceleration": (1, 0, -2),
    "velocity": (1, 0, -1), "viscous": (0, 1, -1),
}  # fmt: skip
# Joints whose coordinate is a length, not an angle.
SLIDING_JOINTS = ("Translational", "Prismatic")


def unit_powers(mech, element, name):
    """Return the powers of length, mass and time in the unit of a field, by its name, of an element of a mechanism."""
    kind = type(element).__name__
    name = name.split("_")[0] if name.startswith("point") else name
    joint = mech.constraints.get(getattr(element, "joint", None))
    slides = kind == "SpringDamper" or type(joint).__name__ in SLIDING_JOINTS
    if name == "stiffness" and kind == "JointStop":
        # A force or torque divided by a power of the coordinate.
        return (1 - STOP_EXPONENT, 1, -2) if slides else (2, 1, -2)
    if name == "damping" and kind == "JointStop":
        return (-1, 0, 1) if slides else (0, 0, 1)
    if name in ("stiffness", "damping"):
        time = -2 if name == "stiffness" else -1
        return (0, 1, time) if slides else (2, 1, time)
    if name == "value":
        return (1, 1, -2) if kind == "PointForce" else (2, 1, -2)
    if name in ("free", "lower", "upper"):
        return (1, 0, 0) if slides else (0, 0, 0)
    if kind == "Motor":
        # Currents keep their unit: torques scale with the constant, and voltages with power.
        length = 1 if slides else 2
        powers = {"torque_constant": (length, 1, -2), "inertia": (2 * length - 2, 1, 0)}
        powers |= {"voltage": (2, 1, -3), "resistance": (2, 1, -3), "inductance": (2, 1, -2)}
        return powers.get(name, (0, 0, 0))
    return UNIT_POWERS.get(name, (0, 0, 0))


class Units(Repetition):
    """Masses and times in other units, by powers of two: every number of the motion is the same, to the bit."""

    name = "units"
    about = (
        "the same bits in units of mass and time larger by powers of two, the same to rounding in other units of length"
    )

    def question(self, seed):
        """Return mechanisms, their reference motion, and factors of the units of mass, time and length."""
        made, ref, rng = super().question(seed)
        return made, ref, 2.0 ** rng.integers(-3, 4, 2), 2.0 ** (2 * rng.integers(-2, 3))

    def answer(self, question):
        """Return the motions with masses and times, and with lengths, in other units."""
        made, ref, (mass, time), length = question
        return [self._run(made, ref, *scales) for scales in ((1.0, mass, time), (length, 1.0, 1.0))]

    def _run(self, made, ref, *scales):
        """Return the motion in units scaled by factors of length, mass and time, converted to the first units."""
        mech, q, v = ref.batch
        size = lambda powers: np.prod([scale**p for scale, p in zip(scales, powers, strict=True)])
        powers = lambda element, name: unit_powers(made.mech, element, name)
        change = lambda element, name, value: value * size(powers(element, name))
        length, _, time = scales
        # Factors of the coordinates and velocities; only lengths change.
        of_q, of_v = (np.where(rows, length, 1) for rows in length_masks(made))
        state = made.run((map_numbers(mech, change), q * of_q, v * of_v / time), (0.0, ref.end * time))
        return dataclasses.replace(state, q=state.q / of_q, v=state.v / of_v * time)

    def judge(self, account, question, answer):
        """Check that other units of mass and time change no bit, and those of length only roundings."""
        made, ref, *_ = question
        exact, rounded = answer
        account.count("steps", question[0].steps())
        account.same("masses and times", exact.x, ref.state.x)
        good = ref.good & (rounded.status == 0)[:, None]
        account.within("lengths", with_sign_of(made, rounded, ref.state), ref.state.x, 4 * ref.bound, ref.scale, good)


def length_masks(made):
    """Return masks of the coordinates and of the velocities that are lengths."""
    d, bodies = made.structure.dimension, len(made.structure.bodies)
    n, m = (3, 3) if d == 2 else (7, 6)
    return np.arange(n * bodies) % n < d, np.arange(m * bodies) % m < d


class Permuted(Repetition):
    """The motion of a batch whose bodies and joints are declared in another order."""

    name = "bodies in another order"
    about = "the same motion with bodies and joints declared in another order"
    seconds = 60.0

    def question(self, seed):
        """Return mechanisms, their reference motion, and orders of bodies and joints."""
        made, ref, _ = super().question(seed)
        # One order for each structure, so that its program is compiled once.
        rng = np.random.default_rng(len(made.structure.joints))
        return made, ref, rng.permutation(len(made.structure.bodies)), rng.permutation(len(made.structure.joints))

    def answer(self, question):
        """Return the motion of the reordered mechanisms, with its bodies in the first order."""
        made, ref, bodies, joints = question
        mech, q, v = ref.batch
        order = lambda named, places: {list(named)[k]: list(named.values())[k] for k in places}
        both = lambda mech: (order(mech.bodies, bodies), order(mech.constraints, joints))
        change = lambda mech: mbs.Mechanism(*both(mech), mech.drivers, mech.forces)
        batch = mech, *(_reorder_bodies(x, bodies) for x in (q, v))
        state = made.run(batch, (0.0, ref.end), key="permuted", change=change)
        back = np.argsort(bodies)
        return dataclasses.replace(state, q=_reorder_bodies(state.q, back), v=_reorder_bodies(state.v, back))

    def judge(self, account, question, answer):
        """Compare the motion with the reference."""
        made, ref, *_ = question
        account.count("steps", question[0].steps())
        good = ref.good & (answer.status == 0)[:, None]
        account.within("state", with_sign_of(made, answer, ref.state), ref.state.x, 2 * ref.bound, ref.scale, good)


def _reorder_bodies(x, bodies):
    """Return the coordinates or velocities of a batch with bodies in another order."""
    return x.reshape(len(x), len(bodies), -1)[:, bodies].reshape(len(x), -1)


class Batches(Repetition):
    """A sample alone moves as among others, to the bit."""

    name = "batch of one"
    about = "a sample alone has the same bits as in a batch"

    def question(self, seed):
        """Return mechanisms, their reference motion, and the number of a sample."""
        made, ref, rng = super().question(seed)
        return made, ref, int(rng.integers(LANES))

    def answer(self, question):
        """Return the motion of this sample alone."""
        made, ref, k = question
        return made.run(jax.tree.map(lambda x: x[k : k + 1], ref.batch), (0.0, ref.end), key="one")

    def judge(self, account, question, answer):
        """Record in `account` if a sample run alone ends in the same state and status as in the batch, to the bit.

        question: (mechanisms, reference motion of the batch, number of the sample). answer: motion of this sample.
        """
        _, ref, k = question
        account.count("steps", question[0].steps())
        # The batch of one is compiled separately, but by a program, which fixes all roundings.
        account.same("state", answer.x[0], ref.state.x[k])
        account.same("status", answer.status[0], ref.state.status[k])


class Neighbours(Repetition):
    """Samples with NaN, infinities or open loops leave the motions of the others the same, to the bit."""

    name = "poisoned neighbours"
    about = "samples with NaN, infinities or loops that cannot be closed do not change a bit of the others"

    def question(self, seed):
        """Return mechanisms, their reference motion, and the defect of each sample, "" for none."""
        made, ref, rng = super().question(seed)
        return made, ref, rng.choice(["nan", "inf", "huge", "apart", "start", ""], LANES, p=[0.1] * 5 + [0.5]), rng

    def answer(self, question):
        """Return the motion of the reference batch with the defects of a question put into its samples."""
        made, ref, poisons, rng = question
        mech, q, v = jax.tree.map(np.array, ref.batch)
        leaves, tree = jax.tree.flatten(mech)
        leaves = [np.array(leaf) for leaf in leaves]
        for k, poison in enumerate(poisons):
            leaf = leaves[int(rng.integers(len(leaves)))]
            if poison == "start":
                q[k, int(rng.integers(q.shape[1]))] = np.nan
            elif poison == "apart":
                q[k] += rng.normal(size=q.shape[1]) * 30
            elif poison:
                leaf[k] = {"nan": np.nan, "inf": np.inf, "huge": 1e200}[poison]
        return made.run((jax.tree.unflatten(tree, leaves), q, v), (0.0, ref.end))

    def judge(self, account, question, answer):
        """Check that samples without a defect move as before, to the bit, and that those with NaN or ∞ report it."""
        _, ref, poisons, _ = question
        account.count("steps", question[0].steps())
        healthy = poisons == ""
        account.same("state", answer.x[healthy], ref.state.x[healthy])
        account.same("status", answer.status[healthy], ref.state.status[healthy])
        not_finite = np.isin(poisons, ("nan", "inf", "start"))
        account.same("status of what is not a number", answer.status[not_finite], int(mbs.Status.NON_FINITE))
        account.same("finite", np.isfinite(answer.x), True)
