"""`fzn-cp-sat [flags] FILE.fzn`, or `python -m moccasin_mzn.solvers.cpsat [flags] FILE.fzn`"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from moccasin_mzn.solvers.flatzinc.execution import execute, parse_options, seconds_since_start


def main(arguments: list[str] | None = None) -> int:
    """Solve one FlatZinc file; the exit status is 0 unless the input is wrong or unsupported."""
    seconds_since_start()
    options = parse_options(sys.argv[1:] if arguments is None else arguments)
    return execute(options, "moccasin_mzn.solvers.cpsat.process")


def command() -> NoReturn:
    """Be the executable: solve the file of the command line, and end without taking the process apart, which takes a
    tenth of a small run."""
    status = main()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:  # nobody listens any more
            status = 1
    os._exit(status)


if __name__ == "__main__":
    command()
