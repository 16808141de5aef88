"""Public functions are annotated, and shapes in annotations are well-formed: the tests check arrays against them."""

import importlib
import inspect
import pkgutil
import typing

import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

import jaxmbs
from jaxmbs.numerics.plane import perpendicular

PUBLIC = (
    "planar", "spatial", "forces", "motion", "numerics.rotation", "system.topology", "synthesis", "identification",
    "sweeps", "env", "io", "viz",
)  # fmt: skip


def functions(module):
    """Functions at the front of a module that are this package's."""
    values = vars(module) | {name: getattr(module, name) for name in getattr(module, "_RESULTS", ())}
    found = {name: inspect.unwrap(value) for name, value in values.items() if callable(value)}
    # A package exports what it imports, a module does not.
    own = "jaxmbs" if hasattr(module, "__path__") else module.__name__
    return {name: f for name, f in found.items() if inspect.isfunction(f) and f.__module__.startswith(own)}


@pytest.mark.parametrize("name", ["jaxmbs", *(f"jaxmbs.{name}" for name in PUBLIC)])
def test_public_functions_are_annotated(name):
    for key, function in functions(importlib.import_module(name)).items():
        signature = inspect.signature(function)
        bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
        assert key.startswith("_") or (bare == [] and signature.return_annotation is not signature.empty), (key, bare)


def of_classes(module):
    """Methods and properties of the classes of a module, and the classes."""
    for kind in vars(module).values():
        if isinstance(kind, type) and kind.__module__ == module.__name__:
            yield kind
            for member in vars(kind).values():
                yield getattr(member, "fget", None) or getattr(member, "__func__", None) or member


def test_shapes_can_be_read():
    """A shape that jaxtyping cannot read would not be checked, and nobody would be told."""
    for info in pkgutil.walk_packages(jaxmbs.__path__, "jaxmbs."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        for item in (*functions(module).values(), *of_classes(module)):
            if inspect.isfunction(item) or isinstance(item, type):
                try:
                    typing.get_type_hints(inspect.unwrap(item))
                except NameError:
                    pass  # a name for type checkers only
                except ValueError as error:
                    pytest.fail(f"{info.name}.{item.__qualname__}: {error}")


def test_shapes_are_checked():
    assert perpendicular(jnp.ones(2)).shape == (2,)
    with pytest.raises(TypeCheckError, match="perpendicular"):
        perpendicular(jnp.ones(3))
