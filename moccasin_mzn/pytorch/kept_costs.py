"""What operators take on this machine, kept for later calls and processes in the user's cache. ::

    ~/.cache/moccasin_mzn/operators/5f0c....json       one file for all that measurements depend on but the call itself
        0a34...                                        a digest of what follows
        {"91be...": [5120, 0, 65536], ...}             by digest of a call: nanoseconds or null, workspace, output bytes

A file is replaced as a whole by what it has and what is new. What cannot be read, or is not what was written, counts
for nothing. The environment variable `MOCCASIN_OPERATORS` names another folder, or turns it off: "off".
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from moccasin_mzn.base.environment import user_cache
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import SIZE_LIMIT, load_bytes, replace_file

Kept = tuple[int | None, int, int]
"""Nanoseconds, None if there was no time to take them; bytes of the workspace, and of the outputs."""
VARIABLE = "MOCCASIN_OPERATORS"
OFF = "off"
MOST_CALLS, _MOST_FILES = 20_000, 20
"""The latest calls in a file, and the latest files."""
_WAITS, _WAIT = 20, 0.01
"""How often, and for how many seconds, it is waited for who else writes; after that nothing is kept."""
_PREFIXES = (
    "ATEN_", "CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "GOMP_", "KMP_", "LD_PRELOAD", "MALLOC_", "MKL_", "NVIDIA_", "OMP_",
    "ONEDNN_", "OPENBLAS_", "PYTORCH_", "TORCH_",
)  # fmt: skip
"""Names of environment variables that libraries read begin like these."""


@dataclass
class KeptCosts:
    """Costs of calls by name, see `name_of`, in a folder that is read when it is first asked."""

    known: dict[str, Kept] = field(default_factory=dict)
    """What was read or added."""
    _read: Path | None = None
    """The file that was read."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, names: Iterable[str]) -> list[Kept | None]:
        """What is kept of calls; None: nothing."""
        with self._lock:
            self._refresh()
            return [self.known.get(name) for name in names]

    def keep(self, found: Mapping[str, Kept]) -> None:
        """Add what was measured. If it cannot be written, it is known in this process alone."""
        with self._lock:
            path = self._refresh()
            new = {name: cost for name, cost in found.items() if name and self.known.get(name) != cost}
            if path is None or not new:
                return
            self.known |= new
            with contextlib.suppress(OSError, InputError):
                path.parent.mkdir(parents=True, exist_ok=True)
                with _alone(path) as alone:
                    if alone:
                        whole = {**read(path), **new}
                        write(path, dict(itertools.islice(whole.items(), max(0, len(whole) - MOST_CALLS), None)))
                        _forget_the_oldest(path)

    def _refresh(self) -> Path | None:
        """Read the file that belongs to this process as it is now, unless that is done; None: nothing is kept."""
        path = _path()
        if path != self._read:
            self.known, self._read = {} if path is None else read(path), path
        return path


KEPT = KeptCosts()
"""The kept costs of this process."""


def name_of(key: object, device: str) -> str:
    """A name for a call, the same in each process; "": it has none.

    Args:
        key: of the call; its text has all that is different in others.
    """
    text = repr((key, _card(device)))
    return "" if " at 0x" in text else hashlib.sha256(text.encode()).hexdigest()[:32]


def read(path: Path) -> dict[str, Kept]:
    """What a file has; nothing if it cannot be read or is not as it was written."""
    try:
        digest, _, text = load_bytes(path, SIZE_LIMIT).decode().partition("\n")
        if digest != _digest(text):
            return {}
        return {name: (took, workspace, outputs) for name, (took, workspace, outputs) in json.loads(text).items()}
    except (InputError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def write(path: Path, costs: Mapping[str, Kept]) -> None:
    """Replace a file.

    Raises:
        InputError: it cannot be written.
    """
    text = json.dumps(costs)
    replace_file(path, f"{_digest(text)}\n{text}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Keep other processes from replacing files meanwhile, where the system has locks; False: another one does."""
    try:
        import fcntl
    except ImportError:
        yield True
        return
    with open(path.with_name("writing.lock"), "w") as file:
        for _ in range(_WAITS):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_WAIT)
                continue
            except OSError:
                pass  # a file system without locks
            yield True
            return
    yield False


def _forget_the_oldest(path: Path) -> None:
    files = sorted(path.parent.glob("*.json"), key=lambda each: each.stat().st_mtime, reverse=True)
    for each in files[_MOST_FILES:]:
        each.unlink(missing_ok=True)


# --- What measurements depend on -------------------------------------------------------------------------------


def _path() -> Path | None:
    given = os.environ.get(VARIABLE, "")
    if given.strip().lower() == OFF:
        return None
    with contextlib.suppress(OSError):
        folder = Path(given) if given else user_cache() / "operators"
        chosen = tuple(sorted(each for each in os.environ.items() if each[0].startswith(_PREFIXES)))
        return folder / f"{_surroundings(chosen)}.json"
    return None


@cache
def _surroundings(variables: tuple[tuple[str, str], ...]) -> str:
    """A digest of PyTorch, how it was built, the processor, environment variables, and how calls are measured."""
    import torch

    first: list[str] = []
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as cores:
        first = [line for line in itertools.takewhile(str.strip, cores) if line.startswith(("model name", "flags"))]
    own = Path(__file__).parent
    sources = [own / "operator_worker.py", own / "measuring.py", own.parent / "graphs/importers/torch/graph.py"]
    known = (
        torch.__version__, torch.version.git_version, torch.__config__.show(),
        torch.backends.cpu.get_cpu_capability(), platform.machine(), sys.platform, os.cpu_count(), first, variables,
        [hashlib.sha256(each.read_bytes()).hexdigest() for each in sources],
    )  # fmt: skip
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]


@cache
def _card(device: str) -> tuple[object, ...]:
    """What there is to know of a device that is not the CPU."""
    if device.partition(":")[0] == "cpu":
        return ()
    import torch

    card = torch.cuda.get_device_properties(device)
    library = torch.backends.cudnn.version()
    return card.name, card.major, card.minor, card.total_memory, torch.version.cuda, library
