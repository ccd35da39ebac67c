"""Plans for runtimes: what is written reads back the same, by this program and by the schema; damage is refused."""

from __future__ import annotations

import copy
import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from platform_support import DIAMOND, PLAN, platform
from strategies import graphs, valid_sequences

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.problem.arena import Arena
from moccasin_mzn.problem.files.plan_format import runtime_plan, schema, versioned
from moccasin_mzn.problem.files.schedules import check_torch_version
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.placing import placing_of, placings_of
from moccasin_mzn.problem.plan_problem import PlanArenas, PlanProblem
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.problem import answer_document
from moccasin_mzn.problem.runtime_plan import RuntimePlan


def stacked(buffers, step=1) -> Arena:
    """Every buffer above all before it."""
    offsets, top = [], 0
    for buffer in buffers:
        offsets.append(top)
        top += -(-buffer.size // step) * step
    return Arena(buffers, offsets, step)


def schedule_document(graph, sequence, placed=True, step=1):
    instance = Instance.build(graph, 10**6, max_computations="unlimited")
    simulation = instance.judge(sequence)
    arena = stacked(placing_of(graph, simulation).buffers, step) if placed else None
    return versioned(graph, sequence, {"graph": graph.name, **answer_document(instance, sequence, simulation, arena)})


def plan_document(placed=True):
    problem = PlanProblem(Instance.build(DIAMOND, 100), platform())
    simulation = judge_plan(problem.platform, PLAN)
    arenas = (
        PlanArenas(tuple(stacked(one.buffers, 4) for one in placings_of(problem.platform, simulation)))
        if placed
        else None
    )
    return versioned(DIAMOND, PLAN, answer_document(problem, PLAN, simulation, arenas))


def by_schema(document):
    """Does the schema accept it?"""
    return jsonschema.Draft202012Validator(schema()).is_valid(document)


@given(st.data())
def test_schedule_files_are_read_back(data):
    graph = data.draw(graphs())
    sequence = data.draw(valid_sequences(graph))
    placed, step = data.draw(st.booleans()), data.draw(st.integers(1, 8))
    document = json.loads(json.dumps(schedule_document(graph, sequence, placed, step)))
    found = runtime_plan(document, graph)
    assert [action.node for action in found.actions(graph)] == [*sequence]
    offsets = [of["offset"] for of in document["intervals"]] if placed else None
    assert found == RuntimePlan.of(graph, plan_of_sequence(sequence), offsets=offsets, alignment=step if placed else 1)
    assert found == runtime_plan(document)  # all of it is in the file
    assert not placed or found.arenas == (document["arena"],)


@pytest.mark.parametrize("placed", [True, False])
def test_plan_files_are_read_back(placed):
    document = json.loads(json.dumps(plan_document(placed)))
    found = runtime_plan(document, DIAMOND)
    assert found.actions(DIAMOND) == PLAN and found.memories == ("local", "slow")
    assert [step.reads for step in found.steps] == [(), (0,), (0,), (2,), (1,), (4, 3)]
    assert found == runtime_plan(document) and found.placed == placed


@pytest.mark.parametrize("document", [plan_document(), plan_document(False), schedule_document(DIAMOND, (0, 1, 2, 3))])
def test_the_schema_accepts_what_is_written(document):
    assert by_schema(json.loads(json.dumps(document)))


def test_without_an_answer_there_is_no_plan():
    document = versioned(DIAMOND, None, {"sequence": None, "intervals": None})
    assert document["format"] is None and document["size_unit"] == "unit"
    with pytest.raises(InputError, match="no plan for runtimes"):
        runtime_plan(document)


SCHEDULE = schedule_document(DIAMOND, (0, 1, 0, 2, 3))
"""a b a c d: sizes 8 4 8 2 1, offsets 0 8 12 20 22."""
SEVERAL = json.loads(json.dumps(plan_document()))
NO = object()
DAMAGE = {
    "format": (SCHEDULE, ["format"], "moccasin_mzn plane", "expected an object whose"),
    "version": (SCHEDULE, ["version"], 2, "plan of version 2, this program reads 1"),
    "version as text": (SCHEDULE, ["version"], "1", "plan of version '1'"),
    "no digest": (SCHEDULE, ["graph_digest"], NO, "graph_digest None: expected 64"),
    "digest of another graph": (SCHEDULE, ["graph_digest"], "0" * 64, "plan of the graph 000000000000, this graph"),
    "both kinds": (SCHEDULE, ["plan"], [], 'expected one of "sequence" and "plan"'),
    "no sequence": (SCHEDULE, ["sequence"], NO, 'expected one of "sequence" and "plan"'),
    "a step less": (SCHEDULE, ["sequence", 4], NO, "intervals: 5 for 4 steps"),
    "another node": (SCHEDULE, ["sequence", 2], "b", r"intervals\[2\]: node, start, memory"),
    "a later start": (SCHEDULE, ["intervals", 1, "start"], 3, r"intervals\[1\]: node, start, memory"),
    "no size": (SCHEDULE, ["intervals", 1, "size"], NO, r'intervals\[1\]: expected a key "size"'),
    "a negative size": (SCHEDULE, ["intervals", 1, "size"], -4, r"step 2 \(node b\): size -4 is not"),
    "two sizes of a node": (SCHEDULE, ["intervals", 2, "size"], 7, r"step 3 \(node a\): size 7, before that 8"),
    "a size that the graph has not": (
        SCHEDULE,
        ["intervals", 1, "size"],
        3,
        r"step 2 \(node b\): size 3, by the graph 4",
    ),
    "freed too early": (
        SCHEDULE,
        ["intervals", 0, "end"],
        1,
        r"step 1 \(node a\): retained until step 1, but it is last",
    ),
    "held too long": (SCHEDULE, ["intervals", 4, "end"], 6, r"step 5 \(node d\): end 6 is not an integer from 5 to 5"),
    "end as text": (SCHEDULE, ["intervals", 0, "end"], "2", r"intervals\[0\]: end '2'"),
    "reads what comes later": (SCHEDULE, ["intervals", 1, "reads"], [3], r"step 2 \(node b\): reads step 3, expected"),
    "reads an older copy": (SCHEDULE, ["intervals", 4, "reads"], [1, 4], "but step 3 wrote it again since"),
    "reads too little": (
        SCHEDULE,
        ["intervals", 4, "reads"],
        [3],
        r"step 4 \(node c\): retained until step 5, but nothing",
    ),
    "overlap": (SCHEDULE, ["intervals", 1, "offset"], 4, "step 1 overlap at addresses: 0..7 and 4..7"),
    "a negative offset": (SCHEDULE, ["intervals", 1, "offset"], -1, "offset -1 is not an integer from 0"),
    "an offset less": (SCHEDULE, ["intervals", 1, "offset"], NO, r"step 2 \(node b\): offset is missing"),
    "misaligned": (SCHEDULE, ["alignment"], 8, "offset 12 is not a multiple of 8"),
    "alignment": (SCHEDULE, ["alignment"], 0, "alignment 0 is not a positive integer"),
    "arena": (SCHEDULE, ["arena"], 22, "arena 22, the steps end at 23"),
    "peak": (SCHEDULE, ["peak"], 3, "peak claimed is 3, but the sequence has peak 14"),
    "unknown memory": (SEVERAL, ["plan", 0, "in"], "fast", r"intervals\[0\]: unknown memory 'fast'"),
    "copy of another node": (SEVERAL, ["intervals", 4, "reads"], [], r"step 5 \(node a\): copies \[\], expected the"),
    "interval elsewhere": (SEVERAL, ["intervals", 1, "memory"], "local", r"intervals\[1\]: node, start, memory"),
    "no platform": (SEVERAL, ["platform"], None, "platform.memories: expected a list of objects"),
    "one name for two": (SEVERAL, ["platform", "memories", 1, "name"], "local", "expected texts that differ"),
    "arena of a memory": (SEVERAL, ["arenas", "slow", "arena"], 9, "arena 9 of slow, the steps end at 8"),
    "a link less": (SEVERAL, ["platform", "links", 0], NO, "position 2: nothing can be copied from local to slow"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_plan_files_are_refused_in_one_line(name):
    document, path, value, message = DAMAGE[name]
    document = copy.deepcopy(document)
    *parents, key = path
    inner = document
    for parent in parents:
        inner = inner[parent]
    if value is NO:
        del inner[key]
    else:
        inner[key] = value
    with pytest.raises(InputError, match=message) as caught:
        runtime_plan(document, DIAMOND)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["format", "version", "no digest", "no sequence", "no size", "a negative size"])
def test_the_schema_refuses_what_it_can_see(name):
    document, path, value, _ = DAMAGE[name]
    document = json.loads(json.dumps(document))
    *parents, key = path
    inner = document
    for parent in parents:
        inner = inner[parent]
    inner.pop(key)
    if value is not NO:
        inner[key] = value
    assert not by_schema(document)


def test_what_solve_writes_is_a_plan(command, tmp_path):
    from moccasin_mzn.graphs.formats import write_graph

    graph, plan = tmp_path / "graph.json", tmp_path / "plan.json"
    write_graph(DIAMOND, graph)
    options = ("--budget", "100%", "--search", "only", "--time-limit", 2, "--threads", 1, "--addresses")
    status, *_ = command("solve", graph, *options, "--output", plan)
    assert status == 0 and runtime_plan(json.loads(plan.read_text()), DIAMOND).arenas == (14,)
    status, out, _ = command("validate", graph, plan)
    assert status == 0 and out.startswith("valid")
    document = json.loads(plan.read_text())
    document["intervals"][-1]["reads"].reverse()
    plan.write_text(json.dumps(document))
    status, out, _ = command("validate", graph, plan)
    assert status == 1 and out.startswith("invalid: step 4 (node d): reads [3, 1], by the graph [1, 3]")


@pytest.mark.parametrize("form", ["moccasin_mzn PyTorch plan", "moccasin_mzn plan 1"])
def test_plans_of_pytorch_are_distinguished(form, command, tmp_path):
    from moccasin_mzn.graphs.formats import write_graph

    graph, plan, new = (tmp_path / name for name in ("graph.json", "plan.json", "plan.h"))
    write_graph(DIAMOND, graph)
    plan.write_text(json.dumps({"format": form, "version": 1, "sequence": ["a", "b", "c", "d"]}))
    told = "a plan of a PyTorch training step, for `run torch --plan` and `Plan.load`; expected what `solve --output` "
    told += "writes (see The plan format: docs/deploy.md#the-plan-format)"
    for arguments in (
        ("validate", graph, plan),
        ("plot", graph, plan, "--output", tmp_path / "picture.svg"),
        ("solve", graph, "--budget", "100%", "--warm-start", plan),
        ("deploy", "c-header", plan, "-o", new),
    ):
        assert command(*arguments) == (2, "", f"error: {plan}: {told}\n")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (SCHEDULE, "a plan for runtimes, as `solve --output` writes it; expected one of a PyTorch training step"),
        (["a"], "no plan of a PyTorch training step"),
        ({"format": "moccasin_mzn PyTorch plan", "version": 2}, "PyTorch plan of version 2, this program reads 1"),
        ({"format": "moccasin_mzn PyTorch plan"}, "PyTorch plan of version None, this program reads 1"),
    ],
)
def test_what_is_no_plan_of_pytorch_is_distinguished(document, message):
    with pytest.raises(InputError, match=message):
        check_torch_version(document)


def test_plans_of_pytorch_without_a_version_still_read():
    check_torch_version({"format": "moccasin_mzn plan 1"})
