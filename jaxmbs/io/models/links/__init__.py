"""Trees of links, which MJCF and URDF share.

`tree` has the links, `joints` their joints, springs and stops, `parts` the elements of the mechanism, `couplings` the
couplings of two joints, `inertias` the inertias that joints see.
"""
