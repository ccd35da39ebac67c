"""Commands that are hard to end, and a look at what is left of them."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time

import psutil
import pytest

from moccasin_mzn.graphs.graph import ComputationGraph

TREE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def stay():
    print(os.getpid(), flush=True)
    time.sleep(600)
if os.fork() == 0:
    stay()
if os.fork() == 0:
    os.setsid()
    stay()
if os.fork() == 0:  # a daemon: a new session, and no parent
    os.setsid()
    if os.fork() == 0:
        stay()
    os._exit(0)
if "leave" in sys.argv:
    time.sleep(float(sys.argv[-1]))
    os._exit(0)
stay()
"""
"""A child, one in another session, and a daemon; all ignore SIGTERM. Each prints its pid. With `leave SECONDS` they are
left behind."""


def python(code, *arguments):
    """The command line of a piece of Python, with `arguments`."""
    return [sys.executable, "-c", code, *map(str, arguments)]


def survivors(mark):
    """Command lines of the live processes with `mark` in their command line or environment, this one aside."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            about = [*process.cmdline(), *process.environ().values()]
            if any(mark in text for text in about):
                found.append((process.pid, " ".join(process.cmdline())))
    return found


def assert_gone(mark, seconds=10.0):
    """Nothing with the mark lives any more, a moment from now at the latest."""
    end = time.monotonic() + seconds
    while survivors(mark) and time.monotonic() < end:
        time.sleep(0.05)
    assert survivors(mark) == []


def wait_until(condition, seconds=20.0):
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail("it does not happen")
        time.sleep(0.02)


def hard_graph(n=150, span=40):
    """A random graph on which an incumbent comes quickly, and a proof at 90 % of the peak does not."""
    draw = random.Random(1)
    edges = sorted({(u, v) for v in range(1, n) for u in draw.sample(range(max(0, v - span), v), min(v, 2))})
    amounts = [[draw.randint(1, 99) for _ in range(n)] for _ in range(2)]
    return ComputationGraph(tuple(range(n)), tuple(amounts[0]), tuple(amounts[1]), tuple(edges), tuple(range(n)))
