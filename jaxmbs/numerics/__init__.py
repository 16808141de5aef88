"""Floor 0: mathematics that knows no mechanism.

Rotations, curves, small linear algebra, roots of `f(q, t) = 0` followed in time and differentiated
implicitly, and the status that every result carries.
"""
