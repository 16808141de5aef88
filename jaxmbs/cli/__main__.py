"""`python -m jaxmbs.cli`."""

import sys

from jaxmbs.cli.main import main

sys.exit(main())
