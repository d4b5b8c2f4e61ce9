"""`python -m lite`: the same as the `lite` command."""

import sys

from lite.cli import main

if __name__ == "__main__":
    sys.exit(main())
