"""Programs as JavaScript compute in a browser what JAX computes with the same functions, without straight-line code."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from browser import needs_browser
from jaxmbs.programs import OPERATIONS, emission
from source_samples import ANGLES, decisions, elementary, loops, turned

TOLERANCE = 1e-12
SAMPLES = 200
RUN = """async (text, name, samples) => {
    const module = await import("data:text/javascript;base64," + btoa(text));
    return samples.map((args) => module[name](...args.map((x) => Float64Array.from(x))).map((y) => Array.from(y, String)));
}"""


def computed(browser, program, *args):
    """The results for each sample in the browser, as `jax.vmap` returns them; args have the samples in front."""
    first = [x[0] for x in args]
    text = program.javascript(*first, name="f")
    samples = [[np.ravel(x[k]).tolist() for x in args] for k in range(len(args[0]))]
    found = browser.run(f"({RUN})({json.dumps(text.encode('ascii', 'replace').decode())}, 'f', {json.dumps(samples)})")
    shapes, tree = jax.tree.flatten(jax.eval_shape(program, *first))
    columns = zip(*found, strict=True)
    rows = [np.array(c, float).reshape(len(samples), *s.shape) for c, s in zip(columns, shapes, strict=True)]
    return jax.tree.unflatten(tree, rows)


def alike(found, wanted):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        b = np.asarray(b, float)
        largest = np.abs(b[np.isfinite(b)]).max(initial=0.0) if np.asarray(b).ndim > 2 else 0.0
        np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * max(largest, 1.0))


@needs_browser
@pytest.mark.parametrize("function", [elementary, decisions, loops])
def test_what_programs_consist_of(function, browser):
    """Random numbers, whole and half ones, zeros of both signs; array code of JAX is what they are compared with."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, SAMPLES)) * 2
    x[:60], y[:60] = rng.integers(-4, 5, (2, 60)) / 2
    with emission("array"):
        wanted = jax.jit(jax.vmap(function))(x, y)
    alike(computed(browser, mbs.program(function), x, y), wanted)


@needs_browser
def test_a_mechanism_and_its_statuses(browser):
    """Good ones are those of the closed form; all are what they are in Python, and the same ones fail in the same way."""
    rng = np.random.default_rng(6)
    crank, rod, offset = rng.uniform([[0.3], [0.3], [-0.5]], [[1.5], [3.0], [0.5]], (3, SAMPLES))
    program = mbs.program(turned)
    found = computed(browser, program, crank, rod, offset)
    wanted = jax.jit(jax.vmap(program))(crank, rod, offset)
    np.testing.assert_array_equal(found["status"], wanted["status"])
    good = found["status"] == mbs.Status.CONVERGED
    assert 0.2 < good.mean() < 0.95
    assert (found["status"] == mbs.Status.LOCKED_UP).any()
    np.testing.assert_allclose(found["q"][good], wanted["q"][good], rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(found["v"][good], wanted["v"][good], rtol=1e-10, atol=1e-10)
    whole = good.all(1)
    r, rod, e = crank[whole, None], rod[whole, None], offset[whole, None]
    slider = r * np.cos(ANGLES) + np.sqrt(rod**2 - (e - r * np.sin(ANGLES)) ** 2)
    np.testing.assert_allclose(found["q"][whole][:, :, 6], slider, rtol=TOLERANCE)


@needs_browser
def test_values_closed_over_unused_arguments_and_wrong_lengths(browser):
    """JAX arrays that are closed over are in the text, an argument without use keeps its place, lengths are checked."""
    kept = jnp.array([[1.0, jnp.inf], [-2.5e-300, 3.0]])
    program = mbs.program(lambda unused, x: (kept * x["b"][None] + x["a"][None], jnp.isnan(x["b"]), kept[0, 1] > 0))
    args = np.zeros((1, 7)), {"a": np.full((1, 2), np.float64(0.1)), "b": np.full((1, 2), 3.0)}
    text = program.javascript(args[0][0], jax.tree.map(lambda x: x[0], args[1]), name="f")
    assert " * x1: [1]['a'], 2 numbers\n" in text
    run = lambda *given: browser.run(f"({RUN})({json.dumps(text)}, 'f', {json.dumps([given])})")
    ((product, isnan, positive),) = run([0] * 7, [0.1, 0.1], [3, 3])
    np.testing.assert_array_equal(np.array(product, float), (np.array([[1, np.inf], [-2.5e-300, 3]]) * 3 + 0.1).ravel())
    assert (isnan, positive) == (["0", "0"], ["1"])
    with pytest.raises(RuntimeError, match="RangeError: f: x1 has length 2, got 3"):
        run([0] * 7, [1, 2, 3], [3, 3])


def test_what_cannot_be_written_is_named(monkeypatch):
    program = mbs.program(lambda x: jnp.sin(x))
    with pytest.raises(ValueError, match="name= must be an identifier of JavaScript, got '<lambda>'"):
        program.javascript(1.0)
    with pytest.raises(ValueError, match="closes over traced values"):
        jax.jit(lambda z: mbs.program(lambda x: x * z).javascript(1.0, name="f") and z)(2.0)
    monkeypatch.setitem(OPERATIONS, "sin", dataclasses.replace(OPERATIONS["sin"], javascript=None))
    with pytest.raises(mbs.ProgramError, match="the operation 'sin' cannot be written in JavaScript"):
        program.javascript(1.0, name="f")
    with pytest.raises(mbs.ProgramError, match="eigh"):
        mbs.program(jnp.linalg.eigvalsh).javascript(jnp.eye(2), name="f")
