"""The systems of Issa and Arczewski 1998 and their velocity transformations by blocks: (4.9), (4.13) and Table 1."""

import re

import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
import random_mechanisms as mechanisms
from jaxmbs import planar, spatial

GROUND = "ground"
# Unit vector of the z axis.
Z = np.array([0.0, 0, 1])


# Velocity transformation (4.9) of the system of Fig. 3, row by row: the name of a point (r) or unit vector (u), then
# its blocks. D21u1 stands for −D₂₁ u₁, U2u1 for −U₂ u₁, D21 for −D₂₁, I for the identity; D and U are the skew matrices
# of vectors.
GROUNDED = """
r2 D21u1 0     0  0
u2 U2u1  0     0  0
r3 D31u1 D32u2 0  0
u3 U3u1  U3u2  0  0
r4 D41u1 D42u2 u3 0
r5 D51u1 D52u2 u3 0
u5 U5u1  U5u2  0  0
r6 D61u1 D62u2 u3 D65u5
u6 U6u1  U6u2  0  U6u5
"""


# Velocity transformation (4.13) of the system of Fig. 4, in the notation of `GROUNDED`.
FLOATING = """
r1 I 0   0     0     0  0
u1 0 U1  0     0     0  0
r2 I D21 0     0     0  0
u2 0 U2  0     0     0  0
r3 I D31 D32u2 0     0  0
u3 0 U3  U3u2  0     0  0
r4 I D41 D42u2 D43u3 0  0
u4 0 U4  U4u2  U4u3  0  0
r5 I D51 D52u2 D53u3 u4 0
r6 I D61 D62u2 D63u3 u4 0
u6 0 U6  U6u2  U6u3  0  0
r7 I D71 0     0     0  0
u7 0 U7  0     0     0  0
r8 I D81 0     0     0  D87u7
u8 0 U8  0     0     0  U8u7
"""


# Velocity transformation of a chain with universal joints by Table 1, in the notation of `GROUNDED`: u and v are the
# two arms u¹, u² of the cross. Joints at 1 (U), 2 (P), 4 (U), 5 (R).
CARDAN = """
v1 U1u1  0     0  0     0     0
r2 D21u1 D21v1 0  0     0     0
u2 U2u1  U2v1  0  0     0     0
r3 D31u1 D31v1 u2 0     0     0
r4 D41u1 D41v1 u2 0     0     0
u4 U4u1  U4v1  0  0     0     0
r5 D51u1 D51v1 u2 D54u4 D54v4 0
u5 U5u1  U5v1  0  U5u4  U5v4  0
r6 D61u1 D61v1 u2 D64u4 D64v4 D65u5
u6 U6u1  U6v1  0  U6u4  U6v4  U6u5
"""


def skew(d):
    """Return D with D w = d × w."""
    return np.array([[0, -d[2], d[1]], [d[2], 0, -d[0]], [-d[1], d[0], 0]])


def entry(cell, row, at):
    """Return a block of a table, for points and vectors `at` by name, in the row of a point or vector."""
    if cell == "I":
        return np.eye(3)
    if cell[0] in "uv":
        return at[cell][:, None]
    skewed, axis = re.fullmatch(r"(D\d\d|U\d)([uv]\d)?", cell).groups()
    d = at[f"r{skewed[1]}"] - at[f"r{skewed[2]}"] if skewed[0] == "D" else at[row]
    return -skew(d) if axis is None else -skew(d) @ at[axis][:, None]


def entry_rate(cell, row, at, rates):
    """Return the rate of a block by the product rule, as in Table 1: −Ḋ u − D u̇ and so on."""
    if cell == "I":
        return np.zeros((3, 3))
    if cell[0] in "uv":
        return rates[cell][:, None]
    skewed, axis = re.fullmatch(r"(D\d\d|U\d)([uv]\d)?", cell).groups()
    if axis is None:
        return entry(cell, row, rates)
    return entry(skewed, row, rates) @ at[axis][:, None] + entry(skewed, row, at) @ rates[axis][:, None]


def matrix(table, of_cell):
    """Return {row: (3, m)} of a table, with of_cell(cell, row) for each of its blocks."""
    rows = [line.split() for line in table.split("\n") if line]
    wide = lambda column: any(re.fullmatch(r"I|D\d\d|U\d", cell) for cell in column)
    widths = [3 if wide(column) else 1 for column in zip(*rows, strict=True)][1:]
    block = lambda cell, row, width: np.zeros((3, width)) if cell == "0" else of_cell(cell, row)
    return {
        row: np.concatenate([block(cell, row, width) for cell, width in zip(cells, widths, strict=True)], axis=1)
        for row, *cells in rows
    }


