"""Search for the smallest value of a function: methods, bounds, many starts, progress and resumption."""

from jaxmbs.search.bounded_least_squares import Residuals as Residuals
from jaxmbs.search.bounded_least_squares import gauss_newton as gauss_newton
from jaxmbs.search.bounds import Variables as Variables
from jaxmbs.search.descent import Design as Design
from jaxmbs.search.descent import minimise as minimise
from jaxmbs.search.least_squares import START_DAMPING as START_DAMPING
from jaxmbs.search.multistart import MAX_CANDIDATES_PER_RESULT as MAX_CANDIDATES_PER_RESULT
from jaxmbs.search.multistart import PENALTY_START as PENALTY_START
from jaxmbs.search.multistart import SAME_DESIGN as SAME_DESIGN
from jaxmbs.search.multistart import DistinctDesigns as DistinctDesigns
from jaxmbs.search.multistart import LeastSquaresPhase as LeastSquaresPhase
from jaxmbs.search.multistart import LeastSquaresProblem as LeastSquaresProblem
from jaxmbs.search.multistart import MultistartCarry as MultistartCarry
from jaxmbs.search.multistart import Ranked as Ranked
from jaxmbs.search.multistart import descend as descend
from jaxmbs.search.multistart import finite_costs as finite_costs
from jaxmbs.search.multistart import order_by_cost as order_by_cost
from jaxmbs.search.multistart import penalty_phases as penalty_phases
from jaxmbs.search.multistart import rank_candidates as rank_candidates
from jaxmbs.search.multistart import step_function as step_function
from jaxmbs.search.phases import ProgressCallback as ProgressCallback
from jaxmbs.search.phases import SearchOptions as SearchOptions
from jaxmbs.search.phases import SearchPhase as SearchPhase
from jaxmbs.search.phases import positive_integer as positive_integer
from jaxmbs.search.phases import rounded_text as rounded_text
from jaxmbs.search.phases import run_phases as run_phases
