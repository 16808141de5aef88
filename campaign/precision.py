"""Equal numbers by other arithmetic: derivatives against differences, single precision, array code without programs."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from campaign.mechanisms import ROUNDINGS, STEPS, end, map_numbers, reference_of
from campaign.motions import with_sign_of
from campaign.oracle import Oracle

# Step of the finest differences of gradients, relative to `Gradients.STEP`.
FINE_STEP = 0.01
# Pairs of offsets, relative to `Gradients.STEP`, at which the slope is computed to see if it is smooth.
SLOPE_OFFSETS = (-0.01, 0.01, -0.003, 0.003)


class Gradients(Oracle):
    """Derivatives along a random direction of all masses, stiffnesses and velocities at once."""

    name = "gradients"
    about = "the derivative of the last state along a random direction against finite differences of fourth order"
    seconds = 60.0
    compiles_once = False
    STEP = 1e-3

    def question(self, seed):
        """Return mechanisms with their motion, and a random direction of their numbers and of v."""
        made, ref = reference_of(seed)
        rng = np.random.default_rng((seed, 5))
        mech, q, v = ref.batch
        moved = ("mass", "stiffness", "damping", "value", "acceleration")
        change = lambda element, name, x: x * rng.uniform(-1, 1) if name in moved else np.zeros_like(x)
        tangent = jax.tree.map(lambda x: x.astype(float), map_numbers(mech, change))
        return made, ref, (tangent, np.zeros_like(q), rng.normal(size=v.shape))

    def answer(self, question):
        """Return slopes of the final states along the direction at several offsets, and states for differences."""
        made, ref, tangent = question
        if "gradient" not in made._compiled:
            made._compiled["gradient"] = jax.jit(jax.vmap(_slope, in_axes=(0, 0, None)))
        at = lambda step: jax.tree.map(lambda x, d: x + step * self.STEP * d, ref.batch, tangent)
        times = np.array([0.0, ref.end])
        slopes = [np.asarray(made._compiled["gradient"](at(k), tangent, times)) for k in (0, *SLOPE_OFFSETS)]
        near = [made.run(at(k), times) for k in (-2, -1, -0.5, -FINE_STEP, FINE_STEP, 0.5, 1, 2)]
        return slopes, near

    def judge(self, account, question, answer):
        """Compare the slopes with differences of fourth order, where the motion is smooth."""
        made, ref, _ = question
        (slope, *beside), near = answer
        account.count("steps", made.steps() + STEPS * len(slope) * (1 + len(beside)))
        far2, far1, close1, at1, at2, close2, to1, to2 = (with_sign_of(made, state, ref.state) for state in near)
        difference = lambda a, b, c, d, h: (8 * (c - b) - (d - a)) / (12 * h)
        wide = difference(far2, far1, to1, to2, self.STEP)
        narrow = difference(far1, close1, close2, to1, self.STEP / 2)
        scale = np.maximum(np.abs(slope).max(axis=1, keepdims=True), ref.scale)
        # The bound is the disagreement of the differences, and their rounding. A contact with a stop, or the zero of a
        # reaction with friction, makes the slope jump as it moves from one step of the integrator to the next; such
        # samples are not judged.
        fine = (at2 - at1) / (2 * FINE_STEP * self.STEP)
        apart = np.maximum(np.abs(wide - narrow), np.abs(narrow - fine))
        for before, after in zip(beside[::2], beside[1::2], strict=True):
            apart = np.maximum(apart, np.abs(before + after - 2 * slope))
        bound = 2 * apart.max(axis=1, keepdims=True) + 4 * ref.rounding / self.STEP
        good = ref.good & np.all([state.status == 0 for state in near], axis=0)[:, None] & (bound < 1e-5 * scale)
        account.within("derivative", slope, narrow, bound, scale, good)


def _slope(batch, tangent, times):
    """Return the derivative of the final q and v along a tangent."""
    run = end()

    def last(mech, q, v):
        """Return the final q and v."""
        q, v, *_ = run(mech, q, v, times)
        return jnp.concatenate([q[-1], v[-1]])

    return jax.jvp(last, batch, tangent)[1]


class SinglePrecision(Oracle):
    """Motions in float32 agree with those in float64 within the growth of rounding errors."""

    name = "single precision"
    about = "float32 against float64, within the growth of its rounding errors"
    seconds = 60.0
    compiles_once = False

    def question(self, seed):
        """Return mechanisms with their motion in float64."""
        return reference_of(seed)

    def answer(self, question):
        """Return the motion in float32."""
        made, ref = question
        single = jax.tree.map(lambda x: np.asarray(x, np.float32), ref.batch)
        with jax.enable_x64(False):
            return made.run(single, (0.0, ref.end), key="single")

    def judge(self, account, question, answer):
        """Compare the final states, within one rounding error of float32 per step times its growth."""
        made, ref = question
        account.count("steps", made.steps())
        account.same("precision", answer.q.dtype == np.float32, True)
        # One rounding error for each step: with more of them hardly any sample could be judged.
        rounding = ref.rounding / ROUNDINGS * float(np.finfo(np.float32).eps / np.finfo(float).eps)
        good = ref.good & (answer.status == 0)[:, None] & (rounding < 0.3 * ref.scale)
        account.within("state", with_sign_of(made, answer, ref.state), ref.state.x, rounding, ref.scale, good)


class Eager(Oracle):
    """Terms of the equations of motion, compiled in a batch, agree with those computed call by call."""

    name = "jit against eager"
    about = "masses, forces, constraints and their derivatives, compiled in a batch against uncompiled"
    seconds = 30.0
    compiles_once = False
    # Samples that are also computed call by call.
    SAMPLES = 3
    # Rounding errors by which sums of some dozens of terms may differ.
    SUM_ROUNDINGS = 1000
    # Rounding errors of each number of q and v: the terms of a screw's γ are thousands of times as large as their sum.
    STATE_ROUNDINGS = 100
    # Relative step of the differences with respect to q and v.
    STEP = 1e-8

    def question(self, seed):
        """Return mechanisms, and the numbers of some samples."""
        made, ref = reference_of(seed)
        return made, ref, np.random.default_rng((seed, 9)).integers(len(ref.batch[1]), size=self.SAMPLES)

    def answer(self, question):
        """Return compiled terms of all samples at their states and beside them, and some samples call by call."""
        made, ref, chosen = question
        if "quantities" not in made._compiled:
            made._compiled["quantities"] = jax.jit(jax.vmap(quantities))
        compiled = made._compiled["quantities"](*ref.batch)
        mech, *state = ref.batch
        signs = [np.random.default_rng(k).choice([-1.0, 1.0], x.shape) for k, x in enumerate(state)]
        beside = [x * (1 + self.STEP * s) for x, s in zip(state, signs, strict=True)]
        moved = made._compiled["quantities"](mech, *beside)
        eager = [quantities(*jax.tree.map(lambda x, k=k: jnp.asarray(x[k]), ref.batch)) for k in chosen]
        return jax.tree.map(np.asarray, (compiled, moved, eager))

    def judge(self, account, question, answer):
        """Compare the compiled terms with those computed call by call, for the samples chosen."""
        made, _, chosen = question
        compiled, moved, eager = answer
        account.count("steps", made.steps())
        for k, one in zip(chosen, eager, strict=True):
            for name, value in one.items():
                scale = max(1.0, np.abs(value).max(initial=0))
                slope = np.abs(moved[name][k] - compiled[name][k]) / self.STEP
                bound = np.finfo(float).eps * (self.SUM_ROUNDINGS * scale + self.STATE_ROUNDINGS * slope)
                account.within(name, compiled[name][k], value, bound, scale)


def quantities(mech, q, v):
    """Return the terms of the equations of motion at t = 0.3."""
    quiet = mbs.Mechanism(mech.bodies, mech.constraints, mech.drivers, _explicit(mech.forces))
    return {
        "mass matrix": mbs.Augmented().of(quiet).mass_matrix(q),
        "generalized force": mbs.generalized_force(quiet, q, v, 0.3),
        "constraints": mbs.constraints(quiet, q, 0.3),
        "Jacobian": mbs.constraint_jacobian(quiet, q, 0.3),
        "γ": mbs.acceleration_rhs(quiet, q, v, 0.3),
        "kinetic energy": mbs.energy(quiet, q, v).kinetic,
        "potential energy": mbs.energy(quiet, q, v).potential,
    }


def _explicit(forces):
    """Return the forces that need neither reactions nor states of their own."""
    return {
        name: force
        for name, force in forces.items()
        if not getattr(force, "reactive", False) and not getattr(force, "states", ())
    }
