"""`python -m moccasin_mzn.flatzinc [flags] FILE.fzn`"""

from __future__ import annotations

import os
import sys

from .clock import seconds_since_start
from .options import parse_options
from .stopping import Interrupted, StopFlag


def main(arguments: list[str] | None = None) -> int:
    """Solve one FlatZinc file; the exit status is 0 unless the input is wrong or unsupported."""
    seconds_since_start()
    options = parse_options(sys.argv[1:] if arguments is None else arguments)
    stop = StopFlag()
    try:
        if options.limit is not None:
            stop.set_after(options.limit - seconds_since_start())
        from .run import run  # imports ortools, which takes half a second in which signals already count

        return run(options, stop)
    except Interrupted:
        print("=====UNKNOWN=====", flush=True)
        return 0
    except BrokenPipeError:  # nobody listens any more
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (open until the end)
        return 1


if __name__ == "__main__":
    sys.exit(main())
