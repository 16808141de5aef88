"""The command line `jaxmbs`, see `jaxmbs --help`.

A command is a module with `arguments(parser)`, which declares its arguments, and `run(args)`, which returns a `Report`.
"""

from jaxmbs.cli.main import console as console
from jaxmbs.cli.main import main as main
