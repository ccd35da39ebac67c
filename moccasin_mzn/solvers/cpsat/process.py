"""A run in a process of its own, which HiGHS takes over for files with continuous floats in sums.

CP-SAT has none of these; a file that has linear rows only is handed over.
"""

from __future__ import annotations

import os
import sys
from dataclasses import fields

from moccasin_mzn.solvers.cpsat import run as here
from moccasin_mzn.solvers.flatzinc.execution import ExecutionOptions, StopFlag
from moccasin_mzn.solvers.flatzinc.syntax import FlatZinc

COMMAND = ("-m", "moccasin_mzn.solvers.linear", "--engine", "highs")


def run(options: ExecutionOptions, stop: StopFlag) -> int:
    """Solve the file as `run.run` does; hand over one that has to be solved elsewhere."""
    return here.run(options, stop, hand_over)


def hand_over(file: FlatZinc, options: ExecutionOptions) -> None:
    """Let this process become one of HiGHS; returns only if it cannot, or if the file has constraints that are no rows.

    One process cannot have both: OR-Tools and highspy each bring a HiGHS library. Time and signals go on to count for
    the same process.
    """
    from moccasin_mzn.base.environment import own_environment  # of this most files have no need
    from moccasin_mzn.solvers.cpsat.floats.rows import as_rows

    text = as_rows(file) if os.name == "posix" else None
    if text is None:
        return
    import tempfile

    unnamed = tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115 (for the next)
    unnamed.write(text)
    unnamed.seek(0)
    os.set_inheritable(unnamed.fileno(), True)
    ignored = "" if not options.params else "; --params are for CP-SAT, and ignored"
    print(f"% continuous floats in sums: solved by HiGHS, not by CP-SAT{ignored}", file=sys.stderr, flush=True)
    arguments = [sys.executable, "-P", *COMMAND, *_flags(options), f"/dev/fd/{unnamed.fileno()}"]
    os.execve(sys.executable, arguments, own_environment())


def _flags(options: ExecutionOptions) -> list[str]:
    """The command line with the same options."""
    flags: list[str] = []
    for one in fields(ExecutionOptions):
        value = getattr(options, one.name)
        if one.name == "limit":
            value = None if value is None else 1000 * value
        if one.metadata and value != one.default:
            flags += [one.metadata["flag"], *([] if value is True else [str(value)])]
    return flags
