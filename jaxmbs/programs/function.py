"""Functions of small arrays, compiled as straight-line programs."""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import compress
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.programs.backends import EMISSION, c, javascript
from jaxmbs.programs.errors import PerformanceWarning, ProgramError, ProgramTooLarge
from jaxmbs.programs.runtime import jax_compat, tuning
from jaxmbs.programs.runtime.collector import without_garbage_collection
from jaxmbs.programs.runtime.primitive import run
from jaxmbs.programs.tracing.program import Program, checked_program
from jaxmbs.programs.tracing.trace import needed_equations

# Number of different argument shapes for which a function keeps its program, or the reason why there is none; the
# oldest go first.
MAX_KEPT_SHAPES = 64


# Number of times that each sample of a batch runs a program, in words; see `ProgramWithFallback`.
Runs = Literal["once", "seldom", "often"]


class ProgramFunction:
    """`f` as a straight-line program: called like `f`, under `jit`, `vmap`, `grad`, `jvp` and `checkpoint` alike."""

    def __init__(self, f: Callable, limit: int | None = tuning.MAX_PROGRAM_OPERATIONS, runs: Runs = "often"):
        self.f, self.limit, self.runs = f, limit, runs
        self.__name__ = getattr(f, "__name__", "program")
        self.__doc__ = getattr(f, "__doc__", None)
        self._traces: OrderedDict[Any, tuple] = OrderedDict()
        self.trace_count = 0

    def __call__(self, *args, **kwargs):
        """Run the program for these arguments, traced on the first call with such shapes, and return f's result."""
        (program, constants, used, out_tree), leaves = self._find((args, kwargs))
        return jax.tree.unflatten(out_tree, run(program, *constants, *compress(leaves, used)))

    def trace(self, *args, **kwargs) -> Program:
        """Return the program for arguments like these: print it, or look at its `operations`."""
        return self._find((args, kwargs))[0][0]

    def javascript(self, *args, name: str | None = None) -> str:
        """Return the program for arguments like these as the text of an ES module, for a page that computes without Python.

        It exports one function. Its arguments are the leaves of `args` as arrays of numbers, row by row, also for a
        single number; it returns a list of `Float64Array`, one for each leaf of the result of `f`. A comment names them
        with their shapes; truth values are 0 and 1. Values that `f` closes over are part of the text. All is computed
        in float64, whatever the type of the arguments; integers are exact up to 2⁵³. `ProgramError` is raised as in a
        call, and for an operation without a form in JavaScript.

        Args:
            args: arguments as in a call; only their shapes matter.
            name: name of the function, an identifier; the name of `f` by default.

        Raises:
            ValueError: the name is not an identifier, like that of a lambda; or `f` closes over traced values.
        """
        program, constants, used, leaves, out_tree = self._source_parts(args, "JavaScript")
        arguments = list(zip(_labels(args), (x.shape for x in leaves), strict=True))
        results = _labels(jax.tree.unflatten(out_tree, program.outputs))
        return javascript.module(program, name or self.__name__, constants, arguments, used, results)

    def c(self, *args, name: str | None = None, about: str = "", elementary: str = "libm") -> c.CSource:
        """Return the program for arguments like these as C99, for code that runs without Python.

        The function has the signature `void name(const name_in *in, name_out *out, name_memory *memory)`. The members of
        the structs `in` and `out` have the names of the leaves of `args` and of the result of `f`; arrays are stored row
        by row. `memory` is working memory, which the function fills: it keeps nothing from one call to the next. The code
        needs no library but that of math.h, allocates nothing, and has no variables outside of the function. Numbers are
        float or double, like the arguments here; integers have 64 bits. Values that `f` closes over are constants.

        Args:
            args: arguments as in a call; only their shapes and types matter.
            name: name of the function, an identifier of C; the name of `f` by default.
            about: lines of a comment in the header.
            elementary: "libm" for the elementary functions of math.h; "own" for those of programs on the CPU. With these
                the results have the same bits as on the CPU for one sample, if the compiler does not fuse operations
                (`-ffp-contract=off` for gcc). They need a processor with a fused multiply-add, elsewhere they are slow.

        Returns:
            The texts `.header` and `.source`; `.save(folder)` writes both.

        Raises:
            ValueError: the name is not an identifier, like that of a lambda; `elementary` is unknown; or `f` closes over
                traced values.
            ProgramError: `f` has no straight-line program, or an operation has no form in C.

        Examples:
            >>> code = mbs.program(lambda x: x @ x / 2).c(jnp.array([3.0, 4.0]), name="half_square")
            >>> print(code.header.splitlines()[-7])
            void half_square(const half_square_in *in, half_square_out *out, half_square_memory *memory);
        """
        if elementary not in ("libm", "own"):
            raise ValueError(f'elementary must be "libm" or "own", got {elementary!r}')
        program, constants, used, leaves, out_tree = self._source_parts(args, "C")
        names = _parameter_names(self.f, len(args))
        labels = [label for name, arg in zip(names, args, strict=True) for label in _labels(arg, name)]
        arguments = [(label, x.shape, x.dtype) for label, x in zip(labels, leaves, strict=True)]
        results = _labels(jax.tree.unflatten(out_tree, program.outputs), "")
        return c.source(program, name or self.__name__, constants, arguments, used, results, about, elementary)

    def _source_parts(self, args, language: str):
        """Return program, constants, mask of the leaves that are its other inputs, leaves of `args`, tree of the result."""
        (program, constants, used, out_tree), leaves = self._find((args, {}))
        if any(isinstance(value, jax.core.Tracer) for value in constants):
            raise ValueError(f"{self.__name__} closes over traced values: make its {language} outside jit and grad")
        return program, constants, used, leaves, out_tree

    def key(self, arguments) -> tuple[tuple, list]:
        """Return a key for arguments (args, kwargs), equal if they need the same program, and their leaves as arrays."""
        leaves, tree = jax.tree.flatten(arguments)
        leaves = _arrays(leaves)
        return (tree, tuple((x.shape, x.dtype) for x in leaves)), leaves

    def _find(self, arguments):
        """Return the traced program for arguments, and their leaves."""
        key, leaves = self.key(arguments)
        found = self._traces.get(key)
        if found is None:
            found = self._trace(key[0], leaves)
            # Values of an enclosing transformation must not outlive it.
            if not any(isinstance(c, jax.core.Tracer) for c in found[1]):
                _keep(self._traces, key, found)
        return found, leaves

    @without_garbage_collection()
    def _trace(self, tree, leaves):
        """Trace the function: its program, the values it closes over, a mask of used leaves, and the results' structure."""
        self.trace_count += 1
        out_tree = None

        def flat(*leaves):
            nonlocal out_tree
            args, kwargs = jax.tree.unflatten(tree, leaves)
            results, out_tree = jax.tree.flatten(self.f(*args, **kwargs))
            return [jnp.asarray(x) for x in results]

        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
        try:
            with jax_compat.default_settings():
                closed = jax.make_jaxpr(flat)(*shapes)
        except (jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError) as error:
            raise ProgramError(
                f"{self.__name__}: shapes and branches must not depend on values; use jnp.where or lax.cond. ({error})"
            ) from error
        closed, constants, used = _needed_part(closed)
        program = checked_program(closed, self.limit, self.__name__)
        program.max_unoptimised_samples = tuning.UNOPTIMISED_SAMPLES[self.runs]
        return program, constants, used, out_tree


