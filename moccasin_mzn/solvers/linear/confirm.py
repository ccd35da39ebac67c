"""Claims of a solver in doubles, confirmed or refuted by one whose arithmetic is exact."""

from __future__ import annotations

import contextlib
import functools
import json
import pickle
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from moccasin_mzn.solvers.linear.engine import Settings
from moccasin_mzn.solvers.linear.program import LinearProgram

NAME = "CP-SAT"
"""Who confirms."""


@functools.cache
def confirmer() -> Confirmer:
    """That of this process, with which it ends."""
    return Confirmer()


class Confirmer:
    """CP-SAT in another process, which starts with the first claim: its library does not go with that of highspy."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def refute(
        self,
        program: LinearProgram,
        cutoff: float | None,
        solution: Callable[[np.ndarray], None],
        settings: Settings,
    ) -> str:
        """Search for solutions of a program of integers.

        Args:
            cutoff: they have to be better than this, if there is an objective; None: anyone will do.
            solution: gets each one that is better than all before, by column.

        Returns:
            "infeasible": proven, there is none; "optimal": proven, none is better than the last one; or "unknown".
        """
        limits = settings.seconds, settings.threads, settings.seed
        try:
            process = self._started()
            assert process.stdin and process.stdout
            pickle.dump((program, cutoff, limits), process.stdin)
            process.stdin.flush()
            for line in process.stdout:
                answer = json.loads(line)
                if "status" in answer:
                    return answer["status"]
                solution(np.array(answer["values"], dtype=float))
        except (OSError, ValueError):
            pass  # it has died, of memory perhaps
        self.close()
        return "unknown"

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-P", "-m", "moccasin_mzn.solvers.linear.confirming"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self._process

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin and process.stdout
            process.kill()
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.stdout.close()
            process.wait()
