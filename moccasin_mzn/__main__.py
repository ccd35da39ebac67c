"""`python -m moccasin_mzn`."""

import atexit
import contextlib
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # nothing here uses it, and each of its threads takes memory


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        from moccasin_mzn.cli.main import EXIT_BAD_INPUT, run
        from moccasin_mzn.report.streams import complaint, make_streams_last
        from moccasin_mzn.temporary import own_folder

        make_streams_last()
        stack = contextlib.ExitStack()
        atexit.register(stack.close)  # the last to go: what libraries remove at the end is in this folder
        stack.enter_context(own_folder())
        status = run()
        failure = complaint()
        if failure is not None:
            print(f"error: {failure}", file=sys.stderr)
            status = EXIT_BAD_INPUT
    except KeyboardInterrupt:  # while all this was loaded, or at the very end
        status = 2
    exec("")  # else Python ends by SIGINT if an interrupt, though caught, has left the latest exec of text
    sys.exit(status)


if __name__ == "__main__":
    main()
