"""The same mechanism said in another way: moved and turned, in other units, its bodies in another order, among others."""

import dataclasses

import jax
import numpy as np

import jaxmbs as mbs
from campaign.mechanisms import ENDS, LANES, STOP_EXPONENT, changed, plain
from campaign.motions import sign
from campaign.oracle import Oracle
from random_mechanisms import GROUND
from random_placements import placed_in_plane, placed_in_space


class Again(Oracle):
    """The motion of a round once more, in another way."""

    seconds = 40.0
    compiles_once = False

    def question(self, seed):
        made, ref = plain(seed)
        return made, ref, np.random.default_rng((seed, 3))


def of_ground(mech, move):
    """A mechanism whose ground is another: move(field's kind, value) for what is fixed to it."""

    def change(element, name, value):
        kind = type(element).__name__
        if ENDS.get(name) and getattr(element, ENDS[name], None) == GROUND:
            return move(name.split("_")[0], value)
        if name == "acceleration" or (
            name == "value" and not element.follower and (kind == "PointForce" or value.shape[-1:] == (3,))
        ):
            return move("axis", value)
        return value

    return changed(mech, change)


class Moved(Again):
    name = "moved and turned"
    about = "all points of the ground elsewhere, all its directions turned"

    def question(self, seed):
        made, ref, rng = super().question(seed)
        place = (placed_in_plane if made.structure.dimension == 2 else placed_in_space)(rng)
        return made, ref, place

    def answer(self, question):
        made, ref, place = question
        mech, q, v = ref.batch
        turn = lambda x: np.einsum("ij,...j->...i", place.a, x)

        def move(kind, value):
            if kind == "frame":
                return np.einsum("ij,...jk->...ik", place.a, value)
            return turn(value) + (place.r if kind == "point" else 0)

        return made.run((of_ground(mech, move), *_placed(made, place, q, v, turn)), (0.0, ref.end))

    def judge(self, account, question, answer):
        made, ref, place = question
        account.count("steps", question[0].steps())
        turn = lambda x: np.einsum("ij,...j->...i", place.a, x)
        wanted = dataclasses.replace(
            ref.state, **dict(zip("qv", _placed(made, place, ref.state.q, ref.state.v, turn), strict=True))
        )
        good = ref.good & (answer.status == 0)[:, None]
        account.within("state", sign(made, answer, wanted), wanted.x, 4 * ref.bound, ref.scale, good)


def _placed(made, place, q, v, turn):
    """Coordinates and velocities of all bodies as seen from elsewhere."""
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

# Powers of length, mass and time in the units of fields.
UNITS = {
    "point": (1, 0, 0), "com": (1, 0, 0), "distance": (1, 0, 0), "offset": (1, 0, 0), "pitch": (1, 0, 0),
    "radius": (1, 0, 0),
    "free_length": (1, 0, 0), "mass": (0, 1, 0), "inertia": (2, 1, 0), "acceleration": (1, 0, -2),
    "velocity": (1, 0, -1), "viscous": (0, 1, -1),
}  # fmt: skip
SLIDES = ("Translational", "Prismatic")


def power(mech, element, name, dimension):
    """The powers of length, mass and time in the unit of a field."""
    kind = type(element).__name__
    name = name.split("_")[0] if name.startswith("point") else name
    joint = mech.constraints.get(getattr(element, "joint", None))
    slides = kind == "SpringDamper" or type(joint).__name__ in SLIDES
    if name == "stiffness" and kind == "JointStop":
        # A force or torque by a power of the coordinate.
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
        # Currents keep their unit: torques scale with the constant and voltages with power.
        length = 1 if slides else 2
        return {"torque_constant": (length, 1, -2), "voltage": (2, 1, -3), "resistance": (2, 1, -3)}.get(
            name, (0, 0, 0)
        )
    return UNITS.get(name, (0, 0, 0))


