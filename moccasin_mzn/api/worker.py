"""`python -m moccasin_mzn.api.worker`: answers the request that comes as JSON on stdin.

It writes one JSON object a line on stdout: every improvement as it comes, then the result, or an error; and a line on
stderr for an error. Exit status 0: there is an answer; 1: there is none; 2: the request is refused.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial

from moccasin_mzn.api.json_lines import JsonLines, JsonStream
from moccasin_mzn.api.request import AllocationRequest, request_from_json
from moccasin_mzn.api.solve import allocation, answer
from moccasin_mzn.base.errors import InputError, out_of_memory
from moccasin_mzn.base.interrupts import stopped_by_signals
from moccasin_mzn.base.terminal import as_program
from moccasin_mzn.search.call import Call

ANSWERED, NONE, REFUSED = 0, 1, 2


def run() -> int:
    """Answer the request on stdin; the exit status."""
    begin = time.monotonic()
    try:
        with stopped_by_signals():
            return _answer(sys.stdin.read(), begin)
    except InputError as error:
        refusal = error
    except Exception as error:
        lack = out_of_memory(error)
        if lack is None:
            raise
        refusal = lack
    message = refusal.as_dict()
    print(json.dumps(message), flush=True)
    print(f"error: {message['message']}", file=sys.stderr)
    return REFUSED


def _answer(text: str, begin: float) -> int:
    request = request_from_json(text)
    if isinstance(request, AllocationRequest):
        JsonLines(sys.stdout).write(allocation(request))
        return ANSWERED
    stream = JsonStream(request.problem, sys.stdout)
    result = answer(request, Call(partial(stream.progress, needed=True), begin=begin))
    stream.result(result)
    return ANSWERED if result.valid else NONE


if __name__ == "__main__":
    as_program(run)
