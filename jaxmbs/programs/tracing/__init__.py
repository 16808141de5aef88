"""From a JAX function to a graph of scalars.

`graph` holds the scalars and folds constants (`folding`); `trace` makes a graph of a JAX function, by the `rules` of its
primitives and those in `indexing`, `dense` and `loops`; `elimination` factors small matrices in it; `sharing` merges equal
equations; `program` says what of a graph is used, and `listing` prints it.
"""
