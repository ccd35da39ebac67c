"""Files that are nothing of the kind, in place of every file that a command reads: one line, or an answer."""

from __future__ import annotations

import pytest
from tiny_graphs import DIAMOND

from moccasin_mzn.graphs.formats import write_graph

CSV = "id,lower,upper,size\n"
ODD = {
    "empty": b"",
    "blank": b" \n",
    "binary": bytes(range(256)) * 4,
    "null.json": b"null",
    "list.json": b"[[]]",
    "number.json": b"1e400",
    "digits.json": b"1" * 5000,
    "deep.json": b"[" * 100_000,
    "nodes.json": b'{"nodes": 5, "edges": {}}',
    "ids.json": b'{"directed": true, "nodes": [{"id": null}], "links": [{"source": [], "target": {}}]}',
    "surrogate.json": b'{"nodes": [{"id": "\\ud800", "duration": 1, "size": 1}], "edges": []}',
    "huge.json": b'{"nodes": [{"id": 0, "duration": 1' + b"0" * 400 + b', "size": -0}], "edges": []}',
    "over.json": b'{"nodes": [{"id": 0, "duration": 1e309, "size": NaN}], "edges": []}',
    "sequence.json": b'{"sequence": [0, {}, null], "intervals": [{"node": []}]}',
    "offsets.json": b'{"sequence": [0, 1, 2, 3], "intervals": [{"node": 0, "start": 1e400, "end": -1}], "arena": {}}',
    "certificate.json": b'{"kind": "certificate"}',
    "columns.csv": b"a,b,c\n1,2,3\n",
    "commas.csv": b",,,\n",
    "digits.csv": (CSV + "a,0,3," + "9" * 400).encode(),
    "time.csv": (CSV + f"a,0,{2**62},3\n").encode(),
    "float.csv": (CSV + "a,-0,3,1e309\n").encode(),
    "quote.csv": (CSV + '"a,0,3,1\n').encode(),
    "field.csv": (CSV + "x" * 200_000 + ",0,1,1\n").encode(),
    "latin.csv": (CSV + "\xe9,0,1,1\n").encode("latin-1"),
    "x.dot": b"digraph { a -> b [x=; ] }",
    "x.graphml": b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph><node/></graph></graphml>',
    "x.toml": b"title = 'x'\nbudgets = [nan]\n[[graph]]\npath = 3\n[[method]]\n",
    "x.gz": b"\x1f\x8b\x08\x00garbage",
    "x.onnx": b"\x08\x07\x12",
    "x.tflite": b"TFL3" * 30,
}
"""By name. Cut off and a directory come with them."""
COMMANDS = (
    "solve FILE --budget 1.0 --search only",
    "solve GRAPH --budget 1.0 --search only --order FILE",
    "solve GRAPH --budget 1.0 --search only --warm-start FILE",
    "solve GRAPH --budget 1.0 --search only --max-computations FILE",
    "frontier FILE --time-limit 2",
    "compare FILE --budget 1.0 --only keep-all",
    "order FILE --time-limit 2",
    "allocate FILE --time-limit 2",
    "info FILE",
    "reduce FILE",
    "convert FILE OUTPUT.json",
    "validate FILE FILE",
    "validate GRAPH FILE",
    "validate --best-known FILE",
    "check-certificate GRAPH FILE",
    "plot GRAPH FILE -o OUTPUT.svg",
    "export FILE --budget 1.0",
    "complexity FILE",
    "import onnx FILE -o OUTPUT.json",
    "import tflite FILE -o OUTPUT.json",
    "deploy onnx FILE --budget 1.0 --output OUTPUT.onnx",
    "deploy tflite FILE --budget 1.0 --output OUTPUT.tflite",
    "deploy c FILE --output OUTPUT",
    "deploy c-header FILE --output OUTPUT.h",
    "bench run FILE",
    "bench report FILE",
)


SLOW = ("import onnx", "deploy onnx")
"""They start a process for each file."""


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=pytest.mark.full if line.startswith(SLOW) else ()) for line in COMMANDS]
)
def test_odd_files_are_one_line(command, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    graph = tmp_path / "graph.json"
    write_graph(DIAMOND, graph)
    paths = [tmp_path, tmp_path / "missing", tmp_path / "cut.json"]
    paths[-1].write_bytes(graph.read_bytes()[:60])
    for name, content in ODD.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(content)
    for path in paths:
        words = [{"FILE": str(path), "GRAPH": str(graph)}.get(word, word) for word in line.split()]
        status, out, err = command(*words)
        assert (status, out) == (2, "") and err.count("\n") == 1 and err.startswith(("error: ", "Error: ")), (
            words,
            err,
        )
