"""jaxmbs: a differentiable multibody simulator for mechanisms in JAX.

Units are any consistent set, such as m, kg, s, N; angles are in radians. The examples in docstrings start from these
lines: a slider-crank with crank 1 and rod 2 that is driven from its outer dead centre, and a pendulum, a point mass of
2 at the distance 1 below its pin.

    >>> import jax, jax.numpy as jnp, jaxmbs as mbs, numpy as np
    >>> from jaxmbs import planar, spatial
    >>> jax.config.update("jax_enable_x64", True)
    >>> def slider_crank(rod=2.0):
    ...     return mbs.Mechanism(
    ...         bodies={"crank": planar.Body(), "rod": planar.Body(), "slider": planar.Body()},
    ...         constraints={
    ...             "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
    ...             "A": planar.Revolute("crank", "rod", (1, 0), (0, 0)),
    ...             "B": planar.Revolute("rod", "slider", (rod, 0), (0, 0)),
    ...             "guide": planar.Translational("ground", "slider", (0, 0), (0, 0)),
    ...         },
    ...         drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(rate=1.0))},
    ...     )
    >>> mech = slider_crank()
    >>> guess = {"crank": (0, 0, 0), "rod": (1, 0, 0), "slider": (3, 0, 0)}
    >>> pendulum = mbs.Mechanism(
    ...     bodies={"bob": planar.Body(mass=2.0, inertia=0)},
    ...     constraints={"pin": planar.Revolute("ground", "bob", (0, 0), (0, 1))},
    ...     forces={"gravity": mbs.Gravity((0, -9.81))},
    ... )
    >>> below = {"bob": (0, -1, 0)}
"""

