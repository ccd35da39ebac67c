"""Costs of operators that are kept for later processes: whole, right, or not at all."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from step_networks import NETWORKS
from step_runs import made, planned

from moccasin_mzn.pytorch import kept_costs, planning
from moccasin_mzn.pytorch.kept_costs import MOST_CALLS, VARIABLE, KeptCosts, name_of, read, write
from moccasin_mzn.pytorch.operator_costs import OperatorCosts
from moccasin_mzn.pytorch.operator_process import Worker
from moccasin_mzn.pytorch.operator_worker import OperatorSettings

COSTS = {"a": (5, 0, 16), "b": (None, 7, 0), "c": (2**62, 2**62, 2**62)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "operators"))
    return tmp_path / "operators"


def test_what_one_process_keeps_another_one_has(folder):
    KeptCosts().keep({**COSTS, "": (1, 1, 1)})
    assert KeptCosts().of(["c", "nothing", "a", "", "b"]) == [COSTS["c"], None, COSTS["a"], None, COSTS["b"]]
    KeptCosts().keep({"b": (3, 7, 0)})
    assert KeptCosts().of("abc") == [COSTS["a"], (3, 7, 0), COSTS["c"]]
    assert sorted(each.suffix for each in folder.iterdir()) == [".json", ".lock"]


def test_a_file_that_is_not_as_it_was_written_counts_for_nothing(folder):
    KeptCosts().keep(COSTS)
    (path,) = folder.glob("*.json")
    good, chance = path.read_bytes(), random.Random(0)
    broken = [
        b"",
        b"\n",
        b"{}",
        b"null",
        b"\xff\xfe",
        good[:-1],
        good + b" ",
        good * 2,
        b"[" * 10**5,
        good.replace(b"16", b"17"),
    ]
    for _ in range(60):
        data, at = bytearray(good), chance.randrange(len(good))
        data[at] ^= 1 << chance.randrange(8)
        broken.append(bytes(data))
    for data in broken:
        path.write_bytes(data)
        assert KeptCosts().of(COSTS) == [None] * len(COSTS)
    KeptCosts().keep({"d": (1, 2, 3)})
    assert read(path) == {"d": (1, 2, 3)}
    path.unlink()
    path.mkdir()
    KeptCosts().keep(COSTS)  # cannot be written
    assert KeptCosts().of("a") == [None]


_KEEPING = """
import sys
from pathlib import Path
from moccasin_mzn.pytorch import kept_costs
kept_costs._path = lambda: Path(sys.argv[1])
for at in range(12):
    kept_costs.KeptCosts().keep({f"{sys.argv[2]} {at}": (at, at + 1, at + 2)})
"""


def test_processes_that_keep_at_the_same_time_leave_a_whole_file(tmp_path):
    path = tmp_path / "costs.json"
    write(path, COSTS)
    some = [subprocess.Popen([sys.executable, "-c", _KEEPING, str(path), str(own)]) for own in range(3)]
    while any(each.poll() is None for each in some):
        assert read(path).items() >= COSTS.items()  # at any moment
    assert [each.returncode for each in some] == [0, 0, 0]
    found = read(path)
    names = {f"{own} {at}": (at, at + 1, at + 2) for own in range(3) for at in range(12)}
    assert COSTS.items() <= found.items() <= {**COSTS, **names}.items() and len(found) > len(COSTS)
    assert {each.name for each in tmp_path.iterdir()} == {"costs.json", "writing.lock"}


def test_the_latest_calls_stay(folder, monkeypatch):
    monkeypatch.setattr(kept_costs, "MOST_CALLS", 5)
    for at in range(9):
        KeptCosts().keep({str(at): (at, 0, 0)})
    assert [at for at in range(9) if KeptCosts().of([str(at)])[0]] == [4, 5, 6, 7, 8] and MOST_CALLS > 1000


def test_it_can_be_turned_off(folder, monkeypatch):
    KeptCosts().keep(COSTS)
    monkeypatch.setenv(VARIABLE, "OFF")
    kept = KeptCosts()
    assert kept.of("a") == [None]
    kept.keep({"a": (9, 9, 9)})
    assert kept.of("a") == [None]
    monkeypatch.setenv(VARIABLE, str(folder))
    assert kept.of("a") == [COSTS["a"]]


def test_names_tell_apart_what_workspaces_depend_on(monkeypatch):
    now = OperatorSettings.current()
    others = [
        replace(now, threads=now.threads + 1), replace(now, onednn=not now.onednn),
        replace(now, matmul_precision="medium"), replace(now, deterministic=(True, False)),
    ]  # fmt: skip
    assert len({name_of(("aten.mm", settings), "cpu") for settings in (now, *others)}) == 1 + len(others)
    assert name_of(("aten.mm", now), "cpu") == name_of(("aten.mm", OperatorSettings.current()), "cpu:0")
    assert name_of(("aten.mm", object()), "cpu") == ""
    before = kept_costs._path()
    monkeypatch.setenv(VARIABLE, "folder")
    places = [kept_costs._path()]
    for name in ("OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR"):
        monkeypatch.setenv(name, "other")
        places.append(kept_costs._path())
    assert before is None and len(set(places)) == 4


def test_a_later_process_calls_no_operator_and_plans_the_same(folder, monkeypatch):
    called = []

    def counted(self, calls, *how):
        called.append(len(calls))
        return measured(self, calls, *how)

    measured = Worker.measured
    monkeypatch.setattr(Worker, "measured", counted)
    model, inputs = made(NETWORKS["mlp"])
    found = []
    for _ in range(2):
        monkeypatch.setattr(planning, "MEASURED_COSTS", OperatorCosts(kept=KeptCosts()))
        found.append((planned(model, inputs, 1.0).graph, sum(called)))
        called.clear()
    (first, some), (second, none) = found
    assert some > 3 and none == 0 and first == second
    assert os.listdir(folder)
