"""`solve --certificate` and `check-certificate`, as a person meets them."""

from __future__ import annotations

import json
import os

import pytest
from tiny_graphs import SKIP as GRAPH

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.bounds.certificates.document import certificate, certificate_text, prove
from moccasin_mzn.problem.judges.certificates import Trust
from moccasin_mzn.search import certifying
from moccasin_mzn.search.certifying import certificate_of


@pytest.fixture
def proof(tmp_path):
    path = tmp_path / "c.json"
    trust = Trust("CP-SAT", "with at most 2 computations per node", 14)
    path.write_text(certificate_text(certificate(prove(GRAPH, 8, 14, lambda: True), (0, 1, 2, 3, 0, 4), [trust])))
    return path


@pytest.mark.parametrize("order", ["input", "free"])
def test_a_schedule_and_its_proof(command, graph, tmp_path, order):
    path = tmp_path / "proof.json"
    status, _, err = command("solve", graph, "--budget", 8, "--order", order, "--certificate", path)
    assert status == 0
    assert err.splitlines()[-1] == (
        f"certificate: {path} proves a bound of 14, which the schedule meets, for any order and any number of "
        "computations"
    )
    status, out, err = command("check-certificate", graph, path)
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "schedule: duration 14, 55.5556 % more, within the budget 8"
    assert out.splitlines()[1].startswith("proven: optimal: no schedule is shorter, any order, any number of comp")
    assert len(out.splitlines()) == 2
    told = json.loads(command("check-certificate", graph, path, "--json")[1])
    assert (told["duration"], told["bound"], told["gap_percent"], told["certified"]) == (14, 14, 0.0, 1.0)
    assert told["scope"] == "any order, any number of computations" and told["trusted"] == []


def test_the_schedule_is_written_before_the_proof_begins(command, graph, tmp_path, monkeypatch):
    schedule, path, there = tmp_path / "schedule.json", tmp_path / "proof.json", []

    def watched(*arguments):
        there.append(schedule.exists())
        return certificate_of(*arguments)

    monkeypatch.setattr(certifying, "certificate_of", watched)
    status, _, err = command("solve", graph, "--budget", 8, "--certificate", path, "--output", schedule)
    assert (status, there, path.exists()) == (0, [True], True)
    assert "proving a bound for the certificate, at most 60 s; Ctrl-C ends it\n" in err


def test_there_being_no_schedule_is_proven_too(command, graph, tmp_path):
    path = tmp_path / "proof.json"
    status, _, err = command("solve", graph, "--budget", 7, "--certificate", path)
    assert status == 1
    assert f"certificate: {path} proves that there is no schedule for any order and any number of computations" in err
    status, out, _ = command("check-certificate", graph, path)
    assert status == 0 and out.startswith("proven: infeasible: no schedule fits the budget 7, any order")
    assert json.loads(path.read_text())["schedule"] is None


def test_what_is_not_proven_is_taken_on_trust(command, graph, proof):
    """A proof that had no time."""
    status, out, _ = command("check-certificate", graph, proof)
    assert status == 0 and out.splitlines()[1:] == [
        "proven: no schedule is shorter than 9: gap 35.7 %, 0.00 % of what recomputation adds, any order, any number "
        "of computations (0 inequalities, 1 case)",
        "trusted: CP-SAT: no schedule is shorter than 14, with at most 2 computations per node",
    ]


def test_a_strategy_has_a_certificate(command, graph, tmp_path):
    path = tmp_path / "proof.json"
    status, _, _ = command("solve", graph, "--budget", 8, "--strategy", "chen-greedy", "--certificate", path)
    out = command("check-certificate", graph, path)[1]
    assert ("schedule: " in out) == (status == 0) and "trusted" not in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "c.json: the file is empty"),
        ("{", "c.json: line 1 column 2"),
        ("[1, 2]", "c.json: the certificate is a list"),
        ('{"format": NaN}', "c.json: NaN is not a JSON number"),
        ('{"format": 1, "format": 2}', 'c.json: key "format" is given twice'.replace('"', "'")),
        ("[" * 100_000, "c.json: nested too deeply"),
        ('{"budget": ' + "1" * 10_000 + "}", "c.json: an integer has too many digits"),
        (b"\xff\xfe", "c.json: line 1: byte 0xff is not UTF-8"),
    ],
)
def test_check_certificate_refuses_other_files(command, graph, proof, text, message):
    proof.write_bytes(text if isinstance(text, bytes) else text.encode())
    status, out, err = command("check-certificate", graph, proof)
    assert (status, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1
    assert message in err


def test_check_certificate_refuses_a_damaged_certificate(command, graph, proof):
    document = json.loads(proof.read_text())
    proof.write_text(json.dumps({**document, "bound": 10}))
    status, out, err = command("check-certificate", graph, proof)
    told = Page.CERTIFICATES.after(f"{proof}: tree[0]: proves 9, not 10")
    assert (status, out, err) == (2, "", f"error: {told}\n")
    assert command("check-certificate", graph, "nowhere.json")[0] == 2


SEVERAL = {
    "paging": ("--budget", 8, "--paging", "--page-out-time", 1),
    "devices": ("--device", "gpu=8", "--device", "cpu=inf:inf", "--copy-time", "1"),
    "pools": ("--memory", "fast=7", "--memory", "slow=2:1"),
    "energy": ("--budget", 8, "--paging", "--page-out-time", 0, "--page-out-energy", 1, "--objective", "energy"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SEVERAL)
def test_certificates_of_plans_bound_them_in_one_memory(command, graph, tmp_path, kind):
    path = tmp_path / "proof.json"
    how = ("--iterations", 200, "--search", "only", "--certificate", path, "--json")
    status, out, err = command("solve", graph, *SEVERAL[kind], *how)
    found, goal = json.loads(out), "energy" if kind == "energy" else "duration"
    assert status == 0 and "proves a bound of " in err
    status, out, err = command("check-certificate", graph, path)
    assert (status, err) == (0, "") and out.startswith("about: the graph in plans on ") and f"plan: {goal} " in out
    told = json.loads(command("check-certificate", graph, path, "--json")[1])
    assert (told["goal"], told["of_plans"], told["duration"]) == (goal, True, found[goal])
    assert told["bound"] <= found[goal]
    if kind != "pools":  # where outputs must lie in the slow memory, which a bound of both together knows nothing of
        assert told["bound"] == found[goal] > told["once"] and f"proven: optimal: no plan has less {goal}" in out
    document = json.loads(path.read_text())
    document["memories"]["memories"][0]["budget"] += 100
    path.write_text(json.dumps(document))
    status, out, err = command("check-certificate", graph, path)
    assert (status, out) == (2, "") and "but that of the memories is 1" in err


def test_certificates_are_for_one_budget(command, graph, tmp_path):
    status, out, err = command("frontier", graph, "--certificate", tmp_path / "proof.json")
    assert (status, out) == (2, "") and "--certificate" in err and not os.path.exists(tmp_path / "proof.json")
