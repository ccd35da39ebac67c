"""`python -m moccasin_mzn`."""

import sys

from moccasin_mzn.cli import run


def main() -> None:
    """Run the command line and exit with its status."""
    sys.exit(run())


if __name__ == "__main__":
    main()
