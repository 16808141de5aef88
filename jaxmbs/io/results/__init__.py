"""Results of synthesis as files: numbers, tables, drawings with dimensions, animations."""

from jaxmbs.io.results.export import export as export
from jaxmbs.io.results.tables import read_solution as read_solution
