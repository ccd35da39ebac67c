"""An ONNX file analysed in a process of its own, with limits of time and memory.

The shape inference of `onnx` is native code that takes its input for well-meant: an axis of 2**63 - 1 crashes it, a
number of outputs of 2**31 fills the memory, and some equations of Einsum keep it busy for ever. So a process that reads
files of strangers asks another one, `python -m moccasin_mzn.graphs.importers.onnx_isolated`, with the request on its
standard input: one line of JSON, then the file.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from math import ceil
from typing import Any

from moccasin_mzn.errors import InputError
from moccasin_mzn.graphs.importers.onnx_dims import check_numbers
from moccasin_mzn.graphs.importers.onnx_folding import Fold
from moccasin_mzn.graphs.importers.onnx_model import packages
from moccasin_mzn.graphs.importers.onnx_network import Network, network_of
from moccasin_mzn.graphs.importers.program import Operation, Program
from moccasin_mzn.own_code import own_environment

SECONDS = 300
"""A network of 100,000 operators takes half a minute."""
MEMORY, MEMORY_PER_BYTE = 4 * 2**30, 8
"""Bytes of address space, and so many more for each byte of the file."""


def network_apart(
    data: bytes,
    name: str,
    dims: Mapping[str, int],
    sizes: Mapping[str, int] | None = None,
    fold: Fold = Fold.SMALL,
    seconds: float = SECONDS,
) -> Network:
    """As `onnx_network.network_of`, but in another process.

    Raises:
        InputError: what that raises; and if the other process crashes, or takes too much time or memory.
    """
    check_numbers(dims)
    memory = MEMORY + MEMORY_PER_BYTE * len(data)
    request = json.dumps({
        "name": name, "dims": dict(dims), "sizes": dict(sizes or {}), "fold": fold, "memory": memory,
        "seconds": ceil(seconds),
    })  # fmt: skip
    command = [sys.executable, "-P", "-m", "moccasin_mzn.graphs.importers.onnx_isolated"]
    try:
        done = subprocess.run(
            command,
            input=request.encode() + b"\n" + data,
            capture_output=True,
            timeout=seconds,
            check=False,
            env=own_environment(),
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"its shapes are not inferred in {seconds} s") from None
    if done.returncode:
        raise InputError(_failure(done))
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise InputError(answer["error"])
    return _network(answer)


def _failure(done: subprocess.CompletedProcess[bytes]) -> str:
    version = packages().__version__
    lines = done.stderr.decode(errors="replace").split("\n")
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        if name == "SIGXCPU":  # no such signal on Windows
            return "its analysis takes too much time"
        return f"the shape inference of onnx {version} crashes on it ({name})"
    if any(line.startswith("MemoryError") for line in lines):
        return "its analysis takes too much memory"
    last = next((line.strip() for line in reversed(lines) if line.strip()), f"status {done.returncode}")
    return f"its analysis with onnx {version} fails: {last}"


def _network(answer: dict[str, Any]) -> Network:
    program = answer.pop("program")
    operations = tuple(
        Operation(**{**operation, **{names: tuple(operation[names]) for names in ("inputs", "in_place")}})
        for operation in program.pop("operations")
    )
    results = tuple(program.pop("results"))
    positions = tuple(answer.pop("positions"))
    branches, folded = tuple(answer.pop("branches")), tuple(answer.pop("folded"))
    return Network(Program(operations, results, **program), positions, **answer, branches=branches, folded=folded)


def main() -> None:
    """Answer the request on standard input with a network, or an error, as JSON on standard output."""
    request = json.loads(sys.stdin.buffer.readline())
    _limit("RLIMIT_AS", request["memory"])
    _limit("RLIMIT_CPU", request["seconds"])  # the process that asks may be killed and never end this one
    output, sys.stdout = sys.stdout, sys.stderr  # nothing else may write there
    try:
        network = network_of(
            sys.stdin.buffer.read(), request["name"], request["dims"], request["sizes"], Fold(request["fold"])
        )
        answer = asdict(network)
    except InputError as error:
        answer = {"error": str(error)}
    json.dump(answer, output)
    output.flush()


def _limit(name: str, amount: int) -> None:
    """Set a limit of this process, by its name in `resource`; one that is already lower stays."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    kind = getattr(resource, name)
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (min([amount, *(limit for limit in (soft, hard) if limit >= 0)]), hard))


if __name__ == "__main__":
    main()
