"""Elements of spatial mechanisms: bodies, joints and drivers, with Euler parameters for their rotations."""

from jaxmbs.spatial.body import Body as Body
from jaxmbs.spatial.body import Pose as Pose
from jaxmbs.spatial.body import coordinates as coordinates
from jaxmbs.spatial.couplings import RackPinion as RackPinion
from jaxmbs.spatial.couplings import Thread as Thread
from jaxmbs.spatial.drivers import DistanceDriver as DistanceDriver
from jaxmbs.spatial.drivers import RevoluteDriver as RevoluteDriver
from jaxmbs.spatial.drivers import TranslationalDriver as TranslationalDriver
from jaxmbs.spatial.frame import Frame as Frame
from jaxmbs.spatial.joints import AxisDistance as AxisDistance
from jaxmbs.spatial.joints import Distance as Distance
from jaxmbs.spatial.joints import Gear as Gear
from jaxmbs.spatial.joints import Screw as Screw
from jaxmbs.spatial.joints import Universal as Universal
from jaxmbs.spatial.pairs import ConstantVelocity as ConstantVelocity
from jaxmbs.spatial.pairs import Cylindrical as Cylindrical
from jaxmbs.spatial.pairs import Free as Free
from jaxmbs.spatial.pairs import Planar as Planar
from jaxmbs.spatial.pairs import Prismatic as Prismatic
from jaxmbs.spatial.pairs import Revolute as Revolute
from jaxmbs.spatial.pairs import Rigid as Rigid
from jaxmbs.spatial.pairs import Spherical as Spherical
from jaxmbs.spatial.relative import RelativeJoint as RelativeJoint
from jaxmbs.spatial.rotor import Rotor as Rotor
from jaxmbs.spatial.total import TotalJoint as TotalJoint
from jaxmbs.spatial.total import euler_vector as euler_vector
