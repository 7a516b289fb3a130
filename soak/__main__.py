"""`python -m soak`."""

import sys

from soak.running import main

sys.exit(main(sys.argv[1:]))
