"""What a function is, so that a sweep knows its measure again: its code, and the numbers that it uses.

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

# Folders of packages that are installed, and of Python itself.
INSTALLED = tuple({*site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values()})


def identity(x: Any) -> str:
    """A digest that is equal in every process.

    Examples:
        >>> from jaxmbs.sweeps.identity import identity
        >>> scaled = lambda factor: lambda x: factor * x
        >>> identity(scaled(2.0)) == identity(scaled(2.0)), identity(scaled(2.0)) == identity(scaled(3.0))
        (True, False)
    """
    return hashlib.sha256(repr(_told(x, set())).encode()).hexdigest()


def _told(x: Any, seen: set[int]) -> Any:
    if x is None or isinstance(x, (bool, int, float, complex, str, bytes)):
        return type(x).__name__, repr(x)
    if isinstance(x, (np.ndarray, np.generic, jax.Array)) and not isinstance(x, jax.core.Tracer):
        return _array(x)
    if isinstance(x, (tuple, frozenset)):
        return type(x).__name__, sorted(repr(_told(y, seen)) for y in x) if isinstance(x, frozenset) else [
            _told(y, seen) for y in x
        ]
    if isinstance(x, (list, dict, set, types.ModuleType)) or id(x) in seen:
        return type(x).__name__, getattr(x, "__name__", "")
    seen.add(id(x))
    if isinstance(x, functools.partial):
        return "partial", _told(x.func, seen), _told(x.args, seen), [(k, _told(v, seen)) for k, v in x.keywords.items()]
    if isinstance(x, types.MethodType):
        return "method", _told(x.__func__, seen), _told(x.__self__, seen)
    if isinstance(x, types.FunctionType):
        return _function(x, seen)
    if isinstance(x, type):
        return _class(x, seen)
    # JAX's own transformations hold the function that they are of, as do its callbacks.
    inner = getattr(x, "__wrapped__", getattr(x, "callback_func", None))
    if inner is not None:
        return type(x).__name__, _told(inner, seen)
    own = getattr(x, "__dict__", {})
    fields = [] if _installed(type(x)) else [(name, _told(value, seen)) for name, value in sorted(own.items())]
    return _class(type(x), seen), fields


def _array(x) -> Any:
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    value = np.asarray(x)
    content = b"objects" if value.dtype.hasobject else np.ascontiguousarray(value).tobytes()
    return "array", value.shape, str(value.dtype), hashlib.sha256(content).hexdigest()


def _function(f: types.FunctionType, seen: set[int]) -> Any:
    if _installed(f):
        return "function", f"{f.__module__}.{f.__qualname__}"
    values, variables = referenced_values(f)
    cells = [_told(x, seen) for x in values]
    used = [(name, _told(x, seen)) for name, x in variables]
    bound = _told(f.__defaults__, seen), [(k, _told(v, seen)) for k, v in sorted((f.__kwdefaults__ or {}).items())]
    return "function", f.__qualname__, _code(f.__code__, seen), cells, used, bound


def _class(kind: type, seen: set[int]) -> Any:
    """A class by its functions."""
    if _installed(kind) or id(kind) in seen:
        return "class", f"{kind.__module__}.{kind.__qualname__}" if _installed(kind) else kind.__qualname__
    seen.add(id(kind))
    own = [(name, getattr(x, "__func__", x)) for name, x in sorted(vars(kind).items())]
    return "class", kind.__qualname__, [(name, _told(x, seen)) for name, x in own if isinstance(x, types.FunctionType)]


def _code(code: types.CodeType, seen: set[int]) -> Any:
    constants = [_code(c, seen) if isinstance(c, types.CodeType) else _told(c, seen) for c in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, constants


def _installed(x: Any) -> bool:
    """Whether a function or class is of an installed package, whose code is known by its version."""
    name = getattr(x, "__module__", None) or ""
    top = name.partition(".")[0]
    if top in ("jaxmbs", "builtins"):
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return name != "__main__" and file is not None and str(Path(file).resolve()).startswith(INSTALLED)
