"""Large studies: a measure of very many designs, on any number of machines, kept in a folder of Parquet files."""

from jaxmbs.sweeps.designs import Grid as Grid
from jaxmbs.sweeps.designs import LatinHypercube as LatinHypercube
from jaxmbs.sweeps.designs import Random as Random
from jaxmbs.sweeps.designs import Sobol as Sobol
from jaxmbs.sweeps.designs import table as table
from jaxmbs.sweeps.distributions import Choice as Choice
from jaxmbs.sweeps.distributions import LogUniform as LogUniform
from jaxmbs.sweeps.distributions import Normal as Normal
from jaxmbs.sweeps.distributions import Uniform as Uniform
from jaxmbs.sweeps.merging import merge as merge
from jaxmbs.sweeps.results import Results as Results
from jaxmbs.sweeps.sweep import sweep as sweep
