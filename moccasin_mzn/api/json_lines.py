"""Progress and result of a search as lines of JSON, for programs."""

from __future__ import annotations

import json
from typing import TextIO

from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.terminal import is_read
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.search.result import ADDRESSES, Progress, Result


class JsonLines:
    """Writer of one object a line, each as soon as it is known."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._left = False

    def result(self, result: Result) -> None:
        """Write the answer: the object that `solve --json` prints."""
        self.write({"type": "result", **result.as_dict()})

    def write(self, line: JsonObject, needed: bool = False) -> None:
        """Write any object.

        Raises:
            KeyboardInterrupt: the reader is gone, and this is `needed`. It is raised once: writing at the end of an
                interrupted search does not interrupt it again.
        """
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()
        if needed and not self._left and not is_read():
            self._left = True
            raise KeyboardInterrupt


class JsonStream(JsonLines):
    """Writer of a `progress` object for every improvement, and of a `result` object at the end."""

    def __init__(self, problem: Problem, out: TextIO) -> None:
        super().__init__(out)
        self._problem = problem

    def progress(self, progress: Progress, needed: bool = False) -> None:
        """Write an improvement, with the answer, by ids and names, if it is a new one; see `write`."""
        line = {
            "type": "progress",
            "seconds": round(progress.seconds, 3),
            "phase": progress.phase,
            **progress.figures,
            "bound": progress.bound,
            "source": progress.source,
        }
        if progress.phase == ADDRESSES:
            line["unplaced"] = progress.unplaced
        if progress.phase == ADDRESSES or progress.arenas is not None:
            line["arenas"] = progress.arenas
        if progress.answer is not None:
            line |= self._problem.named(progress.answer)
        self.write(line, needed)
