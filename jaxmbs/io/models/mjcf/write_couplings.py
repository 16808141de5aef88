"""Writing of couplings of joints as equalities of MJCF, and of slides along the lengths of fixed tendons as these."""

from __future__ import annotations

from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from numpy.polynomial import Polynomial

from jaxmbs import spatial
from jaxmbs.element import GROUND
from jaxmbs.io.models.links.tree import HINGE, SLIDE
from jaxmbs.io.models.mjcf.outgoing import MujocoJoint, number, numbers
from jaxmbs.io.models.mjcf.xml_document import Document, WrittenJoint
from jaxmbs.io.models.model import Model, ModelError

# Number of coefficients of the polynomials of equalities.
COEFFICIENTS = 5
# Coefficients of a polynomial below this, times the largest one, are rounding of a change of its origin.
MAX_ROUNDING = 1e-14


class Term(NamedTuple):
    """A joint of a coupling, and the coefficients of its polynomial in the displacement from the start."""

    written: WrittenJoint
    coefficients: np.ndarray

    @property
    def linear(self) -> bool:
        """True if there are no powers above the first one."""
        return len(self.coefficients) <= 2


def tendon_couplings(model: Model) -> dict[str, str]:
    """Return couplings by body, for massless bodies that only slide on the ground as a linear coupling says."""
    found: dict[str, str] = {}
    for name, coupling in model.constraints.items():
        if not isinstance(coupling, spatial.JointCoupling) or coupling.i != GROUND or coupling.kinds[0] != "slide":
            continue
        body, coefficients = coupling.j, np.asarray(coupling.coefficients)
        joints = [x for x in model.constraints.values() if x.freedom is not None and body in (x.i, x.j)]
        alone = len(joints) == 1 and isinstance(joints[0], spatial.Prismatic) and joints[0].i == GROUND
        if alone and all(model.bodies[body].massless) and coefficients[0, 1] and not np.any(coefficients[:, 2:]):
            found.setdefault(body, name)
    return found


def add_tendon(document: Document, joint: str, body: str) -> None:
    """Begin the fixed tendon of a slide; `complete_tendon` ends it."""
    axis = document.model.constraints[joint].mobility
    pose = {name: document.model.poses(document.start)[name] for name in (GROUND, body)}
    value = float(np.asarray(axis.measure(pose[GROUND], pose[body]))[0])
    slide = MujocoJoint(SLIDE, "s", np.asarray(document.model.constraints[joint].axes_i)[:, 2], value)
    element = SubElement(document.section("tendon"), "fixed", name=joint)
    document.joints[joint] = [WrittenJoint(slide, document.places[body].r, element)]


def complete_tendon(document: Document, joint: str, name: str) -> None:
    """Add the joints of a fixed tendon, of which the coupling called `name` tells."""
    [written], [own, *terms] = document.joints[joint], _terms(document, name)
    length = 0.0
    for term in terms:
        ratio = -term.coefficients[1] / own.coefficients[1]
        _add_joint(written.element, term.written, ratio, name)
        length += ratio * term.written.primitive.value
    document.joints[joint] = [written._replace(shift=length - written.primitive.value)]


def _add_joint(tendon: Element, written: WrittenJoint, ratio: float, name: str) -> None:
    """Add a joint to a fixed tendon."""
    if written.is_tendon:
        raise ModelError(f"constraint {name!r} (JointCoupling): MJCF has no tendons of tendons")
    SubElement(tendon, "joint", joint=written.element.get("name", ""), coef=number(ratio))


def add_coupling(document: Document, name: str) -> None:
    """Add a coupling as an equality `joint` of two joints, or `tendon` of fixed tendons."""
    terms = sorted(_terms(document, name), key=lambda term: not term.linear)
    bent = [term for term in terms if not term.linear]
    if len(bent) > 1 or len(bent) == len(terms) or len(terms[-1].coefficients) > COEFFICIENTS:
        raise ModelError(
            f"constraint {name!r} (JointCoupling): MJCF couples joints by linear functions, at least one, and at most "
            "one polynomial of an order up to four"
        )
    equality = document.section("equality")
    first, *others = terms
    if len(terms) <= 2 and not any(term.written.is_tendon for term in terms):
        powers = -others[0].coefficients / first.coefficients[1] if others else np.zeros(1)
        joints = {f"joint{k + 1}": term.written.element.get("name", "") for k, term in enumerate(terms)}
        SubElement(equality, "joint", joints | {"name": name, "polycoef": _polycoef(powers)})
        return
    straight = SubElement(document.section("tendon"), "fixed", name=f"{name}.linear")
    for term in terms[: len(terms) - len(bent)]:
        _add_joint(straight, term.written, term.coefficients[1], name)
    ends, powers = {"tendon1": f"{name}.linear"}, np.zeros(1)
    for term in bent:
        ends["tendon2"], powers = term.written.element.get("name", ""), -term.coefficients
        if not term.written.is_tendon:
            ends["tendon2"] = f"{name}.other"
            other = SubElement(document.section("tendon"), "fixed", name=ends["tendon2"])
            _add_joint(other, term.written, 1.0, name)
    SubElement(equality, "tendon", ends | {"name": name, "polycoef": _polycoef(powers)})


def _polycoef(powers) -> str:
    """Return five coefficients as text, with zero for the constant one: the start satisfies the coupling."""
    return numbers([0.0, *powers[1:], *[0.0] * (COEFFICIENTS - max(len(powers), 1))])


def _terms(document: Document, name: str) -> list[Term]:
    """Return the joints of a coupling with their polynomials."""
    coupling: Any = document.model.constraints[name]
    bodies = (coupling.i, coupling.j, *coupling.others)
    angles = iter(np.asarray(document.start)[document.model.layout.extra_slices[name]] if coupling.extra else ())
    terms = []
    for k, kind in enumerate(coupling.kinds):
        ends = bodies[2 * k : 2 * k + 2]
        i, j = (document.places[body] for body in ends)
        axis = i.a @ np.asarray(coupling.frames_i[k])[:, 2]
        points = i.point(np.asarray(coupling.points_i[k])), j.point(np.asarray(coupling.points_j[k]))
        x = float(next(angles)) if kind == "angle" else float(axis @ (points[1] - points[0]))
        owner = f"constraint {name!r} (JointCoupling)"
        written, sense = document.joint_along(ends, HINGE if kind == "angle" else SLIDE, axis, owner)
        powers = Polynomial(np.asarray(coupling.coefficients[k]))(Polynomial([x, sense])).coef
        kept = np.flatnonzero(np.abs(powers) > MAX_ROUNDING * np.abs(powers).max())
        terms.append(Term(written, np.append(powers, 0.0)[: max(2, int(kept.max(initial=0)) + 1)]))
    return terms
