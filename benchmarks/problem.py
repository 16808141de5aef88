"""Problem of the rollout rows: RK4 of a batch of four-bars that fall from rest."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import models
import numpy as np

import jaxmbs as mbs


class RolloutProblem(NamedTuple):
    """Designs of four-bars as a dict of arrays (batch,), their q and v (batch, 9), the step (s), and number of steps."""

    designs: dict
    q: jax.Array
    v: jax.Array
    h: float
    steps: int

    @property
    def count(self):
        """Number of systems times number of steps."""
        return self.q.shape[0] * self.steps

    def gap(self, q):
        """Return the largest |Φ| of configurations q (batch, 9)."""
        residual = lambda b, q: mbs.constraints(models.four_bar(b), q)
        return float(jnp.max(jnp.abs(jax.jit(jax.vmap(residual))(self.designs, jnp.asarray(q)))))

    def first(self, size):
        """Return the problem of `size` systems, picked evenly from the batch."""
        pick = lambda array: array[:: self.q.shape[0] // size][:size]
        return RolloutProblem(
            {k: pick(x) for k, x in self.designs.items()}, pick(self.q), pick(self.v), self.h, self.steps
        )

    def joint_angles(self):
        """Return the joint angles of crank, coupler and rocker at the start, (batch, 3)."""
        crank, coupler, rocker = np.asarray(self.q)[:, 2::3].T
        return np.stack([crank, coupler - crank, rocker], axis=1)

    def loop_gap(self, angles):
        """Return the largest distance of the two halves of joint B for joint angles (batch, 3)."""
        a, c, r, g = (np.asarray(self.designs[name]) for name in ("crank", "coupler", "rocker", "ground"))
        one, two, three = np.exp(1j * np.asarray(angles)).T
        return float(np.max(np.abs(a * one + c * one * two - g - r * three)))


def four_bars(batch=1024, h=1e-3, steps=100, angle=1.0, spread=0.05):
    """Return a batch at rest: moving bars within ±spread of nominal lengths, cranks at `angle`, a number or (batch,)."""
    designs = models.four_bar_batch(batch, spread)
    start = lambda b, angle: mbs.assemble(models.four_bar(b), models.four_bar_guess(b, angle)).q
    q = jax.jit(jax.vmap(start))(designs, jnp.broadcast_to(angle, batch))
    return RolloutProblem(designs, q, jnp.zeros_like(q), h, steps)
