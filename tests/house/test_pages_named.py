"""The pages that messages name are there, with their headings; and the messages that people are likeliest to meet name
one."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec

import pytest
from documents import ROOT, page

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained
from moccasin_mzn.base.extras import install_command
from moccasin_mzn.pytorch.errors import NoPlanError, PlanError


@pytest.mark.parametrize("named", Page)
def test_a_page_is_there_with_its_heading(named):
    name, _, anchor = named.address.partition("#")
    text = (ROOT / name).read_text(encoding="utf-8")
    level = "##+" if anchor else "#"
    assert re.search(rf"^{level} {re.escape(named.heading)}$", text, re.M)
    assert not anchor or anchor in page(name).anchors


def test_every_page_is_named_by_a_message():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "moccasin_mzn").rglob("*.py")]
    used = set(re.findall(r"\bPage\.([A-Z_]+)\b", "".join(sources)))
    assert used == {named.name for named in Page}


def test_a_message_names_one_page():
    once = Page.INSTALL.after("none")
    assert once == "none (see Install: docs/user-guide.md#install)" == Page.GUIDE.after(once)
    with pytest.raises(InputError) as caught, explained(Page.GUIDE), explained(Page.INSTALL), explained(None):
        raise InputError("none")
    assert str(caught.value) == once


GRAPH = ROOT / "data" / "unet_training.json"
TOLD = {
    ("solve", GRAPH, "--budget", "0.4"): Page.INFEASIBLE,
    ("solve", GRAPH, "--budget", "0.8", "--strategy", "keep-all"): Page.INFEASIBLE,
    ("solve", GRAPH, "--budget", "0.8x"): Page.AMOUNTS,
    ("solve", GRAPH, "--budget", "much"): Page.AMOUNTS,
    ("solve", GRAPH, "--budget", "0.8", "--solver", "none"): Page.SOLVERS,
    ("solve", GRAPH, "--budget", "0.8", "--solver", "cp-sat@1"): Page.SOLVERS,
    ("solve", GRAPH, "--budget", "0.8", "--formulation", "none"): Page.FORMULATIONS,
    ("solve", GRAPH, "--budget", "0.8", "--strategy", "none"): Page.STRATEGIES,
    ("solve", GRAPH, "--budget", "0.8", "--strategy", "griewank"): Page.STRATEGIES,
    ("solve", GRAPH, "--device", "gpu"): Page.DEVICES,
    ("solve", GRAPH, "--budget", "0.8", "--model", "DAMAGED"): Page.OWN_MODEL,
    ("solve", "DAMAGED", "--budget", "0.8"): Page.GRAPH_FILES,
    ("validate", GRAPH, "DAMAGED"): Page.PLAN_FORMAT,
    ("plot", GRAPH, "DAMAGED"): Page.PLAN_FORMAT,
    ("solve", GRAPH, "--budget", "0.8", "--warm-start", "DAMAGED"): Page.PLAN_FORMAT,
    ("check-certificate", GRAPH, "DAMAGED"): Page.CERTIFICATES,
    ("allocate", "DAMAGED"): Page.ADDRESSES,
    ("bench", "run", "DAMAGED"): Page.EXPERIMENT,
}


@pytest.mark.parametrize("words", TOLD, ids=lambda words: " ".join(map(str, words[:1] + words[2:])))
def test_refusals_name_a_page(command, tmp_path, words):
    damaged = tmp_path / "damaged.mzn"
    damaged.write_text('{"nodes": [')
    status, _, err = command(*(damaged if word == "DAMAGED" else word for word in words))
    last = err.splitlines()[-1]
    assert status in (1, 2) and last.endswith(f" (see {TOLD[words].heading}: {TOLD[words].address})")
    assert last.count("(see ") == 1 and err.count("(see ") == 1


def test_a_missing_minizinc_is_reported_with_the_install_page(command, monkeypatch, tmp_path):
    from moccasin_mzn.solvers.minizinc import drivers

    monkeypatch.setattr(drivers, "_native_executables", lambda: iter(()))
    monkeypatch.setattr(drivers, "webassembly_driver", lambda: None)
    status, out, err = command("solve", GRAPH, "--budget", "0.8", "--search", "off")
    assert (status, out) == (2, "") and err.endswith(" (see Install: docs/user-guide.md#install)\n")


@pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is here")
def test_a_missing_extra_is_reported_with_the_install_page(command):
    status, _, err = command("import", "torch", "my:make", "--input", "1x3")
    told = f"importing PyTorch modules needs the package torch: {install_command('torch')}"
    assert (status, err) == (2, f"error: {Page.INSTALL.after(told)}\n")


def test_refusals_of_plans_for_pytorch_name_its_page():
    told = [str(PlanError("sparse")), str(PlanError("x", Page.SHAPES)), str(NoPlanError("budget 1 B"))]
    pages = [Page.REFUSED, Page.SHAPES, Page.NO_PLAN]
    assert [text.partition(": ")[2] for text in told] == [f"{each.address})" for each in pages]


def test_programs_get_the_same_keys(command, tmp_path):
    damaged = tmp_path / "damaged.json"
    damaged.write_text("{")
    status, out, _ = command("solve", damaged, "--budget", "0.8", "--json")
    assert status == 2 and set(json.loads(out)) == {"type", "kind", "message"}
    status, out, _ = command("solve", GRAPH, "--budget", "0.4", "--json")
    assert status == 1 and "(see " not in out


def test_help_names_pages(command):
    status, out, _ = command("--help")
    named = re.findall(r"^  (docs/\S+) +(.*)$", out.partition("Read on:\n")[2], re.M)
    assert status == 0 and len(named) == 4 and {Page(one[::-1]) for one in named} <= set(Page)
