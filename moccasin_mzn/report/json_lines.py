"""The search as lines of JSON, for a program that reads along."""

from __future__ import annotations

import json
from typing import Any, TextIO

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.report.streams import is_read
from moccasin_mzn.search.result import Progress


class JsonLines:
    """Writes one object a line, each as soon as it is known."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._left = False

    def result(self, result: Any) -> None:
        """Write the answer: the object that `solve --json` prints."""
        self.write({"type": "result", **result.as_dict()})

    def write(self, line: dict[str, Any], needed: bool = False) -> None:
        """Write any object.

        Raises:
            KeyboardInterrupt: nobody reads any more, and this is `needed`: whoever asked has had enough. Once: what is
                told at the end of a search that is interrupted does not interrupt it again.
        """
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()
        if needed and not self._left and not is_read():
            self._left = True
            raise KeyboardInterrupt


class JsonStream(JsonLines):
    """`progress` for every improvement, at the end `result`."""

    def __init__(self, graph: ComputationGraph, out: TextIO) -> None:
        super().__init__(out)
        self._graph = graph

    def progress(self, progress: Progress, needed: bool = False) -> None:
        """Write an improvement, with the schedule, as ids, if it is a new one within the budget; see `write`."""
        line = {
            "type": "progress",
            "seconds": round(progress.seconds, 3),
            "phase": progress.phase,
            "peak": progress.peak,
            "duration": progress.duration,
            "bound": progress.bound,
            "recomputations": progress.recomputations,
        }
        if progress.sequence is not None:
            line["sequence"] = [self._graph.nodes[v] for v in progress.sequence]
        self.write(line, needed)
