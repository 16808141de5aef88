"""Synthesis: Freudenstein's three points, Berkof and Lowen's balance, published paths, letters."""

import numpy as np

import jaxmbs as mbs
from designed_four_bar import GUESS, LENGTHS, MASSES, PLAIN, TIMES, four_bar
from four_bar_curves import coupler_point
from jaxmbs import synthesis
from linkages import reference
from verification.case import Analysis, below, case, close, near, same

# Function generation by `synthesis.function`.
FUNCTION = Analysis("synthesis.function", "closed form")
# Balancing by `synthesis.balance`.
BALANCE = Analysis("synthesis.balance", "Cartesian")
# Path synthesis by `synthesis.path`.
PATH = Analysis("synthesis.path", "closed form")
# Synthesis for the shape of a curve by `synthesis.curve`.
CURVE = Analysis("synthesis.curve", "closed form")


def angular_distance(angle):
    """Return the absolute value of an angle modulo full turns."""
    return np.abs(np.arctan2(np.sin(angle), np.cos(angle)))


@case(
    "Synthesis", "Freudenstein: three precision points of log₁₀ x", FUNCTION, references=("freudenstein",), quick=True
)
def freudenstein(by, problem):
    """Compare Freudenstein's function generator with the printed lengths."""
    phi, psi = (np.deg2rad(problem[name]) for name in ("phi_deg", "psi_deg"))
    spans = {"input_span": np.deg2rad([45, 105]), "output_span": np.deg2rad([135, 225])}
    points = problem["precision_points_x"]
    best = synthesis.function(np.log10, x_range=(1.0, 2.0), **spans, precision_points=points).best
    d = best.design
    signed = d["crank"] * np.cos(d["crank_offset"]), d["coupler"], d["rocker"] * np.cos(d["rocker_offset"])
    yield near("lengths, negative where reversed", signed, [problem["link_lengths"][name] for name in "abc"], 1e-10)
    times = np.append(0, (phi - spans["input_span"][0]) / np.ptp(spans["input_span"]))
    motion = mbs.kinematics(best.mechanism, times, best.guess, throw=True)
    for name, wanted in (("crank", phi), ("rocker", psi)):
        found = motion.position(f"{name}.phi")[1:] - wanted - d[f"{name}_offset"]
        yield below(f"angle of the {name} at the points", angular_distance(found), 1e-10, "rad")
    automatic = synthesis.function(np.log10, x_range=(1.0, 2.0), **spans, precision_points=3).best
    found = automatic.design["coupler"]
    yield near("coupler length for Chebyshev's points", found, problem["link_lengths"]["b"], 1e-10)


def with_point_masses(discs, b=PLAIN):
    """Return the four-bar with point masses on crank and rocker, each given by mass and place."""
    mass, com, inertia = dict(b["mass"]), dict(b["com"]), dict(b["inertia"])
    for name, disc in discs.items():
        own, place, m = np.asarray(com[name]), disc["place"], disc["mass"]
        mass[name] = b["mass"][name] + m
        com[name] = (b["mass"][name] * own + m * place) / mass[name]
        inertia[name] = b["inertia"][name] + b["mass"][name] * m / mass[name] * (place - own) @ (place - own)
    return {**b, "mass": mass, "com": com, "inertia": inertia}


def berkof_lowen(b):
    """Return the sizes of the coefficients of e^{iφ} of crank and rocker in Σ m r_c after eliminating the coupler."""
    z = {name: complex(*np.asarray(b["com"][name])) for name in MASSES}
    m, length = b["mass"], b["length"]
    part = z["coupler"] / length["coupler"]
    crank = m["crank"] * z["crank"] + m["coupler"] * length["crank"] * (1 - part)
    rocker = m["rocker"] * z["rocker"] + m["coupler"] * length["rocker"] * part
    return np.abs([crank, rocker])


@case("Synthesis", "Berkof and Lowen: a four-bar balanced by counterweights", BALANCE, quick=True)
def counterweights(by):
    """Compare counterweights found by `synthesis.balance` with Berkof and Lowen's conditions."""
    names = ("crank", "rocker")
    found = synthesis.balance(
        lambda discs: four_bar(with_point_masses(discs)),
        {name: {"mass": 1.0, "place": np.array([-0.05, 0.0])} for name in names},
        minimise={"shaking_force": 1.0},
        guess=GUESS,
        samples=36,
        lower={name: {"mass": 0.1, "place": -0.3} for name in names},
        upper={name: {"mass": 10.0, "place": [0.3, 0.3]} for name in names},
        starts=4,
        steps=(60, 40),
    ).best
    before = synthesis.rms(
        synthesis.cycle_loads(four_bar(PLAIN), mbs.kinematics(four_bar(PLAIN), TIMES, GUESS)).shaking_force
    )
    scale = MASSES["coupler"] * LENGTHS["crank"]
    yield below(
        "the two conditions of balance", berkof_lowen(with_point_masses(found.design)) / scale, 1e-6, "relative"
    )
    yield below(
        "shaking force divided by that before balancing", found.checks["shaking_force"] / before, 1e-6, "relative"
    )
    yield same("status of the four-bar", bool(found.checks["assembled"]), True)
    # A force that vanishes makes a moment that is the same about every point.
    mech = four_bar(with_point_masses(found.design))
    motion = mbs.kinematics(mech, TIMES, GUESS, throw=True)
    here, there = (synthesis.cycle_loads(mech, motion, about=p).shaking_moment for p in ((0, 0), (5.0, -3.0)))
    yield close("shaking moment about two points", (there - here) / np.abs(here).max(), 0, 1e-5, "relative")


