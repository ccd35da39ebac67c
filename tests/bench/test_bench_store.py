"""Stores: all or nothing, and nobody else's files."""

from __future__ import annotations

import os
import sqlite3

import pytest

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bench.columns import ADDED, COLUMNS, LABELS, TRACE_COLUMNS, VERSION, empty_row
from moccasin_mzn.bench.store import Store, locked

POINTS = (
    {"seconds": 0.25, "duration": None, "bound": 3, "source": "bounds"},
    {"seconds": 1, "duration": 2**53, "bound": 4, "source": "cp-sat on a window"},
)


def row(key, **values):
    return {**empty_row(), "key": key, "experiment": "e", "status": "optimal", "valid": True, "graph": "g", **values}


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "s.sqlite") as made:
        made.add(row("b", peak=2**53 + 1, gap_percent=0.0), POINTS)
        made.add(row("a", valid=False, status="unknown"))
        yield made


def test_what_is_written_is_read(store):
    assert store.keys() == {"a", "b"}
    assert store.rows() == [row("b", peak=2**53 + 1, gap_percent=0.0), row("a", valid=False, status="unknown")]
    assert [point["position"] for point in store.trace_rows()] == [0, 1]
    with Store.open(store.path) as again:
        runs, traces = again.runs(), again.traces()
    assert list(runs) == list(COLUMNS) and list(traces) == list(TRACE_COLUMNS)
    assert runs["key"].tolist() == ["b", "a"] and runs["valid"].tolist() == [True, False]
    assert runs["nodes"].isna().all() and runs["nodes"].dtype == float
    assert traces["duration"].isna().tolist() == [True, False]


def test_empty_stores_have_all_columns(tmp_path):
    with Store.create(tmp_path / "s.sqlite") as store:
        assert store.runs().shape == (0, len(COLUMNS)) and store.traces().shape == (0, len(TRACE_COLUMNS))


@pytest.mark.parametrize(
    ("bad", "trace", "expected"),
    [
        (row("b"), (), "run b is there already"),
        ({**row("c"), "more": 1}, (), "columns missing or unknown: more"),
        (row("c", peak=1.5), (), "peak is 1.5, expected int"),
        (row("c", peak=True), (), "peak is True, expected int"),
        (row("c", status="fine"), (), "status 'fine'"),
        (row(""), (), "status 'optimal'"),
        (row("c", experiment=None), (), "belongs to no experiment"),
        (row("c"), ({"seconds": 1.0, "duration": 1},), "trace of run c: columns missing or unknown: bound, source"),
        (row("c", peak=2**70), POINTS, "too large"),
    ],
)
def test_bad_rows_leave_nothing_behind(store, bad, trace, expected):
    before = store.rows(), store.trace_rows()
    with pytest.raises(InputError, match=expected):
        store.add(bad, trace)
    assert (store.rows(), store.trace_rows()) == before


def test_labels_follow_the_experiment(store):
    new = {name: f"new {name}" for name in LABELS if name != "experiment"}
    store.adopt([row("a", **new, peak=77), row("z", **new)])
    assert store.keys() == {"a", "b"}
    first, second = store.rows()
    assert first == row("b", peak=2**53 + 1, gap_percent=0.0)
    assert second == row("a", valid=False, status="unknown", **new)


def test_a_run_that_two_experiments_share_has_a_line_for_each(store):
    before = store.rows(), store.trace_rows()
    store.adopt([row("b", experiment="f", method="m", peak=77), row("z", experiment="f")])
    shared = row("b", experiment="f", method="m", peak=2**53 + 1, gap_percent=0.0)
    assert store.rows() == [*before[0], shared] and store.trace_rows() == before[1]
    store.adopt([row("b", experiment="f", method="again"), *before[0]])
    assert store.rows() == [*before[0], {**shared, "method": "again"}]


def test_a_run_that_another_replaces_is_kept_apart(store):
    first, second = store.rows()
    assert store.adopt([row("x", graph="h"), row("y", experiment="f")]) == 0
    assert store.adopt([row("x"), second]) == 1  # as "b" but for the key
    assert store.rows() == [{**first, "experiment": "e (before)"}, second]
    for _ in range(2):  # there and back again
        store.adopt([row("b"), second])
        assert store.rows() == [{**first, "experiment": "e (before)"}, second, first]
        store.adopt([row("x"), second])
        assert store.rows() == [{**first, "experiment": "e (before)"}, second]


