"""The clock of a search."""

from __future__ import annotations

import time

from moccasin_mzn.clock import Deadline


def test_without_a_limit_it_is_never_over():
    forever = Deadline()
    assert not forever.over() and forever.remaining() is None and forever.part(0.5).seconds is None


def test_what_is_left(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    deadline = Deadline(10, begin=98.0)
    assert (deadline.elapsed(), deadline.remaining(), deadline.remaining(0.5), deadline.over()) == (2, 8, 3, False)
    part = deadline.part(0.25)
    assert (part.begin, part.seconds, part.over(), part.over(0.0)) == (100, 2, False, True)
    now = 109.0
    assert (deadline.remaining(), deadline.over(), deadline.remaining(), deadline.part(0.5).seconds) == (0, True, 0, 0)
    assert part.over() and deadline.over(0.5)
