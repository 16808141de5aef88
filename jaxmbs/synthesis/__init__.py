"""Mechanism synthesis: dimensions of a linkage that does what is asked for."""

from jaxmbs.synthesis.balance import balance as balance
from jaxmbs.synthesis.builders import Fitted as Fitted
from jaxmbs.synthesis.builders import fit as fit
from jaxmbs.synthesis.cognates import Cognate as Cognate
from jaxmbs.synthesis.cognates import cognates as cognates
from jaxmbs.synthesis.common import Ranked as Ranked
from jaxmbs.synthesis.descent import Design as Design
from jaxmbs.synthesis.descent import minimise as minimise
from jaxmbs.synthesis.function import FunctionSolution as FunctionSolution
from jaxmbs.synthesis.function import function as function
from jaxmbs.synthesis.linkages import FourBar as FourBar
from jaxmbs.synthesis.linkages import GearedFiveBar as GearedFiveBar
from jaxmbs.synthesis.linkages import Linkage as Linkage
from jaxmbs.synthesis.linkages import SixBar as SixBar
from jaxmbs.synthesis.linkages import SliderCrank as SliderCrank
from jaxmbs.synthesis.loads import CycleLoads as CycleLoads
from jaxmbs.synthesis.loads import cycle_loads as cycle_loads
from jaxmbs.synthesis.loads import peak as peak
from jaxmbs.synthesis.loads import regularity as regularity
from jaxmbs.synthesis.loads import ripple as ripple
from jaxmbs.synthesis.loads import rms as rms
from jaxmbs.synthesis.motion import MotionSolution as MotionSolution
from jaxmbs.synthesis.motion import motion as motion
from jaxmbs.synthesis.path import Solution as Solution
from jaxmbs.synthesis.path import path as path
