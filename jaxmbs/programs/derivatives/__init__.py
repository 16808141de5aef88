"""Derivatives of programs, made node by node on their graphs of scalars.

`dependence` finds the part of a graph that a derivative goes through, `slopes` gives the derivative of each operation,
`copying` copies graphs, `tangent` is forward mode, `cotangent` is reverse mode, `segments` decides which states loops
keep for it, and `derived` makes programs of all that.
"""
