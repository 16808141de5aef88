"""Results as files: numbers, tables, drawings with dimensions, moving pictures."""

from jaxmbs.io.results.export import export as export
from jaxmbs.io.results.tables import read_solution as read_solution
