"""The command line: `jaxmbs check`, `simulate`, `kinematics`, `animate`, `synthesize`, `testspeed`, `convert`, `schema`,
`cache`.

A command is a module with `arguments(parser)`, which declares what it takes, and `run(args)`, which returns a `Report`.
"""

from jaxmbs.cli.main import console as console
from jaxmbs.cli.main import main as main
