"""`python -m moccasin_mzn.flatzinc [flags] FILE.fzn`"""

from __future__ import annotations

import sys

from .clock import seconds_since_start
from .options import parse_options
from .stopping import execute


def main(arguments: list[str] | None = None) -> int:
    """Solve one FlatZinc file; the exit status is 0 unless the input is wrong or unsupported."""
    seconds_since_start()

    def load():
        from .run import run  # imports ortools, which takes half a second

        return run

    return execute(parse_options(sys.argv[1:] if arguments is None else arguments), load)


if __name__ == "__main__":
    sys.exit(main())