def made_by_another(path):
    with sqlite3.connect(path) as connection:
        connection.execute("create table runs (key text)")
    connection.close()


def of_version(version, path):
    """As it was written then: before there were plans and addresses, or who found what."""
    with Store.create(path) as store:
        store.add(row("b", peak=7, duration=3), POINTS)
    with sqlite3.connect(path) as connection:
        connection.execute("drop table graphs")
        for table, names in (pair for at in range(version + 1, VERSION + 1) for pair in ADDED[at].items()):
            for name in names if table != "graphs" else ():
                connection.execute(f"alter table {table} drop column {name}")
        connection.execute(f"pragma user_version = {version}")
    connection.close()


@pytest.mark.parametrize("version", range(1, VERSION))
def test_an_older_store_is_read_as_it_is_and_completed_when_written_to(tmp_path, version):
    path = tmp_path / "s.sqlite"
    of_version(version, path)
    before = path.read_bytes()
    with Store.open(path) as store:
        assert store.rows() == [row("b", peak=7, duration=3)]
        assert [point["source"] for point in store.trace_rows()] == [None, None] and store.graphs() == {}
        assert list(store.runs()) == list(COLUMNS) and list(store.traces()) == list(TRACE_COLUMNS)
    assert path.read_bytes() == before
    with Store.create(path) as store:
        store.add_graphs({"d": b"one"})
        store.add_graphs({"d": b"other", "e": b""})
        store.add(row("c", value=5, memories="{}"), POINTS)
        assert store.rows() == [row("b", peak=7, duration=3), row("c", value=5, memories="{}")]
    with Store.open(path) as store:
        assert len(store.rows()) == 2 and store.graphs() == {"d": b"one", "e": b""}
        assert [point["source"] for point in store.trace_rows()] == [None, None, "bounds", "cp-sat on a window"]


def of_another_version(path):
    Store.create(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("pragma user_version = 99")
    connection.close()


def with_other_columns(path):
    Store.create(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("alter table runs add column more text")
    connection.close()


def cut_short(path):
    with Store.create(path) as store:
        for number in range(50):
            store.add(row(f"{number}", reason="x" * 400))
    path.write_bytes(path.read_bytes()[:20_000])


def no_database(path):
    path.write_text("key,experiment\n" * 100)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (made_by_another, "no store of moccasin_mzn"),
        (of_another_version, "a store of version 99, this program has version 3"),
        (with_other_columns, "other columns"),
        (cut_short, "malformed|broken"),
        (no_database, "not a database"),
    ],
)
def test_what_is_no_store_is_untouched(tmp_path, make, expected):
    path = tmp_path / "s.sqlite"
    make(path)
    before = path.read_bytes()
    for opening in (Store.open, Store.create):
        with pytest.raises(InputError, match=expected) as caught:
            opening(path)
        assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_to_open(tmp_path):
    with pytest.raises(InputError, match="no such store"):
        Store.open(tmp_path / "s.sqlite")
    with pytest.raises(InputError, match="no such store"):
        Store.create(tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        Store.create(tmp_path / "none" / "s.sqlite")
    (tmp_path / "s.sqlite").touch()
    with pytest.raises(InputError, match="is empty"):
        Store.open(tmp_path / "s.sqlite")
    Store.create(tmp_path / "s.sqlite").close()
    assert not Store.open(tmp_path / "s.sqlite").keys()


def test_readers_see_a_run_wholly_while_another_is_written(store):
    with Store.open(store.path) as reader:
        store.add(row("c"), POINTS)
        assert reader.keys() == {"a", "b", "c"} and len(reader.traces()) == 4


def test_a_store_in_a_folder_that_cannot_be_written_is_read(store, tmp_path):
    store.close()
    folder = tmp_path / "100% read only?"
    folder.mkdir()
    path = folder / "s.sqlite"
    path.write_bytes(store.path.read_bytes())
    folder.chmod(0o500)
    try:
        if os.access(folder, os.W_OK):
            pytest.skip("this user may write anywhere")
        with Store.open(path) as opened:
            assert opened.keys() == {"a", "b"} and len(opened.trace_rows()) == 2
        assert list(folder.iterdir()) == [path]
    finally:
        folder.chmod(0o700)


def test_one_writer_at_a_time(tmp_path):
    path = tmp_path / "s.sqlite"
    with locked(path), pytest.raises(InputError, match="another `bench run`"), locked(path):
        pass
    with locked(path):
        pass
    assert not list(tmp_path.iterdir())
