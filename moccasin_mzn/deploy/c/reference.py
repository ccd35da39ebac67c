"""LiteRT's reference kernels, in one thread and without delegates: what C has to output.

A kernel may end its process, such as that of SOFTMAX for hundreds of classes of about the same probability. So models
run in a process of their own, which is asked for one model after the other::

    this process                              that of the kernels
        a model, sets of inputs    ------>
                                   <------    sets of outputs, or why there are none
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from moccasin_mzn.base.environment import own_environment
from moccasin_mzn.base.errors import InputError, missing

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT
    from numpy import ndarray

Outputs = list[list["ndarray"]]
"""By set of inputs the outputs."""


def run(model: ModelT, sets: Sequence[Sequence[ndarray]]) -> Outputs:
    """The outputs of a model for sets of inputs, by LiteRT's reference kernels.

    Raises:
        InputError: LiteRT is missing, cannot run the model, or crashes.
    """
    from moccasin_mzn.deploy.tflite_model import packed

    with _lock:
        found = _kernels.asked(packed(model), sets)
    if isinstance(found, str):
        raise InputError(f"LiteRT's reference kernels do not run it: {found}")
    return found


class _Kernels:
    """The process of the kernels, which ends with this one."""

    def __init__(self) -> None:
        self._running: subprocess.Popen[bytes] | None = None

    def asked(self, data: bytes, sets: Sequence[Sequence[ndarray]]) -> Outputs | str:
        """What the process answers; a new one is started where there is none."""
        running = self._running or self._started()
        self._running = None  # should this be interrupted, the next question gets another process
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            pickle.dump((data, [[*given] for given in sets]), running.stdin)
            running.stdin.flush()
            found: Outputs | str = pickle.load(running.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            status = running.wait()
            return f"they crash ({signal.Signals(-status).name if status < 0 else f'status {status}'})"
        except BaseException:
            running.kill()
            raise
        self._running = running
        return found

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-c", f"from {__name__} import _serve; _serve()"]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=own_environment(),
            start_new_session=True,
        )  # fmt: skip


_kernels, _lock = _Kernels(), threading.Lock()


# --- In the process of the kernels ----------------------------------------------------------------------------


def _serve() -> None:
    """Answer questions until there are no more."""
    with os.fdopen(os.dup(1), "wb") as answers, contextlib.suppress(EOFError):
        os.dup2(2, 1)  # what libraries print is no answer
        while True:
            pickle.dump(_answer(sys.stdin.buffer), answers)
            answers.flush()


def _answer(questions: BinaryIO) -> Outputs | str:
    data, sets = pickle.load(questions)
    try:
        return _outputs(data, sets)
    except (InputError, RuntimeError, ValueError) as error:
        return " ".join(str(error).split())


def _outputs(data: bytes, sets: Sequence[Sequence[ndarray]]) -> Outputs:
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError:
        raise missing("ai-edge-litert", "tflite") from None
    made = Interpreter(model_content=data, num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    made.allocate_tensors()
    found = []
    for given in sets:
        for about, value in zip(made.get_input_details(), given, strict=True):
            made.set_tensor(about["index"], value)
        made.invoke()
        found.append([made.get_tensor(about["index"]).copy() for about in made.get_output_details()])
    return found
