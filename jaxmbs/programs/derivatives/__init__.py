"""Derivatives of programs, made node by node on their graphs of scalars.

`dependence` finds what a derivative goes through, `partials` knows the slope of each operation, `copying` puts a graph into
another one, `tangent` and `cotangent` derive forward and in reverse, `segments` decides what loops keep for their way back,
and `programs` makes programs of all that.
"""
