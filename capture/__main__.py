"""`python -m capture NAME --data DIR --options-json FILE`: one capture in the foreground."""

import sys

from capture.worker import main

if __name__ == "__main__":
    sys.exit(main())
