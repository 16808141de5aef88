"""Issa and Arczewski: path matrices, natural coordinates, the velocity transformation block by block."""

import jax
import numpy as np

import dynamic_problems
import jaxmbs as mbs
import spatial_problems
from issa_arczewski_graphs import floating_system, grounded_system, in_space
from issa_arczewski_systems import (
    CARDAN,
    FLOATING,
    SYSTEMS,
    Z,
    entry,
    entry_rate,
    in_ground,
    matrix,
    natural_rows,
    of_body_rows,
    skew,
)
from verification.case import Analysis, below, case, close, same

PATHS = Analysis("path matrices", "graph")
TRANSFORMATION = Analysis("velocity_transformation", "joint, natural, bodies")
NATURAL = Analysis("natural_constraints", "Natural")


@case("Issa and Arczewski", "Fig. 1 and 2: path matrices π and π*", PATHS, quick=True)
def path_matrices(by):
    for name, system, options in (("1", grounded_system, {}), ("2", floating_system, {"base": "1"})):
        joints, primary, secondary = system()
        mech = in_space(joints)
        yield same(f"π of Fig. {name}", mbs.topology.path_matrix(mech, **options).tolist(), primary)
        yield same(f"π* of Fig. {name}", mbs.topology.secondary_path_matrix(mech, **options).tolist(), secondary)


def four_bar():
    """The four-bar of the dynamics reference where it starts."""
    start = dynamic_problems.reference("planar_four_bar_dynamics")["initial_state"]
    angles = np.array([np.deg2rad(start["theta2_deg"]), start["theta3"], start["theta4"]])
    b = dynamic_problems.four_bar_design()
    return dynamic_problems.four_bar(b), dynamic_problems.four_bar_start(b, angles)


@case("Issa and Arczewski", "section 3: natural coordinates of a four-bar", NATURAL, quick=True)
def natural_four_bar(by):
    mech, guess = four_bar()
    b, q = dynamic_problems.four_bar_design(), mbs.assemble(mech, guess, throw=True).q
    x = np.asarray(mbs.natural_coordinates(mech, q))
    yield same("the two moving pins", mbs.natural_names(mech), ("A.x", "A.y", "B.x", "B.y"))
    pins = np.concatenate([mech.point(q, "crank", (b["crank"] / 2, 0)), mech.point(q, "rocker", (b["rocker"] / 2, 0))])
    yield close("their places", x, pins, 1e-12, "m")
    a, pin = np.split(x + np.array([0.1, 0.1, -0.2, -0.2]), 2)
    bars = a, pin - a, pin - np.array([b["ground"], 0])
    gaps = [bar @ bar - b[name] ** 2 for bar, name in zip(bars, ("crank", "coupler", "rocker"), strict=True)]
    found = mbs.natural_constraints(mech, np.append(a, pin))
    yield close("Ψ are the three lengths", np.sort(found), np.sort(gaps), 1e-14, "m²")


@case("Issa and Arczewski", "section 3: numbers of natural coordinates and constraints in space", NATURAL)
def natural_counts(by):
    for name, build, wanted in (
        ("slider-crank of Haug 12.2", spatial_problems.slider_crank, (27, 26, 26)),
        ("Bricard's mechanism", spatial_problems.bricard, (54, 54, 53)),
    ):
        mech, guess = build()
        q = mbs.assemble(mech, guess, throw=True).q
        jacobian = np.asarray(mbs.natural_jacobian(mech, mbs.natural_coordinates(mech, q), near=q))
        rank = int(np.linalg.matrix_rank(jacobian, 1e-9))
        yield same(f"coordinates, rows, rank, {name}", (*jacobian.shape[::-1], rank), wanted)


def symbols(mech, places, table, dimension, q, rate):
    """Of each point and vector of the paper R and Ṙ, from its own blocks; columns as the package orders and turns them."""
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
    # What the ground holds does not move.
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


def blocks(name, *, quick):
    """Register a table of the paper, of three random systems."""
    build, table, dimension, natural = SYSTEMS[name]
    title = {"universal": "Table 1: universal joints"}.get(name, f"{name}: velocity transformation")

    @case("Issa and Arczewski", title, TRANSFORMATION, quick=quick)
    def block_by_block(by):
        drawn = [build(np.random.default_rng(seed)) for seed in range(3)]
        space, rng = mbs.joint_space(drawn[0][0]), np.random.default_rng(3)

        @mbs.program
        def everything(mech, theta, rate):
            both = lambda coordinates: (
                mbs.velocity_transformation(mech, theta, coordinates=coordinates),
                mbs.velocity_transformation_rate(mech, theta, rate, coordinates=coordinates),
            )
            q = mbs.configuration(mech, theta)
            return q, mbs.constraints(mech, q), both("bodies"), both("natural")

        deviations = {}
        for mech, places in drawn:
            theta, rate = rng.uniform(-1.5, 1.5, space.n), rng.uniform(-2, 2, space.m)
            if table is FLOATING and dimension == 3:
                theta[3:7] /= np.linalg.norm(theta[3:7])
            q, gaps, (r, r_dot), of_natural = everything(mech, theta, rate)
            deviations.setdefault("joints closed", []).append(gaps)
            wanted = symbols(mech, places, table, dimension, q, rate)
            by_natural = [natural_rows(mech, x) for x in of_natural]
            q_dot = mech.layout.rate(q, r @ rate)
            by_bodies = jax.jvp(lambda q, r, m=mech, p=places: of_body_rows(m, p, q, r), (q, r), (q_dot, r_dot))
            for k, part in enumerate(("R", "Ṙ")):
                off = deviations.setdefault(f"{part} of points and vectors of the bodies", [])
                off += [np.subtract(by_bodies[k][symbol], rows[k]) for symbol, rows in wanted.items()]
                off = deviations.setdefault(f"{part} of natural coordinates", [])
                off += [np.subtract(by_natural[k][key], wanted[symbol][k]) for key, symbol in natural.items()]
        for what, off in deviations.items():
            yield below(what, np.concatenate([np.ravel(x) for x in off]), 1e-12)


for _name in SYSTEMS:
    blocks(_name, quick=_name not in ("(4.9)", "(4.13)"))
