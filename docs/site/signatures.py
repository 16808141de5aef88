"""Signatures of the reference, an extension of griffe: those of classes, with types and values of defaults.

The arguments of an element are fields of a dataclass or those of its own `__init__`, so griffe does not find them in one
place. They are read from the class itself. An argument that `jaxmbs.numerics.arrays.real` declares as a field has the
type of the numbers that users give, such as `Float[ArrayLike, "3"]`. A method without types has those of its base class.
"""

import ast
import dataclasses
import enum
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import partial

import griffe

from jaxmbs import forces, motion

# Converters of fields, and the types of the arguments that they convert.
CONVERTERS = {
    motion.as_motion: "AbstractMotion | ArrayLike | Callable",
    forces.as_value: "ArrayLike | AbstractMotion | Callable",
}
# Base classes that the reference does not show, because most classes have one of them.
PLAIN_BASES = ("eqx.Module", "NamedTuple")
# Characters around a shape in the source of an annotation.
QUOTES_AND_BLANKS = "\"' "
# Longest text of a default value, in characters.
MAX_DEFAULT_LENGTH = 60
# Types of arguments that many elements have, where the code does not give one.
USUAL_TYPES = {"i": "str", "j": "str", "body": "str", "joint": "str"}


class Signatures(griffe.Extension):
    """Add signatures of classes, write constants as numbers, and types in full."""

    def on_package(self, *, pkg, loader, **kwargs) -> None:
        """Change all members of the package that are in imported modules."""
        for member in members(pkg):
            module = sys.modules.get(member.module.path)
            if module is None:
                continue
            if member.is_function:
                show_constants(member, module)
            if member.is_class and not member.parent.is_class:
                kind = getattr(module, member.name, None)
                if isinstance(kind, type):
                    inherit_types(member, kind)
                    add_signature(member, kind)
                    member.bases = [x for x in member.bases if not str(x).startswith("_") and str(x) not in PLAIN_BASES]
            show_types(member)


def members(place) -> Iterator[griffe.Object]:
    """Yield the members of a module or class, and theirs."""
    for member in list(place.members.values()):
        if not member.is_alias:
            yield member
            if member.is_module or member.is_class:
                yield from members(member)


def show_constants(function: griffe.Function, module) -> None:
    """Write defaults that are constants of the module as their values."""
    for parameter in function.parameters:
        name = str(parameter.default)
        value = getattr(module, name, None)
        if name.isupper() and isinstance(value, int | float | str):
            parameter.default = repr(value)


def show_types(member: griffe.Object) -> None:
    """Write the types of a function or an attribute in full."""
    written = partial(full, aliases=member.module.members)
    if member.is_function:
        member.returns = written(member.returns)
        for parameter in member.parameters:
            parameter.annotation = written(parameter.annotation)
    elif member.is_attribute:
        member.annotation = written(member.annotation)


def full(annotation, aliases: Mapping[str, griffe.Object]):
    """Return an annotation with names such as `Vector` replaced by types of arrays, and shapes in double quotes.

    The blank in a shape such as `" n"` is left out: it is for tools that would take the text for a name.
    """
    if isinstance(annotation, str):
        return f'"{annotation.strip(QUOTES_AND_BLANKS)}"' if annotation[:1] in ("'", '"') else annotation
    if isinstance(annotation, griffe.ExprName) and annotation.name in aliases:
        value = getattr(aliases[annotation.name], "value", None) if not aliases[annotation.name].is_alias else None
        return full(value, aliases) if str(value).startswith("Float[") else annotation
    if not isinstance(annotation, griffe.Expr):
        return annotation
    for field in dataclasses.fields(annotation):
        value = getattr(annotation, field.name)
        if isinstance(value, list | tuple):
            setattr(annotation, field.name, type(value)(full(x, aliases) for x in value))
        elif isinstance(value, str | griffe.Expr) and field.name != "parent":
            setattr(annotation, field.name, full(value, aliases))
    return annotation


def inherit_types(own: griffe.Class, kind: type) -> None:
    """Give methods and properties that have no types those of the base class that declares them."""
    for base in kind.__mro__[1:]:
        if not base.__module__.startswith("jaxmbs"):
            continue
        scope = own.modules_collection[base.__module__]
        for name, declared in vars(base).items():
            member = own.members.get(name)
            if member is None or not (member.is_function or member.is_attribute):
                continue
            function = inspect.unwrap(getattr(declared, "fget", None) or getattr(declared, "__func__", declared))
            for argument, written in getattr(function, "__annotations__", {}).items():
                if written == "Any":
                    continue
                type_ = griffe.get_expression(ast.parse(str(written), mode="eval").body, parent=scope)
                if argument != "return" and member.is_function and argument in member.parameters:
                    parameter = member.parameters[argument]
                    parameter.annotation = parameter.annotation or type_
                elif argument == "return" and member.is_function:
                    member.returns = member.returns or type_
                elif argument == "return":
                    member.annotation = member.annotation or type_


def add_signature(own: griffe.Class, kind: type) -> None:
    """Give a class the signature with which it is called; results, errors, enumerations and abstract classes get none."""
    own.members.pop("__init__", None)
    doc = own.docstring.value if own.docstring else ""
    if issubclass(kind, BaseException | enum.Enum) or "Attributes:\n" in doc:
        return
    if "Args:\n" not in doc and inspect.isabstract(kind):
        return
    parameters = [parameter_of(x, kind, own) for x in inspect.signature(kind).parameters.values()]
    this = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    own.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(this, *parameters)))


def parameter_of(argument: inspect.Parameter, kind: type, own: griffe.Class) -> griffe.Parameter:
    """Return an argument of a class as griffe shows it."""
    annotation = type_of(argument, kind)
    expression = annotation and griffe.get_expression(ast.parse(annotation, mode="eval").body, parent=own.module)
    default = None if argument.default is argument.empty else default_text(argument.default)
    named = griffe.ParameterKind(argument.kind.description)
    return griffe.Parameter(argument.name, annotation=expression, kind=named, default=default)


def type_of(argument: inspect.Parameter, kind: type) -> str | None:
    """Return the type of the values that an argument takes; None if neither its annotation nor a field tells."""
    fields = getattr(kind, "__dataclass_fields__", {})
    field = fields.get(argument.name) or fields.get(f"_{argument.name}")
    if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
        return None
    if field is None or "shape" not in field.metadata:
        given = argument.annotation if isinstance(argument.annotation, str) else "Any"
        converter = field and field.metadata.get("converter")
        known = CONVERTERS.get(converter) or (None if given == "Any" else given) or USUAL_TYPES.get(argument.name)
        optional = argument.default is None and known is not None and "None" not in known
        return f"{known} | None" if optional else known
    shape = " ".join("n" if size is None else str(size) for size in field.metadata["shape"])
    number = f'Float[ArrayLike, "{shape}"]' if shape else "float | Array"
    return f"{number} | None" if field.metadata["optional"] or argument.default is None else number


def default_text(value) -> str:
    """Return a default value as text; an ellipsis stands for a long one."""
    text = repr(value)
    return text if len(text) <= MAX_DEFAULT_LENGTH and not text.startswith("<") else "..."
