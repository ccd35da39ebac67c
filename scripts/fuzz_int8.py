#!/usr/bin/env python
"""Does the C of `deploy c` return what LiteRT's reference kernels do? Random int8 networks, whole and in parts.

    python scripts/fuzz_int8.py --networks 600 --seed 1 [--keep FOLDER]
    python scripts/fuzz_int8.py model.tflite other.tflite

Networks are those of scripts/random_int8.py. Each runs whole and in parts of a random schedule that recomputes some of
them, on --sets random inputs, compiled with checks for undefined behaviour; with --sanitize for addresses too, which is
slower. A network is equal, or refused in one sentence before a file is written; one that differs is reported with its
seed, and kept. Exit status 1 if one differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests" / "support")]

import c_programs  # noqa: E402
from random_int8 import random_network  # noqa: E402

QUICK = "-O1 -fsanitize=undefined -fno-sanitize-recover=all"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--networks", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz_int8"))
    options = parser.parse_args()
    flags = c_programs.SANITIZED if options.sanitize else QUICK
    seeds = range(options.seed, options.seed + (len(options.files) or options.networks))
    found: Counter[str] = Counter()
    for at, seed in enumerate(seeds):
        data = options.files[at].read_bytes() if options.files else random_network(np.random.default_rng(seed))
        with tempfile.TemporaryDirectory() as folder:
            verdict = c_programs.verdict(data, seed, Path(folder), options.sets, flags)
        kind = verdict.split(":")[0]
        found[kind] += 1
        if options.files:
            print(f"{options.files[at].name}: {verdict}", flush=True)
        elif kind != "equal":
            print(f"seed {seed}: {verdict}", flush=True)
        if kind == "differs":
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / f"{seed}.tflite").write_bytes(data)
    print(f"{len(seeds)} networks: {found['equal']} equal, {found['refused']} refused, {found['differs']} differ")
    return 1 if found["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
