"""`python -m moccasin_mzn.solvers.linear --engine highs|scip [flags] FILE.fzn`"""

from __future__ import annotations

import sys

from moccasin_mzn.solvers.flatzinc.execution import execute, seconds_since_start
from moccasin_mzn.solvers.linear.configuration import parse_options


def main(arguments: list[str] | None = None) -> int:
    """Solve one FlatZinc file; the exit status is 0 unless the input is wrong or unsupported."""
    seconds_since_start()
    return execute(parse_options(sys.argv[1:] if arguments is None else arguments), "moccasin_mzn.solvers.linear.run")


if __name__ == "__main__":
    sys.exit(main())
