"""Masses, forces and accelerations of models from URDF files beside those of Pinocchio."""

import warnings
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin

from equations_by_rates import Equations, Motion, rate_in_time
from jaxmbs.io.models.possible_inertia import possible_inertia
from jaxmbs.io.models.xml_lines import parse_xml

# Names of the entries of an inertia in URDF, by row and column.
ENTRIES = {"ixx": (0, 0), "iyy": (1, 1), "izz": (2, 2), "ixy": (0, 1), "ixz": (0, 2), "iyz": (1, 2)}


class Comparison:
    """A model in a random state of Pinocchio near zero, along Pinocchio's velocities.

    Stops and dry friction are left out. Pinocchio gets the inertias that `load` takes for impossible ones, and `mimic` as
    constraints that hold exactly; joints that move no mass are held at zero.

    Args:
        path: the file.
        model: the model that `load` makes of it.
        seed: of the state.
        reach: largest displacement of each joint, in radians or units of length.

    Attributes:
        robot, data: Pinocchio's model and its data.
        model: the model.
        x: displacement from the neutral configuration (nv,).
        u: velocities (nv,).
        still: True for joints that move no mass, (nv,).
        rows: J (rows, nv) of `mimic`, with J u = 0.
    """

    def __init__(self, path, model, seed=0, reach=0.6):
        root = parse_xml(path.read_bytes())
        _repair_inertias(root)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.robot = pin.buildModelFromXML(ElementTree.tostring(root, encoding="unicode"))
        self.model, self.data = model, self.robot.createData()
        rng, nv = np.random.default_rng(seed), self.robot.nv
        self.x, self.u = rng.uniform(-reach, reach, nv), rng.normal(size=nv)
        self.still = np.diag(self._mass()) == 0
        self.x[self.still] = self.u[self.still] = 0
        self.rows, values = self._mimics(root)
        inverse = np.linalg.pinv(self.rows, 1e-9)
        self.x -= inverse @ (self.rows @ self.x - values)
        self.u -= inverse @ (self.rows @ self.u)

    def errors(self):
        """Return the differences of all equations as `Errors`."""
        robot, data, q = self.robot, self.data, self._configuration(0.0)
        force = -robot.damping * self.u - pin.rnea(robot, data, q, self.u, np.zeros(robot.nv))
        mass, kept = self._mass(), ~self.still
        reference = Equations(mass[kept][:, kept], force[kept], self.rows[:, kept], np.zeros(len(self.rows)))
        r = self._by_rates(0.0)
        drift = rate_in_time(lambda t: self._by_rates(t) @ self.u)
        guess = {name: self._coordinates(name) for name in self.model.bodies}
        for name, dofs in self._couplings():
            guess[name] = self.x[dofs]
        return Motion(self.model, np.asarray(self.model.coordinates(guess)), r @ self.u, r[:, kept], drift).errors(
            reference
        )

    def _configuration(self, t):
        """Return Pinocchio's q after the time t, as if the velocities stayed as they are."""
        start = pin.integrate(self.robot, pin.neutral(self.robot), self.x)
        return pin.integrate(self.robot, start, t * self.u)

    def _mass(self):
        """Return Pinocchio's mass matrix (nv, nv)."""
        upper = np.triu(pin.crba(self.robot, self.data, self._configuration(0.0)))
        return upper + np.triu(upper, 1).T

    def _mimics(self, root):
        """Return rows J (rows, nv) and values c (rows,) with J x = c for `mimic`."""
        robot, unit = self.robot, np.eye(self.robot.nv) * ~self.still
        rows, values = [], []
        for joint in root.findall("joint"):
            mimic = joint.find("mimic")
            ends = () if mimic is None else (joint.get("name"), mimic.get("joint"))
            if ends and all(map(robot.existJointName, ends)):
                k, other = (robot.joints[robot.getJointId(name)].idx_v for name in ends)
                if not self.still[k]:
                    rows.append(unit[k] - float(mimic.get("multiplier", "1")) * unit[other])
                    values.append(float(mimic.get("offset", "0")))
        return np.reshape(rows, (-1, robot.nv)), np.array(values)

    def _couplings(self):
        """Yield the name of each coupling of angles, and the indices of these in the velocities."""
        for name, coupling in self.model.constraints.items():
            if coupling.extra:
                children = (coupling.j, *coupling.others[1::2])
                frames = [self.robot.frames[self._frame(body)] for body in children]
                dofs = [self.robot.joints[frame.parentJoint].idx_v for frame in frames]
                yield name, [k for k, kind in zip(dofs, coupling.kinds, strict=True) if kind == "angle"]

    def _frame(self, body):
        """Return the index of the frame of the link of a body."""
        return self.robot.getFrameId("ground" if body == "ground_" else body, pin.BODY)

    def _coordinates(self, body):
        """Return the coordinates (7,) of a body."""
        pin.framesForwardKinematics(self.robot, self.data, self._configuration(0.0))
        pose = self.data.oMf[self._frame(body)]
        x, y, z, w = pin.Quaternion(pose.rotation).coeffs()
        return np.array([*pose.translation, w, x, y, z])

    def _by_rates(self, t):
        """Return R (m, nv) after the time t, with v = R u."""
        layout, robot, data, q = self.model.layout, self.robot, self.data, self._configuration(t)
        pin.computeJointJacobians(robot, data, q)
        pin.updateFramePlacements(robot, data)
        found = np.zeros((layout.m, robot.nv))
        for name in self.model.bodies:
            frame, own = self._frame(name), layout.velocity_slices[name]
            along, local = (
                # Pinocchio returns a vector if there is one velocity.
                pin.getFrameJacobian(robot, data, frame, axes).reshape(6, -1)
                for axes in (pin.LOCAL_WORLD_ALIGNED, pin.LOCAL)
            )
            found[own] = np.concatenate([along[:3], local[3:]])
        for name, dofs in self._couplings():
            found[layout.entries(name, velocities=True)[0]] = np.eye(robot.nv)[dofs]
        return found


def _repair_inertias(root):
    """Replace the inertias of all links by those that `load` takes."""
    for inertial in root.findall("link/inertial"):
        element, mass = inertial.find("inertia"), inertial.find("mass")
        if element is None or mass is None:
            continue
        matrix = np.zeros((3, 3))
        for key, (row, column) in ENTRIES.items():
            matrix[row, column] = matrix[column, row] = float(element.get(key, "0"))
        found = possible_inertia(matrix, float(mass.get("value")), "", at_any_cost=True).inertia
        for key, index in ENTRIES.items():
            element.set(key, repr(float(found[index])))
