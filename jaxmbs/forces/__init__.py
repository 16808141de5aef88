"""Forces on the bodies of a mechanism, in the plane and in space.

A force is a small class: `generalized` returns its part of Q, conjugate to the velocities v, and `potential` its potential
energy, if it has one. Elements between two bodies act on both, with opposite signs.
"""

from jaxmbs.forces.applied import Gravity as Gravity
from jaxmbs.forces.applied import PointForce as PointForce
from jaxmbs.forces.applied import Torque as Torque
from jaxmbs.forces.applied import UserForce as UserForce
from jaxmbs.forces.force import AbstractForce as AbstractForce
from jaxmbs.forces.force import ForceElement as ForceElement
from jaxmbs.forces.joint.actuator import Actuator as Actuator
from jaxmbs.forces.joint.bristles import BristleFriction as BristleFriction
from jaxmbs.forces.joint.bushing import Bushing as Bushing
from jaxmbs.forces.joint.clearance import ClearanceRevolute as ClearanceRevolute
from jaxmbs.forces.joint.contact import AbstractContactForce as AbstractContactForce
from jaxmbs.forces.joint.effort import AbstractEffort as AbstractEffort
from jaxmbs.forces.joint.effort import JointSpring as JointSpring
from jaxmbs.forces.joint.effort import JointStop as JointStop
from jaxmbs.forces.joint.effort import OneWayClutch as OneWayClutch
from jaxmbs.forces.joint.friction import JointFriction as JointFriction
from jaxmbs.forces.joint.inertia import JointInertia as JointInertia
from jaxmbs.forces.joint.mesh import GearMesh as GearMesh
from jaxmbs.forces.joint.motor import Motor as Motor
from jaxmbs.forces.joint.motor import Servo as Servo
from jaxmbs.forces.joint.reactive import AbstractReactiveForce as AbstractReactiveForce
from jaxmbs.forces.joint.stateful import AbstractStatefulForce as AbstractStatefulForce
from jaxmbs.forces.joint.touch import AbstractBodyContact as AbstractBodyContact
from jaxmbs.forces.joint.touch import Touch as Touch
from jaxmbs.forces.springs import AbstractSpringDamper as AbstractSpringDamper
from jaxmbs.forces.springs import AxialSpring as AxialSpring
from jaxmbs.forces.springs import Damper as Damper
from jaxmbs.forces.springs import Spring as Spring
from jaxmbs.forces.springs import SpringDamper as SpringDamper
from jaxmbs.forces.springs import length_and_direction as length_and_direction
from jaxmbs.forces.springs import line_of_action as line_of_action
from jaxmbs.forces.state import Along as Along
from jaxmbs.forces.state import State as State
from jaxmbs.forces.state import opposite as opposite
from jaxmbs.forces.torsion import AbstractTorsionSpring as AbstractTorsionSpring
from jaxmbs.forces.torsion import TorsionDamper as TorsionDamper
from jaxmbs.forces.torsion import TorsionSpring as TorsionSpring
from jaxmbs.forces.values import OfState as OfState
from jaxmbs.forces.values import as_function as as_function
from jaxmbs.forces.values import as_value as as_value
from jaxmbs.forces.values import check_law as check_law
from jaxmbs.forces.values import check_value as check_value
from jaxmbs.forces.values import evaluate as evaluate
from jaxmbs.forces.values import law_field as law_field
from jaxmbs.forces.values import laws_of as laws_of
from jaxmbs.forces.values import value_field as value_field
