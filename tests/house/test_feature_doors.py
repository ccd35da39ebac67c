"""Pairs of features that nothing handles: the same sentence of commands, functions, experiments and deployments."""

from __future__ import annotations

from pathlib import Path

import pytest
from script_loading import load_script
from tiny_graphs import U_SHAPE

import moccasin_mzn as mz
from moccasin_mzn.api.modes import refuse_ways
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bench.methods import Method
from moccasin_mzn.problem.features import SEVERAL_MEMORIES, Feature

PAIRS = [(one, other) for one, other, _ in load_script("make_features_page").refused()]
WORDS = {
    Feature.IN_PLACE: ["--in-place"], Feature.ANY_ORDER: ["--order", "free"], Feature.OFFSETS: ["--addresses"],
    Feature.PAGING: ["--paging", "--page-out-time", "1"], Feature.DEVICES: ["--device", "gpu=9"],
    Feature.POOLS: ["--memory", "fast=9"], Feature.ITERATIONS: ["--iterations", "9", "--search", "only"],
    Feature.RACE: ["--solver", "cp-sat,gecode"], Feature.OWN_MODEL: ["--model", "own.mzn"],
    Feature.STRATEGY: ["--strategy", "dtr"], Feature.CERTIFICATE: ["--certificate", "proof.json"],
    Feature.ZERO_COPY: ["--zero-copy-concat"], Feature.TILE: ["--tile", "2"], Feature.LEAST: ["--budget", "least"],
    Feature.FRONTIER: [],
}  # fmt: skip
ARGUMENTS = {
    Feature.IN_PLACE: {"in_place": True}, Feature.ANY_ORDER: {"order": "free"}, Feature.OFFSETS: {"addresses": True},
    Feature.PAGING: {"paging": {"out_time": 1}}, Feature.DEVICES: {"devices": {"gpu": 9}},
    Feature.POOLS: {"memories": {"fast": 9}}, Feature.ITERATIONS: {"stop": mz.stop.Iterations(9)},
    Feature.RACE: {"solver": "cp-sat,gecode"}, Feature.OWN_MODEL: {"model": "own.mzn"},
    Feature.STRATEGY: {"strategy": "dtr"}, Feature.CERTIFICATE: {"certificate": "proof.json"},
    Feature.ZERO_COPY: {"zero_copy_concat": True}, Feature.TILE: {"tile": 2}, Feature.LEAST: {"budget": "least"},
    Feature.FRONTIER: {},
}  # fmt: skip
NOT_OF_FRONTIERS = {Feature.CERTIFICATE, Feature.LEAST, Feature.GOALS}
"""What the command and the function `frontier` do not have as an option."""
KEYS = {
    Feature.IN_PLACE: {"in_place": True}, Feature.ANY_ORDER: {"order": "free"}, Feature.OFFSETS: {"addresses": True},
    Feature.PAGING: {"paging": True, "page_out_time": 1}, Feature.DEVICES: {"device": "gpu"},
    Feature.POOLS: {"memory": "fast"}, Feature.ITERATIONS: {"iterations": 9, "search": "only"},
    Feature.RACE: {"solver": "cp-sat,gecode"}, Feature.OWN_MODEL: {"model": "own.mzn"},
    Feature.STRATEGY: {"strategy": "dtr"}, Feature.ZERO_COPY: {"zero_copy_concat": True}, Feature.TILE: {"tile": 2},
}  # fmt: skip
"""What methods of an experiment have: all but least budgets, frontiers and certificates."""
ASKED = [
    pair for pair in PAIRS
    if set(pair) <= set(WORDS) and not (Feature.FRONTIER in pair and NOT_OF_FRONTIERS.intersection(pair))
]  # fmt: skip


def sentence(pair) -> str:
    """What is refused, and why, without what may be left out."""
    with pytest.raises(InputError) as refused:
        refuse_ways(pair)
    return Page.before(str(refused.value)).partition(": leave out")[0]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    mz.write_graph(U_SHAPE, tmp_path / "graph.json")
    (tmp_path / "own.mzn").write_text('include "moccasin_staged.mzn";\n')
    return tmp_path


@pytest.mark.parametrize("pair", ASKED, ids=lambda pair: "-".join(one.name.lower() for one in pair))
def test_both_doors_say_the_same(pair, command, folder):
    name = "frontier" if Feature.FRONTIER in pair else "solve"
    budget = not SEVERAL_MEMORIES - {Feature.PAGING} & set(pair) and name == "solve" and Feature.LEAST not in pair
    words = [word for one in pair for word in WORDS[one]] + (["--budget", "6"] if budget else [])
    status, out, err = command(name, "graph.json", *words)
    assert (status, out, len(err.splitlines())) == (2, "", 1) and err.startswith(f"error: {sentence(pair)}"), err
    arguments = {"budget": 6} if budget else {}
    for one in pair:
        arguments |= ARGUMENTS[one]
    with pytest.raises(InputError) as refused:
        getattr(mz, name)("graph.json", **arguments)
    assert str(refused.value).startswith(sentence(pair))
    assert sorted(path.name for path in folder.iterdir()) == ["graph.json", "own.mzn"]


@pytest.mark.parametrize(
    "pair",
    [pair for pair in PAIRS if set(pair) <= set(KEYS)],
    ids=lambda pair: "-".join(one.name.lower() for one in pair),
)
def test_experiments_refuse_in_the_same_words(pair, folder):
    of_strategy = Feature.STRATEGY in pair
    options = {key: value for one in pair for key, value in KEYS[one].items()}
    with pytest.raises(InputError) as refused:
        Method("m", options, 1.0, 1, () if of_strategy else (1,))
    if not of_strategy:  # a rule has its own words for what is for models
        assert str(refused.value).startswith(sentence(pair))


@pytest.mark.parametrize("words", ["deploy c", "deploy tflite"])
def test_deployments_refuse_in_the_same_words(words, command, folder):
    options = ["--output", "new", "--budget", "9", "--zero-copy-concat", "--tile", "2"]
    status, out, err = command(*words.split(), "graph.json", *options)
    assert (status, out) == (2, "") and err.startswith(f"error: {sentence((Feature.ZERO_COPY, Feature.TILE))}"), err
    assert not (folder / "new").exists()
