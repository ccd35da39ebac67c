"""Scenarios of ASlib: files as its readers want them, and every run in its place."""

from __future__ import annotations

import zlib

import pytest
import yaml

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bench.columns import STATUSES, empty_row
from moccasin_mzn.bench.export import RUN_STATUS, export_aslib
from moccasin_mzn.bench.features import STEPS, features
from moccasin_mzn.bench.store import Store
from moccasin_mzn.graphs.formats.node_link import graph_text
from moccasin_mzn.graphs.generators.families import random_dag
from moccasin_mzn.problem.instance import Instance

GRAPHS = {f"digest {seed}": random_dag(9, seed=seed) for seed in range(12)}


def row(digest, budget, method, status, seconds, seed=1, **more):
    return {
        **empty_row(), "key": f"{digest} {budget} {method} {seed} {more}", "experiment": "e f",
        "graph": f"'{digest}', %", "graph_digest": digest, "budget": str(budget), "budget_amount": budget,
        "method": method, "seed": seed, "status": status, "valid": status in ("optimal", "feasible"),
        "seconds": seconds + 1, "solve_seconds": seconds, "time_limit": 20.0, "max_computations": "2",
        "memory_limit": 2**30, "objective": "duration", **more,
    }  # fmt: skip


def rows():
    for number, digest in enumerate(GRAPHS):
        yield row(digest, 90, "cp-sat: a", "optimal", 0.0 if number == 0 else number)
        yield row(digest, 90, "cp-sat: a", "optimal", 21.5, seed=7)  # past its limit
        yield row(digest, 90, "cp-sat, a", STATUSES[number % len(STATUSES)], 3.5)
    yield row("digest 0", 80, "dtr", "feasible", 0.1, seed=None, max_computations=None)
    yield row("digest 0", 80, "paging", "optimal", 0.1, extension="paging")


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "s.sqlite") as made:
        made.add_graphs({name: zlib.compress(graph_text(graph).encode()) for name, graph in GRAPHS.items()})
        for one in rows():
            made.add(one)
        yield made


def read_arff(path):
    """Relation, attributes with their kinds, and lines of values checked by them: plain values, neither quoted nor
    missing."""
    lines = [line for line in path.read_text(encoding="ascii").splitlines() if line]
    assert lines[0].startswith("@RELATION ") and lines.count("@DATA") == 1
    data = lines.index("@DATA")
    attributes = dict(line.removeprefix("@ATTRIBUTE ").split(" ", 1) for line in lines[1:data])
    table = [dict(zip(attributes, line.split(","), strict=True)) for line in lines[data + 1 :]]
    for values in table:
        for name, kind in attributes.items():
            if kind == "NUMERIC":
                values[name] = float(values[name])
            elif kind.startswith("{"):
                assert values[name] in kind.strip("{}").split(", ")
            else:
                assert kind == "STRING" and values[name] and not set(values[name]) & set(" ,'\"%{}?")
    return attributes, table


def scenario(folder):
    """The files, held against what readers of ASlib check."""
    tables = {path.stem: read_arff(path) for path in folder.glob("*.arff")}
    about = yaml.safe_load((folder / "description.txt").read_text())
    assert set(tables) == {"algorithm_runs", "feature_values", "feature_runstatus", "feature_costs", "cv"}
    assert list(tables["algorithm_runs"][0]) == ["instance_id", "repetition", "algorithm", "PAR10", "runstatus"]
    assert (about["performance_measures"], about["performance_type"], about["maximize"]) == (
        ["PAR10"],
        ["runtime"],
        [False],
    )
    provided = [name for step in about["feature_steps"].values() for name in step["provides"]]
    assert list(tables["feature_values"][0]) == ["instance_id", "repetition", *provided]
    assert about["features_deterministic"] == provided and about["default_steps"] == list(about["feature_steps"])
    for name in ("feature_runstatus", "feature_costs"):
        assert list(tables[name][0]) == ["instance_id", "repetition", *about["feature_steps"]]
    assert list(tables["cv"][0]) == ["instance_id", "repetition", "fold"]
    instances = {values["instance_id"] for values in tables["algorithm_runs"][1]}
    for name in set(tables) - {"algorithm_runs"}:
        assert sorted(values["instance_id"] for values in tables[name][1]) == sorted(instances)
    pairs = {(values["instance_id"], values["algorithm"]) for values in tables["algorithm_runs"][1]}
    assert pairs == {(instance, method) for instance in instances for method in about["metainfo_algorithms"]}
    every = [(one["instance_id"], one["algorithm"], one["repetition"]) for one in tables["algorithm_runs"][1]]
    assert len(set(every)) == len(every)
    return about, {name: table for name, (_, table) in tables.items()}