def random_vector(rng, dimension=3):
    """Return a vector with entries between −1 and 1."""
    return rng.uniform(-1, 1, dimension)


def chain(rng, joints, dimension=3, floating=False):
    """Return bodies "1", "2", …; joints: name → (kind, i, j, numbers of the points on i and on j, do they coincide).

    Returns the mechanism and where the paper's points and vectors are: symbol → (body, coordinates).
    """
    point = lambda: random_vector(rng, dimension)
    places, elements, bodies = {}, {}, {}
    if floating:
        places |= {"r1": ("1", np.zeros(3)), "u1": ("1", random_vector(rng))}
    for name, (kind, i, j, at_i, at_j) in joints.items():
        ends = point(), point()
        number = name[1]
        places.setdefault(f"r{at_i}", (i, ends[0]))
        if at_j != at_i:
            places[f"r{at_j}"] = (j, ends[1])
        if dimension == 2:
            axis = random_vector(rng, 2)
            elements[name] = kind(i, j, *ends, *([axis, random_vector(rng, 2)] if kind is planar.Translational else []))
            places[f"u{number}"] = (i, axis)
        else:
            axes = random_vector(rng), random_vector(rng)
            elements[name] = kind(i, j, *ends, axis_i=axes[0], axis_j=axes[1])
            places[f"u{number}"] = (i, axes[0])
            if kind is spatial.Universal:
                places[f"v{number}"] = (j, axes[1])
    for name in dict.fromkeys(end for _, *ends, _, _ in joints.values() for end in ends if end != GROUND):
        bodies[name] = mechanisms.random_body(rng, dimension)
    return mbs.Mechanism(bodies, elements), places


def grounded(rng, dimension=3):
    """Return the system of Fig. 1 and 3: R₁ R₂ P₃ R₅; points 3 and 4 on the slide, 6 and u₆ on the last body."""
    kinds = planar if dimension == 2 else spatial
    slide = planar.Translational if dimension == 2 else spatial.Prismatic
    joints = {
        "R1": (kinds.Revolute, GROUND, "1", 1, 1),
        "R2": (kinds.Revolute, "1", "2", 2, 2),
        "P3": (slide, "2", "3", 3, 4),
        "R5": (kinds.Revolute, "3", "4", 5, 5),
    }
    mech, places = chain(rng, joints, dimension)
    return mech, {**places, "r6": ("4", random_vector(rng, dimension)), "u6": ("4", random_vector(rng, dimension))}


def floating(rng, dimension=3):
    """Return the system of Fig. 2 and 4: body 1 floats and carries R₂ R₃ P₄ and R₇."""
    kinds = planar if dimension == 2 else spatial
    slide = planar.Translational if dimension == 2 else spatial.Prismatic
    joints = {
        "R2": (kinds.Revolute, "1", "2", 2, 2),
        "R3": (kinds.Revolute, "2", "3", 3, 3),
        "P4": (slide, "3", "4", 4, 5),
        "R7": (kinds.Revolute, "1", "5", 7, 7),
    }
    mech, places = chain(rng, joints, dimension, floating=True)
    point = lambda: random_vector(rng, dimension)
    return mech, {
        **places,
        "r1": ("1", np.zeros(dimension)),
        "u1": ("1", point()),
        "r6": ("4", point()),
        "u6": ("4", point()),
        "r8": ("5", point()),
        "u8": ("5", point()),
    }


def cardan(rng):
    """Return a chain of two universal joints, a slide and a hinge, for the blocks of Table 1."""
    joints = {
        "U1": (spatial.Universal, GROUND, "1", 1, 1),
        "P2": (spatial.Prismatic, "1", "2", 2, 3),
        "U4": (spatial.Universal, "2", "3", 4, 4),
        "R5": (spatial.Revolute, "3", "4", 5, 5),
    }
    mech, places = chain(rng, joints)
    return mech, {**places, "r6": ("4", random_vector(rng)), "u6": ("4", random_vector(rng))}


