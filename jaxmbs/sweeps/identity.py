"""Digest of a function, by which a sweep recognises its measure: its code, and the numbers that it uses.

Code of installed packages counts by its name. So do lists, dicts and other objects that may change while a measure runs.
"""

from __future__ import annotations

import functools
import hashlib
import site
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxmbs.programs import referenced_values

# Folders of installed packages and of Python itself.
INSTALLED = tuple({*site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values()})


def identity(x: Any) -> str:
    """Return a digest of a function, or of a value that one uses, in hexadecimal digits, equal in every process."""
    return hashlib.sha256(repr(_describe(x, set())).encode()).hexdigest()


def _describe(x: Any, visited: set[int]) -> Any:
    """Return nested tuples that describe a value; `visited` holds the ids of objects already described."""
    if x is None or isinstance(x, (bool, int, float, complex, str, bytes)):
        return type(x).__name__, repr(x)
    if isinstance(x, (np.ndarray, np.generic, jax.Array)) and not isinstance(x, jax.core.Tracer):
        return _describe_array(x)
    if isinstance(x, frozenset):
        return type(x).__name__, sorted(repr(_describe(y, visited)) for y in x)
    if isinstance(x, tuple):
        return type(x).__name__, [_describe(y, visited) for y in x]
    if isinstance(x, (list, dict, set, types.ModuleType)) or id(x) in visited:
        return type(x).__name__, getattr(x, "__name__", "")
    visited.add(id(x))
    if isinstance(x, functools.partial):
        function, arguments = _describe(x.func, visited), _describe(x.args, visited)
        return "partial", function, arguments, [(k, _describe(v, visited)) for k, v in x.keywords.items()]
    if isinstance(x, types.MethodType):
        return "method", _describe(x.__func__, visited), _describe(x.__self__, visited)
    if isinstance(x, types.FunctionType):
        return _describe_function(x, visited)
    if isinstance(x, type):
        return _describe_class(x, visited)
    # Transformations and callbacks of JAX hold the function that they wrap.
    inner = getattr(x, "__wrapped__", getattr(x, "callback_func", None))
    if inner is not None:
        return type(x).__name__, _describe(inner, visited)
    own = {} if _is_installed(type(x)) else getattr(x, "__dict__", {})
    fields = [(name, _describe(value, visited)) for name, value in sorted(own.items())]
    return _describe_class(type(x), visited), fields


def _describe_array(x) -> Any:
    """Describe an array by shape, dtype and a digest of its content."""
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    value = np.asarray(x)
    content = b"objects" if value.dtype.hasobject else np.ascontiguousarray(value).tobytes()
    return "array", value.shape, str(value.dtype), hashlib.sha256(content).hexdigest()


def _describe_function(f: types.FunctionType, visited: set[int]) -> Any:
    """Describe a function by its code, the values that it uses, and its defaults."""
    if _is_installed(f):
        return "function", f"{f.__module__}.{f.__qualname__}"
    values, variables = referenced_values(f)
    cells = [_describe(x, visited) for x in values]
    used = [(name, _describe(x, visited)) for name, x in variables]
    defaults = _describe(f.__defaults__, visited)
    of_keywords = [(k, _describe(v, visited)) for k, v in sorted((f.__kwdefaults__ or {}).items())]
    code = _describe_code(f.__code__, visited)
    return "function", f.__qualname__, code, cells, used, (defaults, of_keywords)


def _describe_class(kind: type, visited: set[int]) -> Any:
    """Describe a class by its functions."""
    if _is_installed(kind) or id(kind) in visited:
        return "class", f"{kind.__module__}.{kind.__qualname__}" if _is_installed(kind) else kind.__qualname__
    visited.add(id(kind))
    own = [(name, getattr(x, "__func__", x)) for name, x in sorted(vars(kind).items())]
    functions = [(name, _describe(x, visited)) for name, x in own if isinstance(x, types.FunctionType)]
    return "class", kind.__qualname__, functions


def _describe_code(code: types.CodeType, visited: set[int]) -> Any:
    """Describe compiled code by its instructions, names and constants."""
    constants = [
        _describe_code(c, visited) if isinstance(c, types.CodeType) else _describe(c, visited) for c in code.co_consts
    ]
    return code.co_code, code.co_names, code.co_varnames, constants


def _is_installed(x: Any) -> bool:
    """Return True for functions and classes of installed packages, whose versions stand for their code."""
    name = getattr(x, "__module__", None) or ""
    top = name.partition(".")[0]
    if top in ("jaxmbs", "builtins"):
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return name != "__main__" and file is not None and str(Path(file).resolve()).startswith(INSTALLED)