from jaxmbs import motion as motion
from jaxmbs.analyses.assembly import Assembly as Assembly
from jaxmbs.analyses.assembly import assemble as assemble
from jaxmbs.analyses.diagnosis import Diagnosis as Diagnosis
from jaxmbs.analyses.diagnosis import diagnose as diagnose
from jaxmbs.analyses.equilibrium import Equilibrium as Equilibrium
from jaxmbs.analyses.equilibrium import equilibrium as equilibrium
from jaxmbs.analyses.equilibrium_path import EquilibriumPath as EquilibriumPath
from jaxmbs.analyses.equilibrium_path import equilibria as equilibria
from jaxmbs.analyses.kinematics import kinematics as kinematics
from jaxmbs.analyses.sensitivity import design_jacobian as design_jacobian
from jaxmbs.analyses.sensitivity import design_sensitivity as design_sensitivity
from jaxmbs.analyses.singularities import Singularities as Singularities
from jaxmbs.analyses.singularities import find_singularities as find_singularities
from jaxmbs.dynamics.closure import Baumgarte as Baumgarte
from jaxmbs.dynamics.closure import Projection as Projection
from jaxmbs.dynamics.equivalent import Equivalent as Equivalent
from jaxmbs.dynamics.equivalent import equivalent as equivalent
from jaxmbs.dynamics.force_elements import ForceElements as ForceElements
from jaxmbs.dynamics.force_elements import force_elements as force_elements
from jaxmbs.dynamics.linearisation import Linearisation as Linearisation
from jaxmbs.dynamics.linearisation import linearise as linearise
from jaxmbs.dynamics.methods.adaptive import Adaptive as Adaptive
from jaxmbs.dynamics.methods.explicit import RK4 as RK4
from jaxmbs.dynamics.methods.explicit import CoordinatePartitioning as CoordinatePartitioning
from jaxmbs.dynamics.methods.explicit import SemiImplicitEuler as SemiImplicitEuler
from jaxmbs.dynamics.methods.implicit import HHT as HHT
from jaxmbs.dynamics.methods.implicit import GeneralizedAlpha as GeneralizedAlpha
from jaxmbs.dynamics.modes import Modes as Modes
from jaxmbs.dynamics.modes import modes as modes
from jaxmbs.dynamics.reactions import Load as Load
from jaxmbs.dynamics.reactions import Reaction as Reaction
from jaxmbs.dynamics.reactions import Reactions as Reactions
from jaxmbs.dynamics.reactions import Wrench as Wrench
from jaxmbs.dynamics.reactions import reactions as reactions
from jaxmbs.dynamics.simulate import simulate as simulate
from jaxmbs.dynamics.simulate import simulate_from as simulate_from
from jaxmbs.dynamics.statics import Statics as Statics
from jaxmbs.dynamics.statics import statics as statics
from jaxmbs.explanation import Explanation as Explanation
from jaxmbs.explanation import explain as explain
from jaxmbs.forces import Actuator as Actuator
from jaxmbs.forces import AxialSpring as AxialSpring
from jaxmbs.forces import BristleFriction as BristleFriction
from jaxmbs.forces import Bushing as Bushing
from jaxmbs.forces import ClearanceRevolute as ClearanceRevolute
from jaxmbs.forces import Damper as Damper
from jaxmbs.forces import ForceElement as ForceElement
from jaxmbs.forces import GearMesh as GearMesh
from jaxmbs.forces import Gravity as Gravity
from jaxmbs.forces import JointFriction as JointFriction
from jaxmbs.forces import JointInertia as JointInertia
from jaxmbs.forces import JointSpring as JointSpring
from jaxmbs.forces import JointStop as JointStop
from jaxmbs.forces import Motor as Motor
from jaxmbs.forces import OneWayClutch as OneWayClutch
from jaxmbs.forces import PointForce as PointForce
from jaxmbs.forces import Servo as Servo
from jaxmbs.forces import Spring as Spring
from jaxmbs.forces import SpringDamper as SpringDamper
from jaxmbs.forces import State as State
from jaxmbs.forces import Torque as Torque
from jaxmbs.forces import TorsionDamper as TorsionDamper
from jaxmbs.forces import TorsionSpring as TorsionSpring
from jaxmbs.forces import UserForce as UserForce
from jaxmbs.formulations.augmented import Augmented as Augmented
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates as JointCoordinates
from jaxmbs.formulations.joint.transformation import velocity_transformation as velocity_transformation
from jaxmbs.formulations.joint.transformation import velocity_transformation_rate as velocity_transformation_rate
from jaxmbs.formulations.kane import JointMoment as JointMoment
from jaxmbs.formulations.kane import Kane as Kane
from jaxmbs.formulations.kane import joint_moment as joint_moment
from jaxmbs.formulations.kane import kane_matrices as kane_matrices
from jaxmbs.formulations.kane import kane_multipliers as kane_multipliers
from jaxmbs.formulations.kane import partial_velocities as partial_velocities
from jaxmbs.formulations.natural.natural import Natural as Natural
from jaxmbs.formulations.view import EquationsOfMotion as EquationsOfMotion
from jaxmbs.numerics import rotation as rotation
from jaxmbs.numerics.results import AnalysisError as AnalysisError
from jaxmbs.numerics.results import Status as Status
from jaxmbs.programs import PerformanceWarning as PerformanceWarning
from jaxmbs.programs import ProgramError as ProgramError
from jaxmbs.programs import disable_cache as disable_cache
from jaxmbs.programs import emission as emission
from jaxmbs.programs import enable_cache as enable_cache
from jaxmbs.programs import program as program
from jaxmbs.relative_motion import JointMotion as JointMotion
from jaxmbs.system import topology as topology
from jaxmbs.system.equations import acceleration_rhs as acceleration_rhs
from jaxmbs.system.equations import constraint_jacobian as constraint_jacobian
from jaxmbs.system.equations import constraints as constraints
from jaxmbs.system.equations import energy as energy
from jaxmbs.system.equations import generalized_force as generalized_force
from jaxmbs.system.equations import velocity_rhs as velocity_rhs
from jaxmbs.system.failure import Failure as Failure
from jaxmbs.system.failure import Failures as Failures
from jaxmbs.system.marks import with_marks as with_marks
from jaxmbs.system.mechanism import Mechanism as Mechanism
from jaxmbs.system.trajectory import Trajectory as Trajectory

# Modules that are imported when they are first used: `synthesis` needs optax, some need matplotlib or Gymnasium.
_LATE = ("env", "identification", "io", "planar", "spatial", "sweeps", "synthesis", "viz")
# Public names of the modules in `_LATE`.
_NAMES_OF_LATE = {
    "identification": ("Identified", "Record", "identify"),
    "io": ("Model", "ModelError", "export_c", "export_fmu", "export_html", "load", "load_trajectory", "save"),
    "sweeps": ("sweep",),
    "viz": ("show",),
}


def __getattr__(name: str):
    """Import a module, or a name of one, that `import jaxmbs` does not import."""
    import importlib

    if name in _LATE:
        return importlib.import_module(f"jaxmbs.{name}")
    for module, names in _NAMES_OF_LATE.items():
        if name in names:
            return getattr(importlib.import_module(f"jaxmbs.{module}"), name)
    raise AttributeError(f"module 'jaxmbs' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_LATE, *(name for names in _NAMES_OF_LATE.values() for name in names)})
