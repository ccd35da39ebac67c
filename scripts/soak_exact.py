"""Random questions about tiny graphs, every answer and claim compared with an exact oracle that shares nothing.

    python scripts/soak_exact.py --questions 20000 --jobs 2
    python scripts/soak_exact.py --only pools --questions 100
    python scripts/soak_exact.py --replay 17

Prints a table of the kinds of questions: how many, how many the oracle gave up on, how many were refused as nothing
handles their features together, and disagreements, each printed with its number when it is found; with `--features`
also how many questions had each pair of features, and how many three or more. Exit status 1 if there are any
disagreements.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from functools import partial
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from soaking.exact_kinds import GAVE_UP, KINDS, REFUSED, Outcome, ask  # noqa: E402

from moccasin_mzn.problem.features import Feature  # noqa: E402


def numbered(number: int, only: str | None) -> tuple[int, Outcome]:
    """A question by its number: that, and what came of it."""
    return number, ask(number, only)


def main() -> int:
    """Ask as the command line wants it; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=20_000, metavar="N", help="number of questions [20000]")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="number of the first question [0]")
    parser.add_argument("--jobs", type=int, default=2, metavar="J", help="processes that ask [2]")
    parser.add_argument("--only", choices=sorted(KINDS), help="ask only questions of this kind")
    parser.add_argument("--features", action="store_true", help="print also how often features were asked together")
    parser.add_argument("--replay", type=int, metavar="NUMBER", help="one question, and what is wrong with its answers")
    given = parser.parse_args()
    if given.replay is not None:
        print(*numbered(given.replay, given.only))
        return 0
    begin = reported = time.monotonic()
    counts, wrong, sets = Counter[tuple[str, str]](), Counter[str](), Counter[frozenset[Feature]]()
    numbers = range(given.seed, given.seed + given.questions)
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for number, outcome in pool.imap_unordered(partial(numbered, only=given.only), numbers, chunksize=8):
            counts[outcome.kind, outcome.how] += 1
            sets[outcome.features] += 1
            if outcome.flaws:
                wrong[outcome.kind] += 1
                print(
                    f"DISAGREEMENT {number} ({outcome.kind}): {'; '.join(outcome.flaws)}", file=sys.stderr, flush=True
                )
            if time.monotonic() - reported > 10:
                reported, done, bad = time.monotonic(), sum(counts.values()), sum(wrong.values())
                print(f"{reported - begin:7.0f} s  {done} questions  {bad} wrong", file=sys.stderr)
    print("kind            questions   oracle gave up   refused   disagreements")
    for kind in KINDS:
        asked, silent, refused = (counts[kind, how] for how in ("", GAVE_UP, REFUSED))
        print(f"{kind:14} {asked + silent + refused:10} {silent:16} {refused:9} {wrong[kind]:15}")
    if given.features:
        print_features(sets)
    total = sum(counts.values())
    print(f"{total} questions in {time.monotonic() - begin:.0f} s, {sum(wrong.values())} disagreements")
    return 1 if wrong else 0


def print_features(sets: Counter[frozenset[Feature]]) -> None:
    """How many questions that were answered had a pair of features, by pair, and how many had three or more."""
    pairs = Counter[frozenset[Feature]]()
    for some, count in sets.items():
        pairs.update({frozenset(pair): count for pair in combinations(some, 2)})
    print()
    for pair, count in sorted(pairs.items(), key=lambda row: -row[1]):
        print(f"{count:8}  {', '.join(sorted(one.called for one in pair))}")
    many = sum(count for some, count in sets.items() if len(some) > 2)
    print(f"{many} questions of three features or more, {sum(len(some) > 2 for some in sets)} different sets")


if __name__ == "__main__":
    sys.exit(main())
