"""Programs under JAX's transformations: derivatives through straight lines and through time loops, and batches of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmbs as mbs
from jaxmbs.programs.runtime import primitive, tuning

X = np.array([0.4, -0.7, 1.1])
Y = np.array([0.9, 0.3, -0.2])


def straight_line(x, y):
    """Products, a solution, and what branches."""
    matrix = jnp.outer(x, y) + jnp.diag(2 + jnp.sin(y))
    z = jnp.linalg.solve(matrix, x)
    return jnp.where(z > 0, z * y, jnp.exp(z)) + jnp.linalg.norm(x)


def rollout(steps, reverse_time=False, counted=False):
    """A time loop with a table of inputs and rows out, and perhaps an integer in its state."""

    def simulate(x, y):
        inputs = jnp.outer(jnp.cos(0.1 * jnp.arange(steps)), y)

        def step(state, u):
            x, count = state
            x = x + 0.05 * (jnp.sin(x[::-1]) * u + jnp.tanh(y))
            return (x, count + counted), (x @ u, count)

        if not counted:
            uncounted = lambda x, u: (step((x, 0), u)[0][0], step((x, 0), u)[1][0])
            return jnp.append(*lax.scan(uncounted, x, inputs, reverse=reverse_time))
        (x, count), (rows, counts) = lax.scan(step, (x, 0), inputs, reverse=reverse_time)
        return jnp.append(x, rows) * (1 + 0.001 * count + 0.001 * counts.sum())

    return simulate


MAKE = {
    "straight line": lambda: lambda x, y: straight_line(x, y),
    "7 steps": lambda: rollout(7),
    "50 steps backwards": lambda: rollout(50, True),
    "50 steps, counted": lambda: rollout(50, counted=True),
}
TRANSFORMS = {
    "grad": lambda f: jax.grad(lambda x, y: (f(x, y) ** 2).sum(), (0, 1)),
    "jvp": lambda f: lambda x, y: jax.jvp(f, (x, y), (y, x)),
    "jacfwd": lambda f: jax.jacfwd(f, (0, 1)),
    "jacrev": lambda f: jax.jacrev(f, 1),
    "hessian": lambda f: jax.hessian(lambda x, y: (f(x, y) ** 2).sum()),
    "reverse of reverse": lambda f: jax.jacrev(jax.grad(lambda x, y: (f(x, y) ** 2).sum())),
    "reverse of forward": lambda f: jax.grad(lambda x, y: jax.jvp(lambda z: f(x, z), (y,), (x,))[1].sum(), (0, 1)),
    "checkpoint": lambda f: jax.grad(lambda x, y: (jax.checkpoint(f)(x, y) ** 2).sum(), (0, 1)),
    "linearize": lambda f: lambda x, y: jax.linearize(lambda z: f(z, y), x)[1](y),
    "vjp": lambda f: lambda x, y: jax.vjp(f, x, y)[1](jnp.cos(f(x, y))),
}


TWICE = {"hessian", "reverse of reverse", "reverse of forward"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "transform"), [(n, t) for n in MAKE for t in TRANSFORMS if t not in TWICE or n[0] != "7"]
)
def test_derivatives(name, transform, agree):
    """The derivative of a program is that of the function."""
    function, apply = MAKE[name](), TRANSFORMS[transform]
    agree(
        jax.jit(apply(mbs.program(function)))(X, Y),
        jax.jit(apply(function))(X, Y),
        1e-11 if transform in TWICE else 1e-12,
    )


@pytest.mark.parametrize("emission_", ["xla", "array"])
@pytest.mark.parametrize("transform", ["grad", "jacfwd"])
def test_derivatives_in_other_emissions(transform, emission_, agree):
    """The same where programs are emitted as XLA, or not at all."""
    with primitive.emission(emission_):
        function, apply = rollout(50), TRANSFORMS[transform]
        agree(jax.jit(apply(mbs.program(function)))(X, Y), jax.jit(apply(function))(X, Y))


@pytest.mark.parametrize(("steps", "kept"), [(10, 0), (11, 0), (50, 0), (53, 0), (50, 2**20)])
@pytest.mark.parametrize("backwards", [False, True])
def test_segments(steps, kept, backwards, agree, monkeypatch):
    """Only the carry at the beginning of each segment is kept, also if segments do not divide the number of steps."""
    monkeypatch.setattr(tuning, "KEPT_STATE_BYTES", kept)
    function = rollout(steps, backwards)
    apply = TRANSFORMS["grad"]
    agree(jax.jit(apply(mbs.program(function)))(X, Y), jax.jit(apply(function))(X, Y))


def test_nested_loops_in_segments(agree, monkeypatch):
    """A loop in a loop, both with segments."""
    monkeypatch.setattr(tuning, "KEPT_STATE_BYTES", 100)

    def function(x, y):
        inner = lambda z: lax.fori_loop(0, 20, lambda k, a: a + 0.01 * jnp.sin(a * y + k), z)
        return lax.fori_loop(0, 23, lambda k, a: 0.9 * inner(a) + x[k % 3], x)

    apply = TRANSFORMS["grad"]
    agree(jax.jit(apply(mbs.program(function)))(X, Y), jax.jit(apply(function))(X, Y), 1e-11)


BATCH = np.random.default_rng(3).normal(size=(5, 3))
LEFT = np.random.default_rng(4).normal(size=(2, 4, 3))
RIGHT = np.random.default_rng(5).normal(size=(5, 3))
loss = lambda f: lambda x, y: (f(x, y) ** 2).sum()
BATCHES = {
    "gradients of samples": (lambda f: jax.vmap(jax.grad(loss(f), (0, 1))), (BATCH, RIGHT)),
    "one argument for all": (lambda f: jax.vmap(jax.grad(loss(f), (0, 1)), (0, None)), (BATCH, Y)),
    "the other for all": (lambda f: jax.vmap(jax.grad(loss(f), (0, 1)), (None, 0)), (X, BATCH)),
    "gradient of a batch": (
        lambda f: jax.grad(lambda x, y: jax.vmap(loss(f), (0, None))(x, y).sum(), (0, 1)),
        (BATCH, Y),
    ),
    "gradient of two axes": (
        lambda f: jax.grad(lambda x, y: jax.vmap(jax.vmap(loss(f), (0, None)), (None, 0))(x, y).sum(), (0, 1)),
        (BATCH, RIGHT),
    ),
    "axes in other places": (lambda f: jax.vmap(f, (1, 0), 1), (BATCH.T, RIGHT)),
    "three axes": (lambda f: jax.vmap(jax.vmap(jax.vmap(f, (0, None)), (0, None)), (None, 0)), (LEFT, RIGHT)),
    "three axes in turn": (
        lambda f: jax.vmap(jax.vmap(jax.vmap(f, (0, None)), (None, 0)), (0, None)),
        (LEFT, RIGHT),
    ),
    "jacobians of a batch": (lambda f: jax.vmap(jax.jacrev(f), (0, None), 1), (BATCH, Y)),
    "an axis of one": (
        lambda f: jax.grad(lambda x, y: jax.vmap(loss(f), (0, None))(x, y).sum(), (0, 1)),
        (BATCH[:1], Y),
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("kind", ["straight line", "50 steps backwards"])
def test_batches_of_derivatives(kind, name, agree):
    """Batches and derivatives in any order, batched and common arguments mixed."""
    apply, args = BATCHES[name]
    function = MAKE[kind]()
    agree(jax.jit(apply(mbs.program(function)))(*args), jax.jit(apply(function))(*args), 1e-11)
