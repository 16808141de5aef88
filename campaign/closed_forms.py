"""Driven linkages with a closed form: every position, velocity, acceleration and status of very many random designs."""

import abc
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from campaign.oracle import Account, Oracle

# Number of angles of a motion in a closed-form oracle.
STEPS = 37
# Rounding error of float64, the distance from 1 to the next number.
EPS = float(np.finfo(float).eps)
# Numbers whose bound is larger than this part of their size are not compared with the closed form.
MAX_RELATIVE_BOUND = 1e-5
# Statuses of designs with a smaller margin of assembly, divided by the size of the design squared, are not judged.
MARGIN_TOLERANCE = 1e-9
# Nor is that of an angle with a smaller margin just before the motion ends: a march ends within eight of its shortest
# steps, each eps^0.42 of the interval between two angles, and this margin changes by at most ½ for a radian.
END_TOLERANCE = 8 * EPS**0.42 * (2 * np.pi / (STEPS - 1)) / 2


class ClosedForm(Oracle):
    """A mechanism driven by its first angle, with a formula for the whole configuration.

    Bounds come from conditioning: the formula is differentiated with respect to every input.

    Attributes:
        roundings: rounding errors that each input of the formula may have.
        lanes: designs in a round.
    """

    seconds = 25.0
    roundings: ClassVar[int] = 100
    lanes: ClassVar[int] = 8000

    @abc.abstractmethod
    def designs(self, rng, count: int) -> dict[str, np.ndarray]:
        """Return random designs without their "branch", 1 or −1."""

    @abc.abstractmethod
    def mechanism(self, b) -> mbs.Mechanism:
        """Return the mechanism of a design, whose driver keeps the crank's angle at t."""

    @abc.abstractmethod
    def formula(self, b, angle, floor: float):
        """Return q by the closed form. Radicands are at least `floor`, relative to the size of the design."""

    def margin(self, b, low, high):
        """Return the margin of assembly (count, times) over angles from `low` to `high`, and its rounding bound.

        The margin is positive if the mechanism can be closed at all angles of [low, high], and negative if not; it is
        relative to the size of the design squared. By default it is 1: the mechanism can always be assembled.
        """
        return np.ones_like(low), 0.0

    def values(self, b, angle):
        """Return the compared quantities by the formula, by default all of q."""
        return self.formula(b, angle, 0.0)

    def quantities(self, b, q, v, a):
        """Return the compared quantities of a motion, their rates and accelerations, from q, v and a."""
        return q, v, a

    def question(self, seed):
        """Return designs with their branches, and the angles of a turn from a random start, in a random sense."""
        rng = np.random.default_rng(seed)
        b = self.designs(rng, self.lanes) | {"branch": rng.choice([-1.0, 1.0], self.lanes)}
        start, sense = rng.uniform(0, 2 * np.pi, self.lanes), rng.choice([-1.0, 1.0], self.lanes)
        return b, start[:, None] + sense[:, None] * np.linspace(0, 2 * np.pi, STEPS)

    def answer(self, question):
        """Return compared quantities, rates, accelerations and statuses of jaxmbs."""
        return jax.tree.map(np.asarray, _run(self, *question))

    def judge(self, account: Account, question, answer):
        """Compare positions, rates and accelerations with the closed form, and statuses with the margin."""
        b, angles = question
        q, v, a, status = answer
        low, high = (f(angles[:, :1], angles) for f in (np.minimum, np.maximum))
        margin, blur = self.margin(b, low, high)
        possible, sure = margin > 0, np.minimum.accumulate(np.abs(margin) > blur, axis=1)
        near_end = possible & (margin < END_TOLERANCE) & (margin[:, -1:] < 0)
        sure &= ~near_end
        account.count("poses", status.size)
        expected = np.where(
            possible, int(mbs.Status.CONVERGED),
            np.where(possible[:, :1], int(mbs.Status.LOCKED_UP), int(mbs.Status.NOT_ASSEMBLED)),
        )  # fmt: skip
        account.same("status", status, expected, sure)
        wanted, sizes = jax.tree.map(np.asarray, _evaluate(self, b, angles))
        good = possible & sure & (status == mbs.Status.CONVERGED)
        angular = np.array([not name.endswith((".x", ".y")) for name in self.names()])
        size = np.broadcast_to(self.size(b)[:, None], good.shape)[good][:, None]
        for k, (name, found) in enumerate((("q", q), ("v", v), ("a", a))):
            right, blur = wanted[k][good], sizes[k][good]
            gap = found[good] - right
            # Angles are compared up to whole turns.
            gap = np.where(angular & (k == 0), gap - 2 * np.pi * np.round(gap / (2 * np.pi)), gap)
            scale = np.abs(right).max(axis=-1, keepdims=True) + size
            bound = self.roundings * EPS * (blur + scale)
            account.within(name, gap, 0.0, bound, scale, bound < MAX_RELATIVE_BOUND * scale)

    def size(self, b):
        """Return the size of each design, a length by which margins and lengths are scaled."""
        return sum(np.abs(x) for name, x in b.items() if name != "branch")

    def names(self):
        """Return the names of the compared quantities. Names that end in .x or .y are lengths, all others angles."""
        one = {name: x[0] for name, x in self.designs(np.random.default_rng(0), 1).items()} | {"branch": 1.0}
        return self.mechanism(one).layout.coordinates


