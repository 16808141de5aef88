"""What tests of programs share: the emissions, and what counts as equal."""

import jax
import numpy as np
import pytest

from jaxmbs.programs import primitive

EMISSIONS = ("llvm", "xla", "array")


@pytest.fixture(params=EMISSIONS)
def emission(request, monkeypatch):
    """The test in every emission."""
    monkeypatch.setattr(primitive, "EMISSION", request.param)
    return request.param


@pytest.fixture(scope="session")
def agree():
    """agree(found, expected, tolerance): the same shapes and dtypes, the same values relative to the largest one."""

    def check(found, expected, tolerance=1e-12):
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            a, b = np.asarray(a), np.asarray(b)
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            finite = np.abs(b[np.isfinite(b)]).max(initial=0.0) if b.dtype.kind == "f" else 0.0
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * finite)

    return check
