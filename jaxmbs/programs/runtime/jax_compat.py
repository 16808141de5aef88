"""Everything that is assumed about JAX's internals. Holds for JAX 0.10, 0.11 and 0.12.

Private modules of JAX are imported here only. If versions differ, the function says how.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence

import jax
from jax._src import config, dispatch, linear_util, sharding_impls, source_info_util, util
from jax._src.interpreters import ad, partial_eval
from jax.extend import core

# True from JAX 0.11.1 on: a rule that linearizes returns a further value before the last, structured residuals, which
# are None here. Up to 0.11.0 it returns (results, nonzero, residuals, function), and the function takes (residuals,
# *tangents).
STRUCTURED_RESIDUALS = jax.__version_info__ >= (0, 11, 1)

# Classes of the memories in which JAX's wrapped functions leave values when they are called; these do not belong to the
# function.
MEMORIES = (linear_util.Store, linear_util.EqualStore)

# Classes in which JAX wraps static arguments; the argument is their `val`.
STATIC_ARGUMENTS = (util.Hashable, util.Unhashable)

# Decorator of a function whose results are kept as long as its first argument, a jaxpr, and until `jax.clear_caches()`.
kept_with_jaxpr: Callable = functools.partial(util.weakref_lru_cache, trace_context_in_key=False)

# JAX's own rule for primitives that have none.
linearize_by_jvp: Callable = ad.fallback_linearize_rule


def define_linearization(primitive, rule: Callable) -> None:
    """Linearize a primitive by a rule.

    Args:
        primitive: the primitive.
        rule: (is_vjp, nonzeros, *primals, **params) ↦ (results, nonzero, residuals, function of residuals and tangents), or
            the result of `linearize_by_jvp`.
    """

    def rule_in_current_form(*args, **params):
        """Return the rule's outcome in the form of the installed JAX."""
        outcome = rule(*args, **params)
        if not STRUCTURED_RESIDUALS or len(outcome) == 5:
            return outcome
        results, nonzero, residuals, function = outcome
        return results, nonzero, residuals, None, lambda residuals, _, *tangents: function(residuals, *tangents)

    ad.primitive_linearizations[primitive] = rule_in_current_form


def scan_counts(params) -> tuple[int, int]:
    """Return the numbers of constants and of carried values of a `scan`, from the parameters of its equation.

    Up to JAX 0.10 they are `num_consts` and `num_carry`. Later `ft_in` groups the operands: constants, carry, rows.
    """
    if "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    constants, carry, _ = params["ft_in"].unpack()
    return len(constants), len(carry)


def closed_jaxpr(like, *, consts: Sequence = (), constvars: Sequence = (), invars: Sequence, outvars=None, eqns=None):
    """Return a closed jaxpr with other variables or equations than `like`, an open one.

    Since JAX 0.11 open and closed jaxprs are one class, and constants left over from `like` would stay attached.
    """
    jaxpr = like.replace(
        constvars=list(constvars),
        invars=list(invars),
        outvars=like.outvars if outvars is None else outvars,
        eqns=like.eqns if eqns is None else eqns,
        debug_info=like.debug_info.with_unknown_names(),
    )
    return core.ClosedJaxpr(jaxpr, list(consts))


def default_platform() -> str:
    """Return XLA's name of the platform that JAX computes on: "cuda" or "rocm" if JAX calls it "gpu"."""
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    name = jax.default_backend() if chosen is None else chosen if isinstance(chosen, str) else chosen.platform
    if name != "gpu":
        return name
    return "rocm" if "rocm" in jax.devices("gpu")[0].client.platform_version.lower() else "cuda"


def varying_axes(kind) -> frozenset:
    """Return the axes of a `shard_map` with `check_vma=True` over which values of the type `kind` vary."""
    return getattr(getattr(kind, "mat", None), "varying", frozenset())


def varying_alike(args: Sequence) -> Sequence:
    """Convert the operands of a primitive so that all vary over the same axes of a `shard_map`."""
    if not config._check_vma.value:
        return args
    axes = [varying_axes(jax.typeof(x)) for x in args]
    every = frozenset().union(*axes)
    return [jax.lax.pcast(x, tuple(every - own), to="varying") for x, own in zip(args, axes, strict=True)]


