"""Batches that are sharded over devices: each device computes its own samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def shard_over_devices(tree, everywhere: bool = False):
    """Shard the rows of arrays over all devices of this process, if they can be divided evenly.

    Args:
        tree: arrays with the same number of rows.
        everywhere: True to use the devices of all processes of `jax.distributed`, each of which has the same arrays.

    Returns:
        The arrays, unchanged if there is one device or the rows cannot be divided evenly.
    """
    devices = jax.devices() if everywhere else jax.local_devices()
    if len(devices) == 1 or any(len(x) % len(devices) for x in jax.tree.leaves(tree)):
        return tree
    sharding = NamedSharding(Mesh(devices, ("rows",)), PartitionSpec("rows"))
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)
    own = lambda x: jax.make_array_from_callback(np.shape(x), sharding, lambda index: np.asarray(x)[index])
    return jax.tree.map(own, tree)


def gather(tree):
    """Return the arrays of a tree as NumPy arrays, complete in every process, wherever their rows are."""

    def whole(x):
        """Return an array as a NumPy array with all rows, those of other processes included."""
        if isinstance(x, jax.Array) and not x.is_fully_addressable:
            from jax.experimental import multihost_utils  # imported by few, and not in a moment

            return np.asarray(multihost_utils.process_allgather(x, tiled=True))
        return np.asarray(x)

    return jax.tree.map(whole, tree)


def by_shards(whole: Callable, lower: Callable, batch: Sequence[int], args: Sequence) -> list:
    """Return whole(*args) such that XLA may divide it along the axes of the batch.

    Otherwise each device would compute the whole batch.

    Args:
        whole: function of all samples.
        lower: (batch of a shard, *args) ↦ its results.
        batch: sizes of the batch axes.
        args: operands, with the axes of the batch in front, of size 1 if they do not depend on one.
    """
    depth = len(batch)

    def local(*args):
        """Return the results of a shard, whose batch is as large as its operands."""
        return lower(tuple(max(x.shape[k] for x in args) for k in range(depth)), *args)

    def partition(mesh, arg_shapes, result_shapes):
        """Return how XLA should divide operands and results: along the batch axes of the first result."""
        axes = (*result_shapes[0].sharding.spec, *[None] * depth)[:depth]
        spec = lambda x: PartitionSpec(*(axes[k] if x.shape[k] == batch[k] else None for k in range(depth)))
        place = lambda x: NamedSharding(mesh, spec(x))
        return mesh, local, [place(x) for x in result_shapes], tuple(place(x) for x in arg_shapes)

    function = custom_partitioning(whole)
    function.def_partition(partition, **_rule(batch, args, jax.eval_shape(whole, *args)))
    return function(*args)


def _rule(batch: Sequence[int], args: Sequence, outputs: Sequence) -> dict:
    """Return the arguments of `def_partition` that let the batch axes be sharded and keep all others whole."""
    whole: list[str] = []

    def named(x) -> str:
        """Return the names of an array's axes, for the sharding rule."""
        names = []
        for k, size in enumerate(x.shape):
            if k < len(batch) and size == batch[k]:
                names.append(f"batch{k}")
            else:
                names.append(f"whole{len(whole)}")
                whole.append(names[-1])
        return " ".join(names)

    rule = f"{', '.join(map(named, args))} -> {', '.join(map(named, outputs))}"
    return {"sharding_rule": rule, "need_replication_factors": tuple(whole)}


def by_shard_map(lower: Callable, devices: Sequence[jax.Device], batch: Sequence[int], args: Sequence) -> list:
    """Return the results of a batch whose longest axis is divided among devices by `jax.shard_map`.

    For all platforms; TPUs have no custom partitioning. The last shards are filled up with copies of the last sample.

    Args:
        lower: (batch of a shard, *args) ↦ its results.
        devices: the devices.
        batch: sizes of the batch axes.
        args: operands, with the axes of the batch in front, of size 1 if they do not depend on one.
    """
    axis = max(range(len(batch)), key=lambda k: batch[k])
    share = -(-batch[axis] // len(devices))
    missing = share * len(devices) - batch[axis]
    depends = [x.shape[axis] == batch[axis] for x in args]

    def filled(x):
        """Return an operand that depends on the axis with as many samples as the shards have together."""
        return jnp.pad(x, [(0, missing if k == axis else 0) for k in range(x.ndim)], mode="edge")

    def local(*args):
        """Return the results of a shard."""
        return lower((*batch[:axis], share, *batch[axis + 1 :]), *args)

    divided = PartitionSpec(*[None] * axis, "samples")
    shared = jax.shard_map(
        local,
        mesh=Mesh(np.array(devices), ("samples",)),
        in_specs=tuple(divided if own else PartitionSpec() for own in depends),
        out_specs=divided,
        check_vma=False,
    )
    results = shared(*(filled(x) if own else x for x, own in zip(args, depends, strict=True)))
    return [lax.slice_in_dim(x, 0, batch[axis], axis=axis) for x in results]