def _keep(table: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Keep a value under its key, and at most `MAX_KEPT_SHAPES` values in the table."""
    table[key] = value
    if len(table) > MAX_KEPT_SHAPES:
        table.popitem(last=False)


def _arrays(leaves) -> list:
    """Return arguments as arrays. Python numbers, and results of them, get the floating-point type of the other arrays."""
    weak = [isinstance(x, float) or getattr(x, "weak_type", False) for x in leaves]
    arrays = [jnp.asarray(x) for x in leaves]
    real = lambda x: jnp.issubdtype(x.dtype, jnp.floating)
    strong = {x.dtype for x, w in zip(arrays, weak, strict=True) if not w and real(x)}
    if len(strong) != 1:
        return arrays
    (dtype,) = strong
    return [x.astype(dtype) if w and real(x) else x for x, w in zip(arrays, weak, strict=True)]


def _labels(tree, name: str | None = None) -> list[str]:
    """Return the place of each leaf of a tree as text, as in "[0]['crank']"; "the value" for a single leaf.

    If the tree has a `name`, the places begin with it.
    """
    places = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    return [place or "the value" for place in places] if name is None else [name + place for place in places]


def _parameter_names(f: Callable, count: int) -> list[str]:
    """Return names for positional arguments of a function: those of its parameters, x0, x1, … for others."""
    try:
        kinds = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        kinds = []
    positional = [p.name for p in kinds if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [*positional[:count], *(f"x{k}" for k in range(len(positional), count))]


def _needed_part(closed):
    """Return the part of a closed jaxpr that its results depend on: a mechanism has many numbers that none needs.

    Values that the function closes over become arguments, except NumPy arrays, which stay part of the program.
    Equations stay whole, with what is inside them, because derivative rules belong to them.

    Returns:
        The closed jaxpr with the needed values as first arguments, these values, and True for each argument of `closed`
        that is left.
    """
    jaxpr = closed.jaxpr
    equations = needed_equations(jaxpr)
    atoms = [*jaxpr.outvars, *(x for eqn in equations for x in eqn.invars)]
    needed = {x for x in atoms if not hasattr(x, "val")}
    parts = {"consts": [], "constvars": [], "invars": [], "eqns": equations}
    values = []
    for var, value in zip(jaxpr.constvars, closed.consts, strict=True):
        if isinstance(value, np.ndarray) or np.isscalar(value):
            parts["consts"].append(value)
            parts["constvars"].append(var)
        elif var in needed:
            parts["invars"].append(var)
            values.append(value)
    used = [var in needed for var in jaxpr.invars]
    parts["invars"] += compress(jaxpr.invars, used)
    return jax_compat.closed_jaxpr(jaxpr, **parts), values, used


def program(f: Callable, *, limit: int | None = tuning.MAX_PROGRAM_OPERATIONS) -> ProgramFunction:
    """Return a function of small arrays compiled into straight-line code, one lane per sample of a batch.

    The code is vector machine code on CPUs, one kernel on NVIDIA GPUs and TPUs, and elementwise XLA elsewhere. The result
    is called like `f` and works under every JAX transformation; its derivatives are straight-line programs too. Use it for
    the inner functions of a simulation: a vector field, a whole rollout with its time loop (`scan`, `fori_loop`),
    anything made of small arrays. If a part of `f` has no straight-line form, a call of the result raises
    `ProgramError`, a ValueError that names the part and its line.

    Args:
        f: a function of pytrees of arrays, in jax.numpy. Loops need constant bounds; linear systems, norms, `where`,
            indexing, and derivatives by JAX are fine. Values that it closes over may be traced; those of NumPy arrays
            become part of the program.
        limit: largest number of scalar operations.

    Returns:
        A function with the arguments and the result of `f`. Its methods `javascript` and `c` return it as a module of
        JavaScript and as C99.

    Examples:
        >>> half_square = mbs.program(lambda x: x @ x / 2)
        >>> print(half_square(jnp.array([3.0, 4.0])))
        12.5
        >>> print(half_square.javascript(jnp.array([3.0, 4.0]), name="half_square").splitlines()[4])
        export function half_square(x0) {
    """
    return ProgramFunction(f, limit)


# Names of the functions for which a `PerformanceWarning` was given.
warned: set[str] = set()


def _warn_of_array_code(f: Callable, error: ProgramError) -> None:
    """Warn, once for each function, that it has no straight-line program, unless array code was chosen."""
    while isinstance(f, partial):
        f = f.func
    name = f"{f.__module__}.{f.__qualname__}".replace(".<locals>", "")
    if name in warned or EMISSION.value == "array":
        return
    warned.add(name)
    level, frame = 1, inspect.currentframe()
    # The warning refers to the first caller outside of this package, if there is one.
    while frame and frame.f_globals.get("__name__", "").split(".")[0] in ("jaxmbs", "jax", "equinox"):
        level, frame = level + 1, frame.f_back
    advice = "in functions of your own, avoid the operation named here"
    if isinstance(error, ProgramTooLarge):
        advice = "mbs.JointCoordinates() or fewer bodies make the equations smaller"
    warnings.warn(
        f"{name} runs as array code, some 100 times slower than a straight-line program: {error}. What to do: {advice}; "
        "mbs.explain(mech, guess) lists all functions of an analysis that are array code, and JAXMBS_EMISSION=array "
        "chooses array code without this warning",
        PerformanceWarning,
        stacklevel=level,
    )


class ProgramWithFallback:
    """`f` as a straight-line program if it has one and is not too large, else as array code.

    For functions of this package, whose arguments are mechanisms that may contain functions of the user. A
    `PerformanceWarning` says why a function runs as array code.

    Args:
        f: as for `program`.
        limit: largest number of scalar operations of a program.
        runs: how often each sample runs the program. "once" compiles it without optimisation, "seldom" does so for
            batches of up to a thousand samples, "often" leaves the choice to the backend.
    """

    def __init__(self, f: Callable, limit: int = tuning.MAX_PROGRAM_OPERATIONS, runs: Runs = "often"):
        self.f, self.program = f, ProgramFunction(f, limit, runs)
        self._refused: OrderedDict[Any, str] = OrderedDict()

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, f: Callable, *static) -> ProgramWithFallback:
        """Return the program of `partial(f, *static)`, the same object for the same arguments."""
        return cls(partial(f, *static))

    def __call__(self, *args):
        """Run the program, or array code for arguments for which there is none."""
        key, leaves = self.program.key((args, {}))
        refused = None
        if key not in self._refused:
            try:
                return self.program(*args)
            except ProgramError as error:
                refused = error
                _keep(self._refused, key, str(error))
        jax_compat.check_array_code(leaves, self._refused[key])
        # GPUs and TPUs multiply matrices in fewer digits unless they are told not to.
        with jax_compat.default_settings(), jax.default_matmul_precision("highest"):
            result = self.f(*args)
        # If array code fails as well, its error is enough.
        if refused is not None:
            _warn_of_array_code(self.f, refused)
        return result

    def refusal(self, *args) -> str | None:
        """Return the reason why arguments like these run as array code, None if they do not."""
        try:
            self.program.trace(*args)
        except ProgramError as error:
            return str(error)
        return None