def in_ground(mech, q, places, dimension):
    """Return points and unit vectors by name in the ground frame, (3,), those of the plane with a third component 0."""
    out = {}
    for symbol, (body, s) in places.items():
        pose = mech.layout.pose(body, q)
        if symbol[0] == "r":
            value = np.asarray(pose.point(jnp.asarray(s)))
        else:
            value = np.asarray(pose.direction(jnp.asarray(s)))
            value = value / np.linalg.norm(value)
        out[symbol] = np.append(value, 0.0) if dimension == 2 else value
    return out


def of_body_rows(mech, places, q, rows):
    """Return the rates of points and unit vectors, each (d, m), from rows (ṙ, ω) of the bodies: ṙ + ω × d, ω × u."""
    out = {}
    for symbol, (body, s) in places.items():
        if body == GROUND:
            continue
        pose, own = mech.layout.pose(body, q), rows[mech.layout.velocity_slices[body]]
        turned = pose.direction(jnp.asarray(s) if symbol[0] == "r" else jnp.asarray(s) / np.linalg.norm(s))
        d = len(turned)
        if d == 2:
            spinning = jnp.stack([-turned[1] * own[2], turned[0] * own[2]])
        else:
            omega = jnp.stack([pose.direction(e) for e in np.eye(3)], axis=1) @ own[3:]
            spinning = jnp.cross(omega, turned[:, None], axis=0)
        out[symbol] = own[:d] + spinning if symbol[0] == "r" else spinning
    return out


def natural_rows(names, matrix):
    """Return {name of a point or vector: its rows} of a matrix in natural coordinates of these names."""
    out = {}
    for name, row in zip(names, np.asarray(matrix), strict=True):
        out.setdefault(name.rpartition(".")[0], []).append(row)
    return {name: np.array(rows) for name, rows in out.items()}


def symbols(mech, places, table, dimension, q, rate):
    """Return (R, Ṙ) of each point and vector of the paper from its blocks; columns are ordered and turned as ours."""
    in_3d, floats = dimension == 3, table is FLOATING
    at = in_ground(mech, q, places, dimension)
    if not in_3d:
        at |= {f"u{joint[1]}": Z for joint in mech.constraints if joint[0] == "R"}
    now = matrix(table, lambda cell, row: entry(cell, row, at))
    width = now["r2"].shape[1]
    columns, columns_dot = np.eye(width), np.zeros((width, width))
    if floats and in_3d:
        # ω of the base is in the ground frame there, in its own here.
        a = np.asarray(mech.layout.pose("1", q).a)
        columns[3:6, 3:6], columns_dot[3:6, 3:6] = a, skew(a @ rate[3:6]) @ a
    elif floats:
        columns = np.delete(columns, [2, 3, 4], axis=1)
        columns_dot = 0 * columns
    # Points and vectors of the ground do not move.
    rates = {symbol: np.zeros(3) for symbol in at} | {symbol: rows @ (columns @ rate) for symbol, rows in now.items()}
    if table is CARDAN:
        speeds = zip(("u1", "v1", "u4", "v4"), rate[[0, 1, 3, 4]], strict=True)
        rates["v4"] = np.cross(sum(at[axis] * speed for axis, speed in speeds), at["v4"])
    dot = matrix(table, lambda cell, row: entry_rate(cell, row, at, rates))
    return {
        row: ((now[row] @ columns)[:dimension], (dot[row] @ columns + now[row] @ columns_dot)[:dimension])
        for row in now
        if in_3d or at[row] is not Z
    }


# For each system: function that draws it, its table, dimension, and the names in the table of the points and vectors of
# its natural coordinates.
SYSTEMS = {
    "(4.9)": (grounded, GROUNDED, 3, {"R2": "r2", "R5": "r5", "R2.axis": "u2", "P3.axis": "u3", "R5.axis": "u5"}),
    "(4.13)": (
        floating,
        FLOATING,
        3,
        {
            **{f"R{k}": f"r{k}" for k in (2, 3, 7)},
            **{f"R{k}.axis": f"u{k}" for k in (2, 3, 7)},
            "P4.axis": "u4",
        },
    ),
    "universal": (cardan, CARDAN, 3, {"U4": "r4", "R5": "r5", "R5.axis": "u5", "P2.axis": "u2"}),
    "(4.9) in the plane": (lambda rng: grounded(rng, 2), GROUNDED, 2, {"R2": "r2", "R5": "r5", "P3.axis": "u3"}),
    "(4.13) in the plane": (
        lambda rng: floating(rng, 2),
        FLOATING,
        2,
        {**{f"R{k}": f"r{k}" for k in (2, 3, 7)}, "P4.axis": "u4"},
    ),
}
