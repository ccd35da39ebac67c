"""`python -m moccasin_mzn`."""

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # nothing here uses it, and each of its threads takes memory


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        from moccasin_mzn.base.terminal import as_program
    except KeyboardInterrupt:
        sys.exit(2)

    def run() -> int:
        from moccasin_mzn.cli.main import run

        return run()

    as_program(run)


if __name__ == "__main__":
    main()
