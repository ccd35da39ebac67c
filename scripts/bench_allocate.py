"""Seconds until buffers fit a capacity: a Markdown table over files of minimalloc, or over random buffers.

    python scripts/bench_allocate.py [NAME.CAPACITY.csv ...] [--time-limit 60] [--seeds 3] [--minimalloc PROGRAM]
    python scripts/bench_allocate.py --random 1000000

Without files: those of data/minimalloc. Without a time limit: as long as it seems of use, which is the same on a slow
or busy machine, where processor seconds are to be compared. "s" are wall-clock seconds of the search on one thread,
without reading; medians over seeds. Random buffers have no capacity: their arena is made as small as possible.

Where the program minimalloc is on PATH, or named, two columns more have its seconds, without reading by its own clock,
and its processor seconds, with reading; its offsets are judged as ours are. To build it:

    git clone --recursive https://github.com/google/minimalloc && cd minimalloc
    cmake -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build --target minimalloc
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from row_tables import print_markdown

from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.machine.addresses import ADDRESSES
from moccasin_mzn.machine.addresses.search import search_arena
from moccasin_mzn.problem.arena import bound_of
from moccasin_mzn.problem.buffer import Buffer
from moccasin_mzn.problem.files.buffers import read_buffers

FOLDER = Path(__file__).resolve().parents[1] / "data" / "minimalloc"
_HEADINGS = ("buffers", "how many", "peak", "capacity", "arena", "over the bound %", "fits", "s", "processor s")
_THEIRS = ("minimalloc s", "minimalloc processor s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="NAME.CAPACITY.csv", type=Path)
    parser.add_argument("--time-limit", type=float)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--random", type=int, metavar="N", help="So many buffers instead of files.")
    parser.add_argument("--minimalloc", metavar="PROGRAM", default=shutil.which("minimalloc"))
    arguments = parser.parse_args()
    ready(ADDRESSES)
    program = None if arguments.random is not None else arguments.minimalloc
    headings = (*_HEADINGS, *(_THEIRS if program else ()))
    print_markdown(headings, rows(arguments, program))


def rows(arguments: argparse.Namespace, program: str | None) -> Iterator[list[str]]:
    """The rows of all files, or of random buffers."""
    if arguments.random is not None:
        yield row("random", random_buffers(arguments.random), None, arguments.time_limit, arguments.seeds)
        return
    for path in arguments.files or sorted(FOLDER.glob("*.csv")):
        name, capacity = path.stem.rsplit(".", 1)
        cells = row(name, read_buffers(path), int(capacity), arguments.time_limit, arguments.seeds)
        yield [*cells, *(by_minimalloc(program, path, int(capacity), arguments.time_limit) if program else ())]


def row(
    name: str, buffers: tuple[Buffer, ...], capacity: int | None, time_limit: float | None, seeds: int
) -> list[str]:  # fmt: skip
    """The cells of one set of buffers."""
    walls, processor, sizes, bound = [], [], [], bound_of(buffers, 1)
    for seed in range(seeds):
        begin = time.monotonic(), time.process_time()
        arena = search_arena(buffers, enough=capacity, time_limit=time_limit, seed=seed)
        walls.append(time.monotonic() - begin[0])
        processor.append(time.process_time() - begin[1])
        sizes.append(arena.size)
    size = max(sizes)
    fitting = sum(size <= (bound if capacity is None else capacity) for size in sizes)
    return [
        name, f"{len(buffers):,}", f"{bound:,}", "-" if capacity is None else f"{capacity:,}", f"{size:,}",
        f"{100 * (size / bound - 1):.3f}", f"{fitting} of {seeds}", f"{statistics.median(walls):.1f}",
        f"{statistics.median(processor):.1f}",
    ]  # fmt: skip


def by_minimalloc(program: str, path: Path, capacity: int, time_limit: float | None) -> list[str]:
    """Seconds and processor seconds of minimalloc; dashes, if it ends without offsets.

    Raises:
        InputError: its offsets overlap, or are over the capacity.
        ValueError: they are for other buffers, or moved some.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "offsets.csv"
        command = [program, f"--capacity={capacity}", f"--input={path}", f"--output={output}"]
        command += [] if time_limit is None else [f"--timeout={time_limit}s"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        reported = re.search(r"Elapsed time ([0-9.]+)s", done.stderr)
        if done.returncode or reported is None:
            return ["-", "-"]
        placed = read_buffers(output, capacity=capacity)  # which judges the offsets
    if tuple(replace(buffer, offset=None) for buffer in placed) != read_buffers(path):
        raise ValueError(f"{path}: minimalloc's offsets are for other buffers, or moved some")
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [f"{float(reported[1]):.1f}", f"{processor:.1f}"]


def random_buffers(count: int, seed: int = 0) -> tuple[Buffer, ...]:
    """Buffers as a long sequence of computations makes them: one begins at each time, most are short, some long."""
    rng = random.Random(seed)
    return tuple(
        Buffer(str(at), at, at + 1 + min(int(rng.expovariate(0.05)), 1000), 64 * rng.randint(1, 4096))
        for at in range(count)
    )


if __name__ == "__main__":
    main()
