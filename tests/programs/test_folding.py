"""Known zeros and ones vanish, equal scalars are computed once, and nothing is traced twice without need."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmbs as mbs
from jaxmbs.programs.tracing.program import Program
from linkages import four_bar, four_bar_guess


def rotation(angle):
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])])


A, P = jnp.float64(0.3), jnp.array([0.2, -0.4])
ONES = np.triu(np.ones((3, 3)))

COUNTS = {
    "a rotated point": (lambda a, p: rotation(a) @ p, (A, P), {"sin": 1, "cos": 1, "mul": 4, "add": 1, "sub": 1}),
    "its derivative": (
        lambda a, p: jax.jacfwd(lambda x: rotation(x) @ p)(a),
        (A, P),
        {"sin": 1, "cos": 1, "mul": 4, "add": 1, "sub": 1, "neg": 1},
    ),
    "its derivative by the point": (
        lambda a, p: jax.jacfwd(lambda x: rotation(a) @ x)(p),
        (A, P),
        {"sin": 1, "cos": 1, "neg": 1},
    ),
    "zeros and ones of a constant matrix": (lambda p: ONES @ jnp.append(p, 1.0), (P,), {"add": 3}),
    "an identity": (lambda p: jnp.eye(2) @ p + 0.0, (P,), {}),
    "movement": (lambda p: jnp.concatenate([p[::-1], p])[1:3].reshape(2, 1).T, (P,), {}),
    "equal terms": (lambda p: jnp.sin(p[0]) + jnp.sin(p[0]) * jnp.sin(p[0]), (P,), {"sin": 1, "mul": 1, "add": 1}),
    "commuted terms": (lambda p: (p[0] * p[1]) - (p[1] * p[0]) * 2, (P,), {"mul": 2, "sub": 1}),
    "signs": (lambda p: jnp.negative(-p) + jnp.abs(-p) - jnp.abs(p) * 0.0, (P,), {"abs": 2, "add": 2}),
    "what is not used": (lambda p: (jnp.linalg.inv(jnp.diag(p)), jnp.exp(p))[1], (P,), {"exp": 2}),
    "a solution by a triangle": (
        lambda p: jnp.linalg.solve(np.array([[2.0, 0.0], [1.0, 1.0]]), p),
        (P,),
        {"mul": 1, "sub": 1},
    ),
    "a zero through a loop": (
        lambda p: lax.fori_loop(0, 100, lambda k, x: x * p[0] * jnp.exp(p[1]), jnp.zeros(())),
        (P,),
        {},
    ),
    "what does not change in a loop": (
        lambda p: lax.fori_loop(0, 100, lambda k, x: x * jnp.exp(p[1]), p[0]),
        (P,),
        {"exp": 1, "mul": 1},
    ),
    "a product with zeros that have a sign": (lambda p: -(jnp.eye(2) @ jnp.diag(p)) @ p, (P,), {"mul": 2, "neg": 2}),
    "the largest entry of a diagonal matrix": (
        lambda p: jnp.max(jnp.abs(jnp.diag(p)), initial=0),
        (P,),
        {"abs": 2, "max": 1},
    ),
    "the larger one of zero and a number": (lambda p: jnp.maximum(p, 0.0), (P,), {"max": 2}),
    "a mask of indices": (
        lambda p: jnp.where(jnp.arange(5)[:, None] <= jnp.arange(5)[None, :], p[0], 0.0)[::4, 1],
        (P,),
        {},
    ),
    "a choice between zeros of both signs": (lambda p: jnp.where(p > 0, -0.0, 0.0) * p[::-1] + p[0], (P,), {}),
    "a power": (lambda p: p[0] ** 5, (P,), {"mul": 3}),
}


@pytest.mark.parametrize(
    "angle",
    [
        mbs.rotation.exp,
        mbs.rotation.exp_matrix,
        mbs.rotation.log,
        mbs.rotation.gamma,
        mbs.rotation.gamma_inverse,
        mbs.rotation.to_angles,
    ],
)
def test_a_rotation_does_not_depend_on_other_rotations(angle):
    """In the Jacobian of two rotations, the entries that mix them are zeros that are known."""

    def mixed(p):
        """The first rotation, differentiated by the numbers of the second."""
        half = p.size // 2
        first = lambda p: jnp.ravel(angle(p[:half]))
        return jax.jacfwd(first)(p)[:, half:]

    size = 4 if angle in (mbs.rotation.log, mbs.rotation.to_angles) else 3
    assert dict(mbs.program(mixed).trace(jnp.ones(2 * size)).operations) == {}


@pytest.mark.parametrize("name", COUNTS)
def test_operations(name):
    """Exactly these operations are left."""
    function, args, expected = COUNTS[name]
    program = mbs.program(function).trace(*args)
    assert dict(program.operations) == expected
    assert program.size == sum(expected.values())


def test_what_is_no_number_is_not_lost_beside_zeros():
    """NaN is the largest of all, also where comparisons with zeros have been folded."""
    largest = mbs.program(lambda p: jnp.max(jnp.abs(jnp.diag(p)), initial=0))
    np.testing.assert_array_equal(
        jax.vmap(largest)(jnp.array([[np.nan, 1], [-3, 2], [0, np.nan]])), [np.nan, 3, np.nan]
    )


def test_listing():
    """A program reads as straight-line code, the same for the same function, its loops indented."""
    function = lambda p: lax.fori_loop(0, 100, lambda k, x: jnp.sin(x) * p[1], p[0])
    text = str(mbs.program(function).trace(P))
    assert text == str(mbs.program(function).trace(P))
    lines = text.splitlines()
    assert lines[0].endswith("(x0: float64[2]):")
    loop = next(k for k, line in enumerate(lines) if line.strip() == "for i3 in range(100):" or "range(100)" in line)
    assert any("sin(" in line and line.startswith(8 * " ") for line in lines[loop:])
    assert lines[-1].lstrip().startswith("y0: float64[] = [")


def test_tracing_again():
    """Other values are no reason to trace again; another shape, dtype or structure is."""
    program = mbs.program(lambda x: jax.tree.map(jnp.sin, x))
    vectors = jnp.array([0.1, 0.2]), jnp.array([0.3, 0.4])
    for x in (*vectors, np.array([1.0, 2.0]), vectors[0]):
        program(x)
    jax.vmap(program)(jnp.stack(vectors))
    jax.jit(jax.grad(lambda x: program(x).sum()))(vectors[0])
    assert program.trace_count == 1
    for k, x in enumerate([jnp.zeros(3), jnp.zeros(2, jnp.float32), {"a": vectors[0]}, (vectors[0],)]):
        program(x)
        program(x)
        assert program.trace_count == k + 2


def test_closed_over_tracers_are_not_kept():
    """A program that closes over a value of an enclosing transformation is right for every such value."""
    square = lambda a: mbs.program(lambda x: a * x)(2.0)
    np.testing.assert_allclose(jax.vmap(square)(jnp.arange(3.0)), [0, 2, 4])
    np.testing.assert_allclose(jax.grad(square)(1.5), 2.0)


def test_designs_share_programs(monkeypatch):
    """A second design of the same structure makes no new program, and does not compile again under `jit`."""
    made = []
    init = Program.__init__
    monkeypatch.setattr(Program, "__init__", lambda self, *a, **k: made.append(1) or init(self, *a, **k))
    traced = []

    @jax.jit
    def tip(b, guess):
        traced.append(1)
        return mbs.kinematics(four_bar(b), jnp.linspace(0.0, 0.2, 4), guess).q

    designs = [{"crank": a, "coupler": 2.9, "rocker": 3.0, "ground": 3.5} for a in (1.0, 1.1)]
    designs = [jax.tree.map(jnp.asarray, b) for b in designs]
    results = [tip(b, four_bar_guess(b, 0.0)) for b in designs]
    assert len(traced) == 1
    counts = []
    for b, q in zip(designs, results, strict=True):
        found = mbs.kinematics(four_bar(b), jnp.linspace(0.0, 0.2, 4), four_bar_guess(b, 0.0)).q
        np.testing.assert_allclose(found, q, rtol=1e-11)
        counts.append(len(made))
    assert counts[0] == counts[1]
