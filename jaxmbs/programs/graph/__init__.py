"""Graphs of scalars, which know neither JAX nor any platform.

A graph is a tree of regions, the program and in it the bodies of loops, each with a list of nodes. `nodes` specifies them,
`operations` is the table of scalar operations, `graph` makes nodes and folds constants, `liveness` finds those that results
need, `listing` prints them.
"""
