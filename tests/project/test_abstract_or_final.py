"""Every class is abstract or final: a method with a body is overridden nowhere, so what an object does is read once."""

import functools
import importlib
import inspect
import pkgutil

import jaxmbs

# Overridden all the same, with the reason for each line.
COOPERATIVE = {"check"}  # a class adds its own conditions to those of its parents, as in `__check_init__`
OPTIONAL = {
    # What most elements have no answer to; the body in the abstract class says so.
    "AbstractConstraint": {"components", "freedom", "guide", "mobility", "relative", "shared"},
    "AbstractBody": {"massless", "rest"},
    "AbstractForce": {"uniform"},
    "AbstractTurning": {"at_rest", "drift", "measured_twice", "of_either_sign", "settled", "singular"},
    "SpatialConstraint": {"given_frames"},
    "Frames": {"given_frames"},
    "Linkage": {"everywhere", "lengths_of"},
    # What an environment of the user's may leave out.
    "Environment": {"ends", "metrics", "task"},
    # A rotor is a body with less inertia, in the plane and in space.
    "Body": {"inertia", "massless"},
}


def classes() -> set[type]:
    """All classes of the package."""
    names = [name for _, name, _ in pkgutil.walk_packages(jaxmbs.__path__, "jaxmbs.") if not name.endswith("__main__")]
    found = [value for name in names for value in vars(importlib.import_module(name)).values()]
    return {value for value in found if inspect.isclass(value) and value.__module__.startswith("jaxmbs")}


def methods(kind: type) -> dict[str, bool]:
    """The methods and properties that a class itself has, and whether they are abstract."""
    kinds = (property, classmethod, staticmethod, functools.cached_property)
    own = {name: getattr(value, "method", value) for name, value in vars(kind).items()}  # as Equinox wraps them
    return {
        name: getattr(value, "__isabstractmethod__", False)
        for name, value in own.items()
        if (inspect.isfunction(value) or isinstance(value, kinds)) and (name[:2] != "__" or name == "__call__")
    }


def test_no_method_with_a_body_is_overridden():
    found = set()
    for kind in classes():
        for base in kind.__mro__[1:]:
            below = methods(base) if base.__module__.startswith("jaxmbs") else {}
            allowed = COOPERATIVE | OPTIONAL.get(base.__name__, set())
            concrete = {name for name, abstract in below.items() if not abstract} - allowed
            found |= {f"{kind.__qualname__}.{name} of {base.__qualname__}" for name in concrete & set(methods(kind))}
    assert found == set()


def test_it_would_be_seen():
    """Properties, functions, class methods and static methods with a body count, abstract ones do not."""
    seen = methods(jaxmbs.JointCoordinates)
    assert seen["equations"] is False
    assert methods(jaxmbs.JointCoordinates.__mro__[1])["equations"] is True
    assert {"massless", "pose", "rest"} <= set(methods(jaxmbs.spatial.Body))