def bounds_of(problem):
    """Return the lower and upper bounds of a reference problem as arguments of `synthesis.path`."""
    given = problem.get("bounds", {})
    return {
        name: {entry: pair[k] for entry, pair in given.items()} or None for k, name in enumerate(("lower", "upper"))
    }


def error_of(best, targets):
    """Return the sum of squared distances from the targets, by the closed form of the four-bar."""
    return np.sum(np.abs(coupler_point(best.design, best.crank_angles, best.branch) - np.array(targets) @ [1, 1j]) ** 2)


def published_path(name, source):
    """Register a problem of path synthesis."""

    @case("Synthesis", f"path, {name}: {source}", PATH, references=("path_synthesis_cases",))
    def path(by, problem):
        """Compare the error of a four-bar for a published path with that of the best published design."""
        given = problem["cases"][name]
        timing = np.deg2rad(20) * np.arange(18) if "degrees" in given["timing"] else None
        best = synthesis.path(given["targets"], crank_angles=timing, **bounds_of(given)).best
        error = error_of(best, given["targets"])
        yield below(f"sum of squared distances; limit: {given['threshold_origin']}", error, given["threshold"])
        yield below(
            "reported error against the closed form", (best.error - error) / max(error, 1e-11), 1e-9, "relative"
        )
        yield same(
            "checks: crank turns, assembles, points in order",
            [bool(best.checks[k]) for k in ("turns", "assembled", "ordered")],
            [True] * 3,
        )


for _name, _given in reference("path_synthesis_cases")["cases"].items():
    published_path(_name, _given["source"])


@case(
    "Synthesis",
    "path, 18 timed points: the published design and the one found",
    PATH,
    references=("path_synthesis",),
)
def published_design(by, problem):
    """Compare the error of a published four-bar, and of one that is found, with the printed error."""
    p = problem["published_design"]
    design = {
        "ground": p["r1_ground"],
        "crank": p["r2_crank"],
        "coupler": p["r3_coupler"],
        "rocker": p["r4_rocker"],
        "point": (p["rcx"], p["rcy"]),
        "angle": p["theta0"],
        "pivot": (p["x0"], p["y0"]),
    }
    angles = p["theta_start"] + np.deg2rad(20) * np.arange(18)
    targets = np.array(problem["targets"]) @ [1, 1j]
    error = np.sum(np.abs(coupler_point(design, angles, p["sgn"]) - targets) ** 2)
    yield near("error of the published design", error, problem["published_SSE"], 1e-12)
    best = synthesis.path(problem["targets"], crank_angles=np.deg2rad(20) * np.arange(18)).best
    yield below(
        "error of the design found, limit: published error",
        error_of(best, problem["targets"]),
        problem["SSE_threshold"],
    )


@case("Synthesis", "path, 12 points, by a Stephenson six-bar", PATH, references=("path_synthesis_cases",))
def six_bar(by, problem):
    """Check that a six-bar passes twelve points of a published problem, by its kinematics."""
    targets = np.array(problem["cases"]["12 points"]["targets"])
    best = synthesis.path(targets, mechanism="Stephenson six-bar", starts=1024, keep=1).best
    times = np.abs(best.crank_angles - best.crank_angles[0]) / (2 * np.pi)
    motion = mbs.kinematics(best.mechanism, times, best.guess, throw=True)
    error = ((np.asarray(motion.point(*best.point)) - targets) ** 2).sum()
    yield below("sum of squared distances, by kinematics of its joints", error, 1e-10)


def letter(name):
    """Register a letter of LINK-ABC."""

    @case("Synthesis", f"LINK-ABC, letter {name}: Heyrani Nobari and others 2024", CURVE, references=("link_abc",))
    def curve(by, table):
        """Compare the error of a linkage for a letter with that of LInK."""
        found = synthesis.curve(table["letters"][name], keep=1).best
        yield below("chamfer distance, limit: that of LInK's 15 to 20 joints", found.error, table["link_chamfer"][name])
        yield below("number of links", found.links, 7)


for _name in ("D", "K"):
    letter(_name)
