"""Results as files: numbers, tables, drawings with dimensions, moving pictures."""

from jaxmbs.io.export import export as export
from jaxmbs.io.tables import read_solution as read_solution
