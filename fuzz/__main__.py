"""`python -m fuzz`."""

import sys

from fuzz.running import main

sys.exit(main(sys.argv[1:]))