class Units(Again):
    """Masses and times in other units, by powers of two: every number of the motion is the same, to the bit."""

    name = "units"
    about = "masses and times in units larger by powers of two: the same bits; lengths: the same to rounding"

    def question(self, seed):
        made, ref, rng = super().question(seed)
        return made, ref, 2.0 ** rng.integers(-3, 4, 2), 2.0 ** (2 * rng.integers(-2, 3))

    def answer(self, question):
        made, ref, (mass, time), length = question
        return [self._run(made, ref, *scales) for scales in ((1.0, mass, time), (length, 1.0, 1.0))]

    def _run(self, made, ref, *scales):
        mech, q, v = ref.batch
        size = lambda powers: np.prod([scale**p for scale, p in zip(scales, powers, strict=True)])
        change = lambda element, name, value: value * size(power(made.mech, element, name, made.structure.dimension))
        length, _, time = scales
        # What lengths in q and in v are multiplied by, and all of v.
        of_q, of_v = (np.where(rows, length, 1) for rows in lengths(made))
        state = made.run((changed(mech, change), q * of_q, v * of_v / time), (0.0, ref.end * time))
        return dataclasses.replace(state, q=state.q / of_q, v=state.v / of_v * time)

    def judge(self, account, question, answer):
        made, ref, *_ = question
        exact, rounded = answer
        account.count("steps", question[0].steps())
        account.same("masses and times", exact.x, ref.state.x)
        good = ref.good & (rounded.status == 0)[:, None]
        account.within("lengths", sign(made, rounded, ref.state), ref.state.x, 4 * ref.bound, ref.scale, good)


def lengths(made):
    """Which coordinates, and which velocities, are lengths."""
    d, bodies = made.structure.dimension, len(made.structure.bodies)
    n, m = (3, 3) if d == 2 else (7, 6)
    return np.arange(n * bodies) % n < d, np.arange(m * bodies) % m < d


class Permuted(Again):
    name = "bodies in another order"
    about = "bodies and joints declared in another order"
    seconds = 60.0

    def question(self, seed):
        made, ref, _ = super().question(seed)
        # One order for a structure, so that its program is compiled once.
        rng = np.random.default_rng(len(made.structure.joints))
        return made, ref, rng.permutation(len(made.structure.bodies)), rng.permutation(len(made.structure.joints))

    def answer(self, question):
        made, ref, bodies, joints = question
        mech, q, v = ref.batch
        order = lambda named, places: {list(named)[k]: list(named.values())[k] for k in places}
        change = lambda mech: mbs.Mechanism(
            order(mech.bodies, bodies), order(mech.constraints, joints), mech.drivers, mech.forces
        )
        batch = mech, *(_reordered(x, bodies) for x in (q, v))
        state = made.run(batch, (0.0, ref.end), key="permuted", change=change)
        back = np.argsort(bodies)
        return dataclasses.replace(state, q=_reordered(state.q, back), v=_reordered(state.v, back))

    def judge(self, account, question, answer):
        made, ref, *_ = question
        account.count("steps", question[0].steps())
        good = ref.good & (answer.status == 0)[:, None]
        account.within("state", sign(made, answer, ref.state), ref.state.x, 2 * ref.bound, ref.scale, good)


def _reordered(x, bodies):
    return x.reshape(len(x), len(bodies), -1)[:, bodies].reshape(len(x), -1)


class Batches(Again):
    name = "batch of one"
    about = "a sample alone is what it is among others, to the bit"

    def question(self, seed):
        made, ref, rng = super().question(seed)
        return made, ref, int(rng.integers(LANES))

    def answer(self, question):
        made, ref, k = question
        return made.run(jax.tree.map(lambda x: x[k : k + 1], ref.batch), (0.0, ref.end), key="one")

    def judge(self, account, question, answer):
        _, ref, k = question
        account.count("steps", question[0].steps())
        # It is compiled for itself, by a program that says itself what is rounded together.
        account.same("state", answer.x[0], ref.state.x[k])
        account.same("status", answer.status[0], ref.state.status[k])


class Neighbours(Again):
    name = "poisoned neighbours"
    about = "samples with NaN, infinities, or loops that cannot be closed leave the others the same, to the bit"

    def question(self, seed):
        made, ref, rng = super().question(seed)
        return made, ref, rng.choice(["nan", "inf", "huge", "apart", "start", ""], LANES, p=[0.1] * 5 + [0.5]), rng

    def answer(self, question):
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
        _, ref, poisons, _ = question
        account.count("steps", question[0].steps())
        healthy = poisons == ""
        account.same("state", answer.x[healthy], ref.state.x[healthy])
        account.same("status", answer.status[healthy], ref.state.status[healthy])
        named = np.isin(poisons, ("nan", "inf", "start"))
        account.same("status of what is not a number", answer.status[named], int(mbs.Status.NON_FINITE))
        account.same("finite", np.isfinite(answer.x), True)
