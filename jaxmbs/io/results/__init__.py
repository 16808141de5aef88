"""Results of synthesis as files: numbers, tables, drawings with dimensions, animations, solids."""

from jaxmbs.io.results.export import export as export
from jaxmbs.io.results.solids import solids as solids
from jaxmbs.io.results.tables import read_solution as read_solution
