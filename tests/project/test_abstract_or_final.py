"""Every class is abstract or final: a method with a body is overridden nowhere, so what an object does is read once."""

import functools
import importlib
import inspect
import pkgutil

import jaxmbs

# Methods that are overridden all the same.
OPTIONAL = {
    "AbstractBackend": {"refusal"},
    # The four-bar's is called without an object.
    "AbstractDyadic": {"mechanism"},
    # Methods for which the abstract class has an answer that fits most elements.
    "AbstractBody": {"known_inertia", "massless", "rest"},
    "AbstractConstraint": {
        *("check_at", "components", "drawn_marks", "freedom", "guide", "mobility", "push", "relative", "shared"),
        *("lacks_marks", "lengths", "within"),
    },
    "AbstractEffort": {"measures"},
    "AbstractForce": {"acts_on", "check_joints", "kinetic", "measures", "potential", "uniform"},
    "AbstractInertialEffort": {"kinetic"},
    "AbstractStatefulForce": {"at_start"},
    "AbstractTurning": {"at_rest", "drift", "signed_coordinates_of", "of_either_sign", "singular", "with_sign_of"},
    "Frames": {"given_frames"},
    "Linkage": {"extreme_cosines", "guess"},
    "SpatialConstraint": {"given_frames"},
    # Methods that an environment may leave out.
    "Environment": {"ends", "metrics", "task"},
    # A rotor is a body with less inertia.
    "Body": {"inertia", "massless"},
}
# A class adds conditions to those of its parents by `super().check()`, as in `__check_init__`.
COOPERATIVE = {"check"}
# Classes with objects of their own and subclasses: a rotor is a body, a model a mechanism, a hinge a pair; an error has
# special cases; `Structured` says how fields are read; a front is ranked, too.
EXTENDED = {"Body", "LowerPair", "Mechanism", "ProgramError", "Ranked", "Structured"}
KINDS = (property, classmethod, staticmethod, functools.cached_property)


def classes() -> set[type]:
    names = [name for _, name, _ in pkgutil.walk_packages(jaxmbs.__path__, "jaxmbs.") if not name.endswith("__main__")]
    found = {
        value for name in names for value in vars(importlib.import_module(name)).values() if inspect.isclass(value)
    }
    return {kind for kind in found if of_package(kind)}


def of_package(kind: type) -> bool:
    return str(kind.__module__).startswith("jaxmbs")


def methods(kind: type) -> dict[str, bool]:
    """The methods and properties that a class has itself, and whether they have a body."""
    own = {name: getattr(value, "method", value) for name, value in vars(kind).items()}  # as Equinox wraps them
    return {
        name: not getattr(value, "__isabstractmethod__", False)
        for name, value in own.items()
        if (inspect.isfunction(value) or isinstance(value, KINDS)) and (name[:2] != "__" or name == "__call__")
    }


def test_no_method_with_a_body_is_overridden():
    pairs = [(kind, base) for kind in classes() for base in kind.__mro__[1:] if of_package(base)]
    assert len(pairs) > 300
    overridden = {
        f"{kind.__qualname__}.{name}, of {base.__qualname__}"
        for kind, base in pairs
        for name, body in methods(base).items()
        if body and name in methods(kind) and name not in COOPERATIVE | OPTIONAL.get(base.__name__, set())
    }
    assert overridden == set()


def test_only_abstract_classes_have_subclasses():
    bases = {base for kind in classes() for base in kind.__bases__ if of_package(base)}
    concrete = {base.__name__ for base in bases if not inspect.isabstract(base)}
    assert {name for name in concrete if not name.startswith("Abstract")} <= EXTENDED
