"""Issa and Arczewski: path matrices, natural coordinates, the velocity transformation block by block."""

import jax
import numpy as np

import dynamic_problems
import jaxmbs as mbs
import spatial_problems
from issa_arczewski_graphs import floating_system, grounded_system, in_space
from issa_arczewski_systems import (
    FLOATING,
    SYSTEMS,
    natural_rows,
    of_body_rows,
    symbols,
)
from verification.case import Analysis, below, case, close, same

# Path matrices of the graph of a mechanism.
PATHS = Analysis("path matrices", "graph")
# `mbs.velocity_transformation` in all of its coordinates.
TRANSFORMATION = Analysis("velocity_transformation", "joint, natural, bodies")
# Constraints in natural coordinates.
NATURAL = Analysis("constraints", "Natural")


@case("Issa and Arczewski", "Fig. 1 and 2: path matrices π and π*", PATHS, quick=True)
def path_matrices(by):
    """Compare the path matrices of both systems with those printed."""
    for name, system, options in (("1", grounded_system, {}), ("2", floating_system, {"base": "1"})):
        joints, primary, secondary = system()
        mech = in_space(joints)
        yield same(f"π of Fig. {name}", mbs.topology.path_matrix(mech, **options).tolist(), primary)
        yield same(f"π* of Fig. {name}", mbs.topology.secondary_path_matrix(mech, **options).tolist(), secondary)


def four_bar():
    """Return the four-bar of the dynamics reference, and a guess of its start."""
    start = dynamic_problems.reference("planar_four_bar_dynamics")["initial_state"]
    angles = np.array([np.deg2rad(start["theta2_deg"]), start["theta3"], start["theta4"]])
    b = dynamic_problems.four_bar_design()
    return dynamic_problems.four_bar(b), dynamic_problems.four_bar_start(b, angles)


@case("Issa and Arczewski", "section 3: natural coordinates of a four-bar", NATURAL, quick=True)
def natural_four_bar(by):
    """Compare coordinates, constraints and motion of a four-bar in natural coordinates."""
    mech, guess = four_bar()
    b, q = dynamic_problems.four_bar_design(), mbs.assemble(mech, guess, throw=True).q
    view = mbs.Natural().of(mech)
    x = np.asarray(view.coordinates(q))
    yield same("the two moving pins", view.names, ("A.x", "A.y", "B.x", "B.y"))
    pins = np.concatenate([mech.point(q, "crank", (b["crank"] / 2, 0)), mech.point(q, "rocker", (b["rocker"] / 2, 0))])
    yield close("positions of the pins", x, pins, 1e-12, "m")
    a, pin = np.split(x + np.array([0.1, 0.1, -0.2, -0.2]), 2)
    bars = a, pin - a, pin - np.array([b["ground"], 0])
    gaps = [bar @ bar - b[name] ** 2 for bar, name in zip(bars, ("crank", "coupler", "rocker"), strict=True)]
    found = view.constraints(np.append(a, pin))
    yield close("Ψ, three constraints of length", np.sort(found), np.sort(gaps), 1e-14, "m²")


@case("Issa and Arczewski", "section 3: numbers of natural coordinates and constraints in space", NATURAL)
def natural_counts(by):
    """Compare the numbers of natural coordinates and equations, and ranks, of known mechanisms."""
    for name, build, wanted in (
        ("slider-crank of Haug 12.2", spatial_problems.slider_crank, (27, 26, 26)),
        ("Bricard's mechanism", spatial_problems.bricard, (54, 54, 53)),
    ):
        mech, guess = build()
        q = mbs.assemble(mech, guess, throw=True).q
        view = mbs.Natural().of(mech)
        jacobian = np.asarray(view.constraint_jacobian(view.coordinates(q), near=q))
        rank = int(np.linalg.matrix_rank(jacobian, 1e-9))
        yield same(f"coordinates, rows, rank, {name}", (*jacobian.shape[::-1], rank), wanted)


def register_table(name, *, quick):
    """Register a table of the paper, computed for three random systems."""
    build, table, dimension, natural = SYSTEMS[name]
    title = {"universal": "Table 1: universal joints"}.get(name, f"{name}: velocity transformation")

    @case("Issa and Arczewski", title, TRANSFORMATION, quick=quick)
    def block_by_block(by):
        """Compare the transformation and its rate with the table, block by block."""
        drawn = [build(np.random.default_rng(seed)) for seed in range(3)]
        joints, rng = mbs.JointCoordinates().of(drawn[0][0]), np.random.default_rng(3)

        @mbs.program
        def everything(mech, theta, rate):
            """Return R and Ṙ in each kind of coordinates."""
            both = lambda coordinates: (
                mbs.velocity_transformation(mech, theta, coordinates=coordinates),
                mbs.velocity_transformation_rate(mech, theta, rate, coordinates=coordinates),
            )
            q = mbs.JointCoordinates().of(mech).configuration(theta)
            return q, mbs.constraints(mech, q), both("bodies"), both("natural")

        deviations = {}
        for mech, places in drawn:
            theta, rate = rng.uniform(-1.5, 1.5, len(joints.names)), rng.uniform(-2, 2, len(joints.velocity_names))
            if table is FLOATING and dimension == 3:
                theta[3:7] /= np.linalg.norm(theta[3:7])
            q, gaps, (r, r_dot), of_natural = everything(mech, theta, rate)
            deviations.setdefault("gap in the joints", []).append(gaps)
            wanted = symbols(mech, places, table, dimension, q, rate)
            by_natural = [natural_rows(mbs.Natural().of(mech).names, x) for x in of_natural]
            q_dot = mech.layout.rate(q, r @ rate)
            by_bodies = jax.jvp(lambda q, r, m=mech, p=places: of_body_rows(m, p, q, r), (q, r), (q_dot, r_dot))
            for k, part in enumerate(("R", "Ṙ")):
                off = deviations.setdefault(f"{part} of points and vectors of the bodies", [])
                off += [np.subtract(by_bodies[k][symbol], rows[k]) for symbol, rows in wanted.items()]
                off = deviations.setdefault(f"{part} of natural coordinates", [])
                off += [np.subtract(by_natural[k][key], wanted[symbol][k]) for key, symbol in natural.items()]
        for quantity, off in deviations.items():
            yield below(quantity, np.concatenate([np.ravel(x) for x in off]), 1e-12)


for _name in SYSTEMS:
    register_table(_name, quick=_name not in ("(4.9)", "(4.13)"))
