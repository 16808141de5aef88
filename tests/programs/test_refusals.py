"""Functions that cannot be programs: errors with a reason, a place and advice; unusual functions do not crash."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmbs as mbs
from jaxmbs.programs import ProgramWithFallback, factorise
from jaxmbs.programs.runtime import primitive

X = np.array([0.3, -0.4, 0.5])
SQUARE = np.eye(3) + 0.1

REFUSED = {
    "unbounded loop": (
        lambda x: lax.while_loop(lambda s: s.sum() < 10, lambda s: s + 1, x),
        "while",
        "fori_loop with constant bounds",
    ),
    "bound that is an argument": (
        lambda x: lax.fori_loop(0, x.astype(int)[0], lambda k, s: s + k, x),
        "while",
        "count",
    ),
    "singular values": (lambda x: jnp.linalg.svd(SQUARE * x[None], compute_uv=False), "svd", "outside the program"),
    "eigenvalues": (lambda x: jnp.linalg.eigh(SQUARE * x[0])[0], "eigh", "outside the program"),
    "QR": (lambda x: jnp.linalg.qr(SQUARE * x[None])[1], "householder|qr", "outside the program"),
    "calls to Python": (
        lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x),
        "pure_callback",
        "no scalars to look into",
    ),
    "Fourier transform": (lambda x: jnp.abs(jnp.fft.fft(x)), "convert_element_type|jit", "real numbers"),
    "error function": (lambda x: lax.lgamma(x), "lgamma", "no straight-line form"),
    "bits": (lambda x: x.astype(int) & 3, "and", "bitwise"),
    "another precision inside": (
        lambda x: jnp.sin(x.astype(jnp.float32)) * x,
        "convert_element_type",
        "same floating-point type",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_primitives(name):
    """The message has the primitive and what to do instead."""
    function, primitive, advice = REFUSED[name]
    with pytest.raises(mbs.ProgramError, match=advice) as caught:
        mbs.program(function)(X)
    assert any(f"[{p}, at" in str(caught.value) for p in primitive.split("|"))
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", REFUSED)
def test_places(name):
    """The message has the file and the line of the caller."""
    with pytest.raises(mbs.ProgramError, match=r"test_refusals\.py:\d+"):
        mbs.program(REFUSED[name][0])(X)


@pytest.mark.parametrize(
    "function",
    [lambda x: x[x > 0], lambda x: jnp.nonzero(x)[0], lambda x: x if x[0] > 0 else -x, lambda x: float(x[0])],
)
def test_shapes_and_branches_that_depend_on_values(function):
    """Refused with the advice to use jnp.where."""
    with pytest.raises(mbs.ProgramError, match=r"jnp\.where"):
        mbs.program(function)(X)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((X.astype(complex),), "complex128"),
        ((X.astype(np.float16),), "float16"),
        ((jnp.asarray(X, jnp.bfloat16),), "bfloat16"),
        ((X, X.astype(np.float32)), "same type"),
    ],
)
def test_dtypes(args, message):
    """Programs take one floating-point type, float32 or float64."""
    with pytest.raises(mbs.ProgramError, match=message):
        mbs.program(lambda *xs: [x + x for x in xs])(*args)


def test_complex_numbers_inside():
    """A complex number that is made inside is refused where it is made."""
    with pytest.raises(mbs.ProgramError, match=r"complex128.*test_refusals\.py"):
        mbs.program(lambda x: jnp.abs(x + 1j))(X)


def test_size():
    """A function with more operations than the limit says so, a loop in it counts once."""
    with pytest.raises(mbs.ProgramError, match=r"more than.*100.*scan"):
        mbs.program(lambda x: [jnp.sin(x + k) for k in range(25)], limit=100)(X)
    looped = mbs.program(lambda x: lax.fori_loop(0, 200, lambda k, s: jnp.sin(s + k), x), limit=100)
    np.testing.assert_allclose(looped(X), looped.f(X), rtol=1e-12)


def test_advice_for_far_too_large_functions():
    """One that is far too large is not even traced to its end, with the same advice."""
    with pytest.raises(mbs.ProgramError, match=r"more than.*100.*scan"):
        mbs.program(lambda x: [jnp.sin(x + k) for k in range(300)], limit=100)(X)


def test_no_argument_and_no_output():
    """Nothing in, nothing out: no crash."""
    assert mbs.program(lambda: ())() == ()
    assert mbs.program(lambda x: ())(X) == ()
    np.testing.assert_array_equal(mbs.program(lambda: jnp.arange(3.0))(), [0, 1, 2])
    assert mbs.program(lambda x: x[:0])(X).shape == (0,)
    np.testing.assert_array_equal(mbs.program(lambda x: x)(X), X)


INTEGERS = np.array([[7, 0], [-7, 0], [np.iinfo(np.int64).min, -1], [7, -2], [-7, 2], [0, 0]])


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_integer_division_by_zero(batched, dtype, emission):
    """The processor would trap; a program gives what XLA gives."""
    least = np.int32 if emission == "tpu-on-host" else dtype  # a TPU has no other integers
    pairs = np.maximum(INTEGERS, np.iinfo(least).min).astype(least)
    function = lambda k: (lax.div(k[0], k[1]), lax.rem(k[0], k[1]))
    apply = (lambda f: jax.vmap(f)(pairs)) if batched else (lambda f: [jax.jit(f)(k) for k in pairs])
    for a, b in zip(jax.tree.leaves(apply(mbs.program(function))), jax.tree.leaves(apply(function)), strict=True):
        np.testing.assert_array_equal(a, b)


INDICES = np.array([-100, -4, -3, -1, 0, 2, 3, 100])
INDEXED = {
    "read": lambda x, k: x[k],
    "row": lambda x, k: jnp.outer(x, x)[k],
    "long table": lambda x, k: jnp.concatenate([x] * 5)[k],
    "clipped": lambda x, k: x.at[k].get(mode="clip"),
    "filled": lambda x, k: x.at[k].get(mode="fill", fill_value=7.0),
    "slice": lambda x, k: lax.dynamic_slice(x, (k,), (2,)),
    "written": lambda x, k: x.at[k].set(9.0),
    "added": lambda x, k: x.at[k].add(x[0]),
    "written, clipped": lambda x, k: x.at[k].set(9.0, mode="clip"),
    "slice written": lambda x, k: lax.dynamic_update_slice(x, x[:2] + 1, (k,)),
    "rows in a loop": lambda x, k: lax.fori_loop(0, 100, lambda i, s: s + jnp.outer(x, x)[i + k], x),
    "integers": lambda x, k: jnp.arange(5, 8)[k],
    "integers, filled": lambda x, k: (x * 10).astype(int).at[k].get(mode="fill"),
    "truth values, filled": lambda x, k: (x > 0).at[k].get(mode="fill"),
}


@pytest.mark.parametrize("name", INDEXED)
def test_indices_out_of_range(name, emission, agree):
    """Clamped, dropped or filled as JAX does it."""
    apply = lambda f: jax.vmap(f, (None, 0))(jnp.asarray(X), INDICES)
    agree(apply(mbs.program(INDEXED[name])), apply(INDEXED[name]))


def test_keys_of_random_numbers_are_no_numbers():
    """They are refused as what they are, closed over or given, so that functions with them stay array code."""
    key = jax.random.key(0)
    with pytest.raises(mbs.ProgramError, match=r"key<fry>: programs take real numbers"):
        mbs.program(lambda x: x + jax.random.normal(key))(1.0)
    with pytest.raises(mbs.ProgramError, match=r"key<fry>: programs take real numbers"):
        mbs.program(lambda key: jax.random.normal(key))(key)
    function = ProgramWithFallback(lambda x: x + jax.random.normal(key))
    with pytest.warns(
        mbs.PerformanceWarning, match=r"test_refusals\..*<lambda> runs as array code, .*: dtype key<fry>"
    ):
        assert function(1.0) == 1.0 + jax.random.normal(key)


def test_functions_left_as_array_code_say_so_once():
    """The warning names the function, the reason and what to do; further calls and other arguments are silent."""

    def stiffness(x):
        return jnp.linalg.eigvalsh(x)

    too_long = ProgramWithFallback(lambda x: jnp.sin(x) @ jnp.cos(x), limit=10)
    reason = r"test_refusals\.\S*stiffness runs as array code, .*'eigh' has no straight-line form.*avoid the operation"
    with pytest.warns(mbs.PerformanceWarning, match=reason) as said:
        assert ProgramWithFallback(stiffness)(SQUARE).shape == (3,)
    assert said[0].filename == __file__
    ProgramWithFallback(stiffness)(np.eye(2))
    with pytest.warns(mbs.PerformanceWarning, match=r"more than a straight-line program should have.*JointCoordinates"):
        too_long(X)
    with primitive.emission("array"):
        ProgramWithFallback(lambda x: jnp.linalg.eigvalsh(x))(SQUARE)


@pytest.mark.parametrize("kind", ["general", "symmetric"])
def test_array_code_multiplies_in_full_precision(kind):
    """A GPU multiplies float32 matrices in 10 bits by default, which an inverse does not bear."""

    def refused(x):
        factors = factorise(x @ x.T + jnp.eye(20), jnp.zeros(20) if kind == "symmetric" else jnp.asarray(True), kind)[0]
        return jnp.linalg.svd(factors @ x, compute_uv=False)

    with pytest.warns(mbs.PerformanceWarning):
        text = jax.jit(ProgramWithFallback(refused)).lower(np.eye(20)).as_text()
    products = re.findall(r"dot_general.*", text)
    assert len(products) > 1
    assert all("HIGHEST" in line for line in products)
