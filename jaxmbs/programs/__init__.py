"""Straight-line programs: functions of small arrays as graphs of scalars, compiled to vector code for the platform.

Everything outside this package imports from here, and only this:

- compile: `program` compiles a function, `ProgramWithFallback` runs it as array code if it has no program, `emission`
  chooses the kind of code of `EMISSIONS`, `save_for_reverse` marks a value that reverse mode should not compute again,
  `as_variables` marks start values that change in a loop, `unrolling_pays` is True if a short loop is faster written out;
- look at programs: `Program`, `Node`, `scalar_nodes`, `OPERATIONS` (the table of scalar operations),
  `estimate_operations`, `explain_programs`, `default_platform`;
- linear systems: `factorise`, `solve_factorised`;
- source code: `CSource`, a function in C, `StructMember`, a member of its structs, and `number_in_c`;
- closures: `open_closure`, `convert_closure`, `referenced_values`, `digest_of_values`;
- devices: `shard_over_devices`, `gather`;
- cache: `enable_cache`, `disable_cache`, `active_store`;
- errors: `ProgramError`, `PerformanceWarning`.

Inside, `graph` holds graphs of scalars and the table of operations, `tracing` makes a graph of a JAX function, `linear`
solves linear systems in both, `derivatives` derives graphs, `backends` makes code of them, `runtime` connects that with JAX
and keeps it on disk.
"""

from jaxmbs.programs.backends import EMISSIONS as EMISSIONS
from jaxmbs.programs.backends import unrolling_pays as unrolling_pays
from jaxmbs.programs.backends.c import CSource as CSource
from jaxmbs.programs.backends.c import StructMember as StructMember
from jaxmbs.programs.backends.c import number_in_c as number_in_c
from jaxmbs.programs.errors import PerformanceWarning as PerformanceWarning
from jaxmbs.programs.errors import ProgramError as ProgramError
from jaxmbs.programs.explanation import explain_programs as explain_programs
from jaxmbs.programs.function import ProgramWithFallback as ProgramWithFallback
from jaxmbs.programs.function import program as program
from jaxmbs.programs.graph.nodes import Node as Node
from jaxmbs.programs.graph.operations import OPERATIONS as OPERATIONS
from jaxmbs.programs.linear.primitives import factorise as factorise
from jaxmbs.programs.linear.primitives import solve_factorised as solve_factorised
from jaxmbs.programs.runtime import primitive as primitive  # the tests' settings
from jaxmbs.programs.runtime import store as store  # the tests' settings
from jaxmbs.programs.runtime.closures import convert_closure as convert_closure
from jaxmbs.programs.runtime.closures import open_closure as open_closure
from jaxmbs.programs.runtime.content import digest_of_values as digest_of_values
from jaxmbs.programs.runtime.content import referenced_values as referenced_values
from jaxmbs.programs.runtime.jax_compat import default_platform as default_platform
from jaxmbs.programs.runtime.primitive import as_variables as as_variables
from jaxmbs.programs.runtime.primitive import emission as emission
from jaxmbs.programs.runtime.primitive import save_for_reverse as save_for_reverse
from jaxmbs.programs.runtime.sharding import gather as gather
from jaxmbs.programs.runtime.sharding import shard_over_devices as shard_over_devices
from jaxmbs.programs.runtime.store import active_store as active_store
from jaxmbs.programs.runtime.store import disable_cache as disable_cache
from jaxmbs.programs.runtime.store import enable_cache as enable_cache
from jaxmbs.programs.tracing.loops import estimate_operations as estimate_operations
from jaxmbs.programs.tracing.program import Program as Program
from jaxmbs.programs.tracing.program import scalar_nodes as scalar_nodes
