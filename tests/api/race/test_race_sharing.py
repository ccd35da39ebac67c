"""How threads, time and cores are shared out."""

import os
import subprocess
import sys

import psutil
import pytest

from moccasin_mzn.api.race.racer import least_busy_cores, pinned, slice_seconds, thread_share


@pytest.mark.parametrize(
    ("threads", "parallel", "expected"),
    [
        (2, [True], [2]),
        (2, [True, True], [1, 1]),
        (5, [True, True, True], [2, 2, 1]),
        (16, [False, True, True, True], [1, 5, 5, 5]),
        (8, [True, False, True], [3, 1, 4]),
        (2, [True, True, True], [1, 1, 1]),
    ],
)
def test_threads_of_those_that_start_together(threads, parallel, expected):
    shares = []
    for k, able in enumerate(parallel):
        shares.append(thread_share(threads - sum(shares), len(parallel) - k, able))
    assert shares == expected


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("racers", [1, 2, 3, 5, 8])
def test_slices_use_up_the_time_and_are_fair(racers, slots):
    limit, free_at, given = 60.0, [0.0] * slots, []
    for k in range(racers):
        begin = min(free_at)
        seconds = slice_seconds(limit - begin, racers - k, slots)
        free_at[free_at.index(begin)] = begin + seconds
        given.append(seconds)
    assert max(free_at) == pytest.approx(limit)
    assert min(free_at) == pytest.approx(limit) or racers < slots
    assert min(given) >= limit / -(-racers // slots) - 1e-9


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not pin processes")
def test_pinned_is_for_a_while_and_for_what_starts_meanwhile():
    before = os.sched_getaffinity(0)
    cores = least_busy_cores(1)
    if len(before) == 1:
        assert cores is None
        return
    code = "import os; print(*os.sched_getaffinity(0))"
    with pinned(cores):
        inside = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert len(cores) == 1 and cores < before
    assert set(map(int, inside.split())) == cores
    assert os.sched_getaffinity(0) == before
    assert least_busy_cores(len(before)) is None
    assert least_busy_cores(psutil.cpu_count() + 1) is None