def test_a_scenario_has_every_run_and_what_readers_want(store, tmp_path):
    export_aslib(store, tmp_path / "out")
    about, tables = scenario(tmp_path / "out")
    assert (about["scenario_id"], about["algorithm_cutoff_time"], about["algorithm_cutoff_memory"]) == ("e_f", 20, 1024)
    deterministic = {name: one["deterministic"] for name, one in about["metainfo_algorithms"].items()}
    assert deterministic == {"cp-sat_a": False, "cp-sat_a_2": False, "dtr": True}
    found = {(one["instance_id"], one["algorithm"], one["repetition"]): (one["PAR10"], one["runstatus"])
             for one in tables["algorithm_runs"]}  # fmt: skip
    for number, status in zip(range(1, 12), [*STATUSES, *STATUSES][1:], strict=False):
        name = f"digest_{number}_90"
        assert found[name, "cp-sat_a", 1] == (number, "ok") and found[name, "cp-sat_a", 2] == (20, "timeout")
        kind = RUN_STATUS[status]
        assert found[name, "cp-sat_a_2", 1] == (3.5 if kind == "ok" else 20, kind)
        assert found[name, "dtr", 1] == (20, "other")
    assert found["digest_0_80", "dtr", 1] == (20, "timeout") and found["digest_0_80", "cp-sat_a", 1] == (20, "other")
    assert found["digest_0_90", "cp-sat_a", 1] == (0.001, "ok")


def test_features_are_of_graph_and_budget_and_folds_keep_graphs_together(store, tmp_path):
    export_aslib(store, tmp_path / "out")
    _, tables = scenario(tmp_path / "out")
    values = {one.pop("instance_id"): one for one in tables["feature_values"]}
    for name, digest, budget in (("digest_3_90", "digest 3", 90), ("digest_0_80", "digest 0", 80)):
        expected, _ = features(Instance.build(GRAPHS[digest], budget))
        assert values[name] == pytest.approx({"repetition": 1, **expected})
    folds = {one["instance_id"]: one["fold"] for one in tables["cv"]}
    assert folds["digest_0_80"] == folds["digest_0_90"] and set(folds.values()) == set(range(1, 11))
    assert all(0 <= one[step] < 60 for one in tables["feature_costs"] for step in STEPS)


def test_all_statuses_have_one_of_aslib():
    assert set(RUN_STATUS) == set(STATUSES)


def test_what_makes_no_scenario_is_refused_in_a_line(store, command, tmp_path):
    path, out = store.path, tmp_path / "out"
    store.add(row("digest 0", 70, "m", "optimal", 1.0, experiment="g"))
    asked = ("bench", "export", path, "-o", out, "--format", "aslib")
    for more, expected in (
        ((), "of which experiment? give --experiment, one of 'e f', 'g'"),
        (("--experiment", "h"), "there is no experiment 'h'"),
    ):
        status, _, errors = command(*asked, *more)
        assert status == 2 and expected in errors and errors.count("\n") == 1
    assert not out.exists()
    assert command(*asked, "--experiment", "g")[:2] == (0, f"{out}: 7 files\n")
    status, _, errors = command(*asked, "--experiment", "g")
    assert status == 2 and "the folder is not empty" in errors
    status, _, errors = command("bench", "export", path, "-o", tmp_path / "x.csv", "--experiment", "g")
    assert status == 2 and "--experiment is for --format aslib" in errors
    with Store.create(tmp_path / "bare.sqlite") as bare:
        with pytest.raises(InputError, match="there are no runs of schedules"):
            export_aslib(bare, out)
        bare.add(row("digest 0", 70, "m", "optimal", 1.0))
        with pytest.raises(InputError, match="is not in this older store; bench run of its experiment adds it"):
            export_aslib(bare, tmp_path / "other")
    assert not (tmp_path / "other").exists()
