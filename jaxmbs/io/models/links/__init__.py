"""Trees of links, which MJCF and URDF share.

`tree` has the links, `joints` their joints, springs and stops, `elements` the elements of the mechanism, `couplings` the
couplings of joints, `inertias` the inertias that joints see, `passed_over` the list of parts that are left out.
"""
