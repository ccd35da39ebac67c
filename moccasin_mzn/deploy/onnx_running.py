"""Runs of ONNX models in a process of their own: what ends ONNX Runtime there, such as a crash in a kernel, is an error
of one line here."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moccasin_mzn.base.environment import own_environment
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.onnx_session import Measured, measured, options_of
from moccasin_mzn.graphs.importers.onnx.model import packages

if TYPE_CHECKING:
    import numpy
    import onnx

ASKED, FOUND = "asked", "found"
"""Files of a run: what is asked for, and what came of it."""


def measured_apart(
    model: onnx.ModelProto, inputs: Mapping[str, numpy.ndarray], in_order: Sequence[bool], **how: bool
) -> list[Measured]:
    """Run a model, with its weights inside, in one thread.

    Args:
        model: what to run.
        inputs: values by name.
        in_order: for each run whether it is in the order of the file, or in that of ONNX Runtime.
        how: as for `measured`.

    Raises:
        InputError: ONNX Runtime cannot run it, or ends the process.
    """
    with tempfile.TemporaryDirectory(prefix="moccasin-") as name:
        folder = Path(name)
        (folder / ASKED).write_bytes(pickle.dumps((model.SerializeToString(), dict(inputs), tuple(in_order), how)))
        command = [sys.executable, "-P", "-m", "moccasin_mzn.deploy.onnx_running", name]
        done = subprocess.run(command, capture_output=True, check=False, env=own_environment())
        if done.returncode or not (folder / FOUND).exists():
            raise InputError(f"ONNX Runtime ends its process: {_why(done)}")
        found: list[Measured] | str = pickle.loads((folder / FOUND).read_bytes())
    if isinstance(found, str):
        raise InputError(found)
    return found


def _why(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode < 0:
        return signal.strsignal(-done.returncode) or f"signal {-done.returncode}"
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else f"status {done.returncode}"


def main(folder: Path) -> None:
    """Run what is asked for in a folder, and leave there what came of it."""
    content, inputs, in_order, how = pickle.loads((folder / ASKED).read_bytes())
    model = packages().load_model_from_string(content)
    found: list[Measured] | str = []
    try:
        found = [measured(model, inputs, options_of(one), **how) for one in in_order]
    except InputError as error:
        found = str(error)
    (folder / FOUND).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
