"""The list of what `make test` leaves to `make test-all`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINES = [line for line in (ROOT / "tests" / "default_run.txt").read_text().splitlines() if line[:1] != "#"]


@pytest.mark.parametrize("line", LINES)
def test_every_line_is_about_a_test_that_is_there(line):
    count, path, name = re.fullmatch(r" *(\d+) (\S+\.py)::(\w+)", line).groups()
    assert int(count) >= 0
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.M)


def test_no_test_is_there_twice():
    names = [line.split()[1] for line in LINES]
    assert names == sorted(set(names))
