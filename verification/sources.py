"""Sources of the problems, and the pages with their tables."""

from typing import NamedTuple


class Source(NamedTuple):
    """A book, paper or library of problems, with its content and citation."""

    about: str
    citation: str


# All sources of cases by name.
SOURCES = {
    "Haug": Source(
        "Planar kinematics in Cartesian coordinates, singular configurations, design sensitivities, a mechanism in space.",
        "E. J. Haug, *Computer-Aided Kinematics and Dynamics of Mechanical Systems, Vol. I: Basic Methods*, Allyn and "
        "Bacon, 1989: examples and problems of chapter 3, and section 12.2.",
    ),
    "Issa and Arczewski": Source(
        "Natural and joint coordinates, path matrices, the velocity transformation.",
        "S. M. Issa and K. P. Arczewski, *Kinematics and dynamics of multibody system based on natural and joint "
        "coordinates using velocity transformations*, Journal of Theoretical and Applied Mechanics, 1998.",
    ),
    "Kamman": Source(
        "Kane's equations with joint constraints: driving torques, forces and moments of joints.",
        "J. W. Kamman, *Multibody Dynamics: Equations of Motion for Multibody Systems with Inter-Body Joint "
        "Constraints*; numbers (…) are those of its equations.",
    ),
    "Masarati": Source(
        "The total joint, each of whose six components is free, fixed or prescribed in time; the constant-velocity joint.",
        "P. Masarati, *A formulation of kinematic constraints imposed by kinematic pairs using relative pose in vector "
        "form*, Multibody System Dynamics 29, 2013, 119–137; P. Masarati and M. Morandini, *An ideal homokinetic joint "
        "formulation for general-purpose multibody real-time simulation*, Multibody System Dynamics 20, 2008, 251–270.",
    ),
    "IFToMM": Source(
        "Benchmarks of multibody dynamics: singular positions, redundant constraints, stiffness.",
        "IFToMM Technical Committee for Multibody Dynamics, *Library of Computational Benchmark Problems*, A01 to A05.",
    ),
    "IVP Test Set": Source(
        "Differential-algebraic equations of mechanisms, with values printed to fifteen digits.",
        "F. Mazzia and C. Magherini, *Test Set for Initial Value Problem Solvers*, University of Bari; W. Schiehlen (ed.), "
        "*Multibody Systems Handbook*, Springer, 1990.",
    ),
    "Project Chrono": Source(
        "One body on one joint, 5 s under gravity; Chrono compares the same motions with ADAMS.",
        "Project Chrono, unit tests of joints (`utest_JOINT_*`).",
    ),
    "Pinocchio": Source(
        "Forward and inverse dynamics of an open chain.",
        "Values from Pinocchio 4.1.0: articulated-body algorithm, recursive Newton–Euler algorithm, kinematics.",
    ),
    "Textbooks": Source(
        "Closed forms of mechanisms, bodies and shafts.",
        "R. L. Norton, *Design of Machinery*; J. E. Shigley on the universal joint; Euler's equations; the linkages of "
        "Peaucellier and Lipkin, Roberts and Chebyshev, and Theo Jansen's published lengths.",
    ),
    "Lagrange": Source(
        "Lagrange's equations in minimal coordinates, derived from the energies by automatic differentiation and "
        "integrated by SciPy, without any code of jaxmbs.",
        "`MinimalModel` of `tests/helpers/spatial_problems.py`.",
    ),
    "Synthesis": Source(
        "Linkages found by synthesis: the reported errors are right, and not larger than those that are published.",
        "F. Freudenstein, 1955; R. S. Hartenberg and J. Denavit, *Kinematic Synthesis of Linkages*; R. S. Berkof and G. G. "
        "Lowen, *A new method for completely force balancing simple linkages*, 1969; for paths see each problem.",
    ),
}


class Section(NamedTuple):
    """A section of a page of tables: heading, source, and a pattern that its problems contain (empty: all)."""

    heading: str
    source: str
    pattern: str = ""


class TablePage(NamedTuple):
    """A page with tables of comparisons: file in docs/verification without its ending, title, sections."""

    file: str
    title: str
    sections: tuple[Section, ...]


# Pages with the tables of all cases, in the order of the navigation.
TABLE_PAGES = (
    TablePage("haug_kinematics", "Planar kinematics", (Section("Haug, sections 3.1 to 3.5", "Haug", r"3\.[1-5]\."),)),
    TablePage(
        "haug_singular",
        "Singular positions, design, space",
        (Section("Haug, sections 3.6, 3.7 and 12.2", "Haug", r"3\.[67]\.|section 12\.2|design sensitivity"),),
    ),
    TablePage(
        "coordinates",
        "Natural and joint coordinates, Kane's equations",
        (Section("Issa and Arczewski", "Issa and Arczewski"), Section("Kamman", "Kamman")),
    ),
    TablePage(
        "spatial_joints",
        "Joints in space",
        (Section("Masarati", "Masarati"), Section("Project Chrono", "Project Chrono")),
    ),
    TablePage(
        "benchmarks",
        "Benchmarks and other programs",
        (
            Section("IFToMM", "IFToMM"),
            Section("IVP Test Set", "IVP Test Set"),
            Section("Pinocchio", "Pinocchio"),
            Section("Lagrange", "Lagrange"),
        ),
    ),
    TablePage(
        "textbooks",
        "Textbooks and synthesis",
        (Section("Textbooks", "Textbooks"), Section("Synthesis", "Synthesis")),
    ),
)
