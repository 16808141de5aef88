"""From a JAX function to a graph of scalars.

`trace` interprets a jaxpr with arrays of nodes, by the `rules` of its primitives and those in `indexing`, `dense` (JAX's
factorisations) and `loops`; `marks` keep the derivatives of values that have one of their own; `program` holds the result.
"""