def check_array_code(args: Sequence, reason: str) -> None:
    """Check that array code gets no values that vary over the axes of a `shard_map` with `check_vma=True`.

    Loops of array code begin with constants, which do not vary, so JAX would refuse them.

    Raises:
        ValueError: it gets such values; the message names `reason`, why array code runs.
    """
    if config._check_vma.value and any(varying_axes(jax.typeof(x)) for x in args):
        raise ValueError(f"array code works in jax.shard_map(…, check_vma=False) only; it runs because {reason}")


def shaped_like(outputs: Sequence[tuple], args: Sequence) -> list:
    """Return the types of outputs, given as (shape, dtype), that vary over the axes of a `shard_map` as operands do."""
    if not config._check_vma.value or not args or not varying_axes(args[0]):
        return [jax.core.ShapedArray(shape, dtype) for shape, dtype in outputs]
    like = args[0]
    whole = lambda shape: jax.sharding.NamedSharding(
        like.sharding.mesh, jax.sharding.PartitionSpec(*[None] * len(shape))
    )
    return [
        jax.core.ShapedArray(shape, dtype, sharding=whole(shape), manual_axis_type=like.mat) for shape, dtype in outputs
    ]


def without_varying_axes(context):
    """Remove the axes of a `shard_map` over which values vary from the context of a lowering rule.

    Returns:
        The context, and a context manager under which the rule has to run.
    """
    still = lambda x: jax.core.ShapedArray(x.shape, x.dtype)
    types = {name: [still(x) for x in getattr(context, name)] for name in ("avals_in", "avals_out")}
    return context.replace(**types), config._check_vma(False)


@contextlib.contextmanager
def default_settings() -> Iterator[None]:
    """Return a context in which functions are traced with JAX's default settings.

    It holds even under `jax.disable_jit`, `jax_numpy_dtype_promotion="strict"`, and `shard_map(…, check_vma=True)`.
    """
    with jax.disable_jit(False), jax.numpy_dtype_promotion("standard"), config._check_vma(False):
        yield


def define_partition(primitive) -> None:
    """Let lowering rules of a primitive ask if it `is_partitioned`."""
    dispatch.prim_requires_devices_during_lowering.add(primitive)


def is_partitioned(context) -> bool:
    """Return True if the code that is lowered now runs on several devices, and XLA divides it among them."""
    devices = context.module_context.axis_context
    return isinstance(devices, sharding_impls.ShardingContext) and devices.num_devices > 1


def devices(context) -> tuple:
    """Return the devices that the code which is lowered now runs on; it `is_partitioned`."""
    return tuple(context.module_context.axis_context.device_assignment)


def bind_again(eqn, args, params) -> list:
    """Return the results of an equation for other operands and parameters, with its place in the source and its context."""
    stack = source_info_util.current_name_stack() + eqn.source_info.name_stack
    with source_info_util.user_context(eqn.source_info.traceback, name_stack=stack), eqn.ctx.manager:
        results = eqn.primitive.bind(*args, **eqn.primitive.get_bind_params(params))
    return list(results) if eqn.primitive.multiple_results else [results]


def expand(eqn):
    """Return the closed jaxpr of a `call_hi_primitive`, which since JAX 0.12 stands for `searchsorted` and others."""
    shapes = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in eqn.invars]
    return jax.make_jaxpr(eqn.params["_prim"].expand)(*shapes)


def user_line(eqn) -> str | None:
    """Return file, line and function of the user's code that an equation comes from; None within a function of JAX."""
    if source_info_util.user_frame(eqn.source_info.traceback) is None:
        return None
    return source_info_util.summarize(eqn.source_info)


def rule_within(f) -> list | None:
    """Return the parts of a derivative rule: function, wrappers and static arguments; None for another function.

    An equation holds a wrapped function, or one that makes its jaxpr when it is called, with a memory of those made.
    """
    if isinstance(f, linear_util.WrappedFun):
        return [f.f, [(wrapper.__qualname__, args) for wrapper, args in f.transforms], f.params]
    if getattr(f, "__module__", None) != partial_eval.__name__:
        return None
    cells = [cell.cell_contents for cell in getattr(f, "__closure__", None) or ()]
    found = [x for x in cells if isinstance(x, linear_util.WrappedFun) or callable(x)]
    return found or None
