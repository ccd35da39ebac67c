"""Too little memory: one line that says so, and what is found is kept."""

import json
import subprocess
import sys
import threading
import time

import pytest
from few import few
from tiny_graphs import SKIP as GRAPH

from moccasin_mzn.base.errors import InputError, OutOfMemoryError, out_of_memory
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.runner import Runner, Searcher


def limited(mebibytes, *words):
    """Exit status, stdout and stderr of a command that may map so much."""
    script = f'ulimit -v {1024 * mebibytes} && exec "$@"'
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "moccasin_mzn", *map(str, words)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return answer.returncode, answer.stdout, answer.stderr


@pytest.mark.few(1)
@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v is heeded on Linux")
@pytest.mark.parametrize("mebibytes", few([50, 100, 200, 400, 500], keep={50, 200, 500}))
@pytest.mark.parametrize("words", ["solve", "order", "frontier"])
def test_a_limit_that_is_too_small_is_one_line(graph, tmp_path, mebibytes, words):
    output = tmp_path / "o.json"
    output.write_text("kept")
    budget = [] if words == "order" else ["--budget", 8]
    status, out, err = limited(mebibytes, words, graph, *budget, "--output", output)
    assert (status, out) == (2, ""), err
    assert err.startswith("error: out of memory") and err.count("\n") == 1, err
    if mebibytes < 200:
        assert f"this program needs 200 MiB of address space, ulimit -v allows {mebibytes} MiB" in err
    if mebibytes > 300:
        assert f"a search needs 600 MiB of address space, ulimit -v allows {mebibytes} MiB" in err
    assert output.read_text() == "kept"


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v is heeded on Linux")
def test_an_ordinary_limit_is_enough(graph):
    status, out, err = limited(1500, "solve", graph, "--budget", 8, "--search", "only", "--threads", 1, "--json")
    assert status == 0 and json.loads(out)["duration"] == 14, err


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v is heeded on Linux")
def test_a_large_graph_says_how_much_was_needed(tmp_path):
    code = """
import resource, sys
import numpy
from moccasin_mzn.cli.main import main, run
import click
@main.command()
def large():
    resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
    numpy.zeros((2**16, 2**16))
sys.exit(run(["large"]))
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.returncode == 2
    assert answer.stderr.startswith("error: out of memory (ulimit -v: 2,048 MiB): Unable to allocate 32.0 GiB for ")
    assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "out of memory"),
        (RuntimeError("can't start new thread"), "out of memory: can't start new thread"),
        (ImportError("No\n\nOriginal error was: libx.so: failed to map segment"), "libx.so: failed to map segment"),
        (OSError(12, "Cannot allocate memory"), "Cannot allocate memory"),
    ],
)
def test_lack_of_memory_is_recognised_in_all_forms(error, message):
    assert str(out_of_memory(error)).endswith(message)


@pytest.mark.parametrize("error", [RuntimeError("other"), ImportError("no module"), OSError(2, "none"), ValueError()])
def test_other_errors_are_not_lack_of_memory(error):
    assert out_of_memory(error) is None


FAILED = threading.Event()


class Lacking(Searcher):
    """Lacks memory."""

    name = "one"

    def applies(self, runner):
        return True

    def search(self, runner):
        FAILED.set()
        raise MemoryError("Unable to allocate 9 GiB")


class Waiting(Searcher):
    """Waits for that and then finds something, or not."""

    name = "other"

    def __init__(self, *found):
        self.found = found

    def applies(self, runner):
        return True

    def search(self, runner):
        FAILED.wait()
        for sequence in self.found:
            runner.board.offer(sequence, self.name)


def runner_of(*searchers):
    """A call of these searchers alone."""
    options = Options(search="only")
    board = Board(Instance.build(GRAPH, 8), time.monotonic())
    return Runner(board=board, options=options, form=options.form, searchers=searchers)


def test_a_search_without_memory_does_not_take_the_others_along():
    runner = runner_of(Lacking(), Waiting((0, 1, 2, 3, 0, 4)))
    runner.run()
    result = runner.result()
    assert (result.duration, result.found_by) == (14, "other") and "Unable to allocate 9 GiB" in result.failure


def test_lack_of_memory_without_an_answer_is_reported():
    with pytest.raises(OutOfMemoryError, match="out of memory.*: Unable to allocate 9 GiB") as told:
        runner_of(Lacking(), Waiting()).run()
    assert isinstance(told.value, InputError)
