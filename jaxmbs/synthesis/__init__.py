"""Mechanism synthesis: dimensions of a linkage that does what is asked for."""

from jaxmbs.synthesis.cognates import Cognate as Cognate
from jaxmbs.synthesis.cognates import cognates as cognates
from jaxmbs.synthesis.common import Ranked as Ranked
from jaxmbs.synthesis.four_bar import FourBar as FourBar
from jaxmbs.synthesis.function import FunctionSolution as FunctionSolution
from jaxmbs.synthesis.function import function as function
from jaxmbs.synthesis.motion import MotionSolution as MotionSolution
from jaxmbs.synthesis.motion import motion as motion
from jaxmbs.synthesis.path import Solution as Solution
from jaxmbs.synthesis.path import path as path
