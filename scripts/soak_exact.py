"""Random questions about tiny graphs, every answer and claim compared with an exact oracle that shares nothing.

    python scripts/soak_exact.py --questions 20000 --jobs 2
    python scripts/soak_exact.py --only pools --questions 100
    python scripts/soak_exact.py --replay 17

Prints a table of the kinds of questions: how many, how many the oracle gave up on, how many were refused as nothing
handles their features together, and disagreements, each printed with its number when it is found. Exit status 1 if
there are any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from soaking.exact_questions import KINDS, ask  # noqa: E402

GAVE_UP, REFUSED = " (oracle gave up)", " (refused)"


def numbered(number: int, only: str | None) -> tuple[int, str, list[str]]:
    """A question by its number: that, its kind, and what is wrong with the answers."""
    return number, *ask(number, only)


def main() -> int:
    """Ask as the command line wants it; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=20_000, metavar="N", help="number of questions [20000]")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="number of the first question [0]")
    parser.add_argument("--jobs", type=int, default=2, metavar="J", help="processes that ask [2]")
    parser.add_argument("--only", choices=sorted(KINDS), help="ask only questions of this kind")
    parser.add_argument("--replay", type=int, metavar="NUMBER", help="one question, and what is wrong with its answers")
    given = parser.parse_args()
    if given.replay is not None:
        print(*numbered(given.replay, given.only))
        return 0
    counts, wrong, begin, reported = Counter[str](), Counter[str](), time.monotonic(), time.monotonic()
    numbers = range(given.seed, given.seed + given.questions)
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for number, kind, flaws in pool.imap_unordered(partial(numbered, only=given.only), numbers, chunksize=8):
            counts[kind] += 1
            if flaws:
                wrong[kind] += 1
                print(f"DISAGREEMENT {number} ({kind}): {'; '.join(flaws)}", file=sys.stderr, flush=True)
            if time.monotonic() - reported > 10:
                reported = time.monotonic()
                done = sum(counts.values())
                print(f"{reported - begin:7.0f} s  {done} questions  {sum(wrong.values())} wrong", file=sys.stderr)
    print("kind            questions   oracle gave up   refused   disagreements")
    for kind in KINDS:
        asked, silent, refused = (counts[kind + how] for how in ("", GAVE_UP, REFUSED))
        print(f"{kind:14} {asked + silent + refused:10} {silent:16} {refused:9} {wrong[kind]:15}")
    total = sum(counts.values())
    print(f"{total} questions in {time.monotonic() - begin:.0f} s, {sum(wrong.values())} disagreements")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