@partial(jax.jit, static_argnums=0)
def _run(oracle: ClosedForm, b, angles):
    """Return compared quantities, rates, accelerations and statuses of `mbs.kinematics`, (designs, angles, …)."""

    def one(b, angles):
        """Return compared quantities, rates, accelerations and statuses of one design at all angles."""
        motion = mbs.kinematics(oracle.mechanism(b), angles, oracle.formula(b, angles[0], 1e-4))
        quantities = lambda *state: oracle.quantities(b, *state)
        return *jax.vmap(quantities)(motion.q, motion.v, motion.a), motion.status

    return jax.vmap(one)(b, angles)


@partial(jax.jit, static_argnums=0)
def _evaluate(oracle: ClosedForm, b, angles):
    """Return compared quantities, rates and accelerations by the formula, and their changes for changes of all inputs by 1.

    The changes of the design are relative, that of the angle is in radians.
    """

    def motion(changes, b, angle):
        """Return the compared quantities and their derivatives by the crank angle, for a changed design and angle.

        Each number x of the design except "branch" is changed to x (1 + its entry in `changes`), the angle by its entry.
        """
        changed = {name: x if name == "branch" else x * (1 + changes[name]) for name, x in b.items()}
        q = lambda angle: oracle.values(changed, angle)
        v = lambda angle: jax.jvp(q, (angle,), (jnp.ones_like(angle),))[1]
        at = angle + changes["angle"]
        return q(at), *jax.jvp(v, (at,), (jnp.ones_like(at),))

    def one(b, angle):
        """Return compared quantities with their derivatives, and sums of absolute slopes by the changes of all inputs."""
        zero = {name: jnp.zeros(()) for name in (*b, "angle") if name != "branch"}
        slopes = jax.jacfwd(motion)(zero, b, angle)
        sizes = [sum(jnp.abs(slope) for slope in jax.tree.leaves(each)) for each in slopes]
        return motion(zero, b, angle), sizes

    one = mbs.program(one)
    return jax.vmap(lambda b, row: jax.vmap(lambda angle: one(b, angle))(row))(b, angles)


def extremes_of_cosine(low, high):
    """Return the smallest and the largest cosine of the angles from low to high."""
    turns = lambda x: np.ceil(x / (2 * np.pi)) * 2 * np.pi
    ends = np.cos(low), np.cos(high)
    largest = np.where(turns(low) <= high, 1.0, np.maximum(*ends))
    smallest = np.where(turns(low - np.pi) + np.pi <= high, -1.0, np.minimum(*ends))
    return smallest, largest
