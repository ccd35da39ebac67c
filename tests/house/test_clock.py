"""The clock of a search."""

from __future__ import annotations

import threading
import time

import pytest

from moccasin_mzn.base.clock import Deadline, own_seconds


def test_clock_without_a_limit_is_never_over():
    forever = Deadline()
    assert not forever.over() and forever.remaining() is None and forever.part(0.5).seconds is None


def test_clock_reports_the_time_left(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    deadline = Deadline(10, begin=98.0)
    assert (deadline.elapsed(), deadline.remaining(), deadline.remaining(0.5), deadline.over()) == (2, 8, 3, False)
    part = deadline.part(0.25)
    assert (part.begin, part.seconds, part.over(), part.over(0.0)) == (100, 2, False, True)
    now = 109.0
    assert (deadline.remaining(), deadline.over(), deadline.remaining(), deadline.part(0.5).seconds) == (0, True, 0, 0)
    assert part.over() and deadline.over(0.5)


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="no clock of a thread")
def test_cpu_clock_of_a_sleeping_thread_stands_still():
    spent, seen, begin = own_seconds(), [], time.thread_time()
    time.sleep(0.1)
    assert spent() < 0.1
    while time.thread_time() < begin + 0.02:
        pass
    reader = threading.Thread(target=lambda: seen.append(spent()))
    reader.start()
    reader.join()
    assert 0.01 < seen[0] < 1
