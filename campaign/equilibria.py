"""Equilibria of random mechanisms on springs: forces balance, and derivatives agree with differences."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from campaign.assemblies import ROUNDS, drawn_for
from campaign.oracle import Oracle

# Samples of a round that are used, of those that `drawn_for` gives.
SAMPLES = 512
# Step of the central differences, which are taken with it and with half of it.
STEP = 1e-4
# Upper bound on unbalanced forces, relative to the largest force.
MAX_RESIDUAL = 1e-9
# Smallest share of equilibria with status 0: nearly every mechanism on springs rests somewhere near.
MIN_FOUND = 0.9
# Gravity, beside springs with stiffnesses of about 10 for bodies with masses of about 1.
GRAVITY = 9.81


def on_springs(mech: mbs.Mechanism, numbers) -> mbs.Mechanism:
    """Return a mechanism with a spring from the ground to each body; `numbers` (bodies, 1 + 2 d): stiffness, two points."""
    d = mech.layout.dimension
    springs = {
        f"spring {name}": mbs.Spring("ground", name, x[1 : 1 + d], x[1 + d :], stiffness=x[0], free_length=0.0)
        for name, x in zip(mech.bodies, numbers, strict=True)
    }
    gravity = mbs.Gravity((0, -GRAVITY, 0)[:d])
    return mbs.Mechanism(mech.bodies, mech.constraints, mech.drivers, {"gravity": gravity, **springs})


@lru_cache(maxsize=2)
def programs_of(number: int):
    """Return two compiled functions of h for a batch: the equilibrium of springs that change with h, and its derivative.

    The number of the structure is only the key of the cache.
    """
    del number

    def along(h, mech, q, numbers, change):
        """Return q, status, the unbalanced force of each velocity and the sum of absolute forces, for springs at h."""
        mech = on_springs(mech, numbers + h * change)
        rest, still = mbs.equilibrium(mech, q, 0.1), jnp.zeros(mech.layout.m)
        force = mbs.generalized_force(mech, rest.q, still, 0.1)
        held = mbs.constraint_jacobian(mech, rest.q, 0.1).T * rest.multipliers[None, :]
        return rest.q, rest.status, force + held.sum(axis=1), jnp.abs(force) + jnp.abs(held).sum(axis=1)

    axes = (None, 0, 0, 0, 0)
    rate = lambda h, *args: jax.jvp(lambda h: along(h, *args)[0], (h,), (1.0,))[1]
    return jax.jit(jax.vmap(along, in_axes=axes)), jax.jit(jax.vmap(rate, in_axes=axes))


class OnSprings(Oracle):
    """In an equilibrium with status 0 all forces balance, and q has the derivative that differences give."""

    name = "equilibria on springs"
    about = "balance of forces at rest, and derivatives by springs against finite differences"
    seconds = 30.0

    def question(self, seed):
        """Return random mechanisms, assembled configurations, springs, and the directions in which these change."""
        rng, mech, q, layout = drawn_for(seed)
        mech, q = jax.tree.map(lambda x: x[: 4 * SAMPLES : 4], (mech, q))
        shape = (SAMPLES, len(mech.bodies), 1 + 2 * layout.dimension)
        numbers = rng.normal(size=shape)
        numbers[..., 0] = rng.uniform(5, 20, shape[:2])
        return seed // ROUNDS, mech, q, numbers, rng.normal(size=shape)

    def answer(self, question):
        """Return results and derivative at h = 0, two central differences, and the mean of q at the four other h."""
        seed, *args = question
        value, rate = programs_of(seed)
        at = lambda h: jax.tree.map(np.asarray, value(h, *args))
        found, derivative = at(0.0), np.asarray(rate(0.0, *args))
        (upper, *_), (lower, *_), (near, *_), (other, *_) = (at(h) for h in (STEP, -STEP, STEP / 2, -STEP / 2))
        return (
            found,
            derivative,
            (upper - lower) / (2 * STEP),
            (near - other) / STEP,
            (upper + lower + near + other) / 4,
        )

    def judge(self, account, question, answer):
        """Record finds: statuses of 0 with forces out of balance, and derivatives that differ from the differences."""
        (q, status, force, size), derivative, coarse, fine, between = answer
        good = (status == 0)[:, None]
        account.count("equilibria", good.sum())
        if good.mean() < MIN_FOUND:
            account.find(f"no equilibrium in {np.sum(~good)} of {len(good)} mechanisms: statuses {np.bincount(status)}")
        size = size.max(axis=1, keepdims=True)
        account.within("force at rest", force, 0.0, MAX_RESIDUAL * size, size, good)
        jump = np.abs(between - q).max(axis=1) >= STEP
        account.derivative("derivative of q", derivative, coarse, fine, jump, status == 0)
