"""Results in SQLite: one line per run and experiment, one trace per run, and the graphs of them all.

A store is one file (and SQLite's own `-wal` and `-shm` while it is open). Each run is one transaction that is on the
disk before `add` returns: no matter when a process is killed, a run is in the store wholly or not at all.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from moccasin_mzn.base.errors import InputError, missing, require, shown
from moccasin_mzn.base.files import Json
from moccasin_mzn.bench.columns import (
    ADDED,
    COLUMNS,
    GRAPH_COLUMNS,
    INTEGER_BITS,
    LABELS,
    STATUSES,
    TRACE_COLUMNS,
    VERSION,
    Row,
)  # fmt: skip

if TYPE_CHECKING:
    import pandas
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry


try:
    import sqlalchemy
    from sqlalchemy import Column, MetaData, Table, event
    from sqlalchemy.exc import DBAPIError, IntegrityError
    from sqlalchemy.pool import NullPool
except ImportError:
    raise missing("sqlalchemy", "bench") from None

APPLICATION = 0x4D6F6342
"""The application id of a store in SQLite's header: "MocB"."""
BUSY_SECONDS = 60

_TYPES = {
    str: sqlalchemy.Text, int: sqlalchemy.BigInteger, float: sqlalchemy.Float, bool: sqlalchemy.Boolean,
    bytes: sqlalchemy.LargeBinary,
}  # fmt: skip
_METADATA = MetaData()


def _table(name: str, columns: Mapping[str, type], primary: Sequence[str]) -> Table:
    parts: list[Column[object]] = [
        Column(key, _TYPES[form], primary_key=key in primary) for key, form in columns.items()
    ]
    return Table(name, _METADATA, *parts)


RUNS = _table("runs", COLUMNS, ("key", "experiment"))
TRACES = _table("traces", TRACE_COLUMNS, ("key", "position"))
GRAPHS = _table("graphs", GRAPH_COLUMNS, ("digest",))


class Store:
    """The results of experiments, in a file. Use as a context manager, or call `close`.

    Any number of processes may read while one writes.
    """

    def __init__(self, path: Path) -> None:
        """Prepare a store at a path; use `open` or `create`."""
        self.path, self._engine = path, _engine(path)
        self._lacks: dict[str, tuple[str, ...]] = {}
        """The columns of each table that an older store does not have; it gets them once it is written to."""

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Store:
        """Open a store that is there.

        Raises:
            InputError: the file is missing, no store, a store of another version, or broken; it is left untouched.
        """
        path = Path(path)
        if not path.is_file() or path.stat().st_size == 0:
            raise InputError(f"{path}: {'the store is empty' if path.is_file() else 'there is no such store'}")
        store = cls(path)
        store._check()
        return store

    @classmethod
    def create(cls, path: str | PathLike[str]) -> Store:
        """Open a store for writing; make an empty one where there is no file, or an empty one.

        Raises:
            InputError: what `open` raises, or the file cannot be written.
        """
        path = Path(path)
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}")
        if path.exists() and (not path.is_file() or path.stat().st_size > 0):
            store = cls.open(path)
            store._complete()
        else:
            store = cls(path)
            with store._transaction() as connection:  # all of it or nothing, should this process be killed
                _METADATA.create_all(connection)
                connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION}")
                connection.exec_driver_sql(f"PRAGMA user_version = {VERSION}")
        with store._connected() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")  # readers while one writes
        return store

    def add(self, run: Mapping[str, Json], trace: Sequence[Mapping[str, Json]] = ()) -> None:
        """Write a run and its trace, in one transaction.

        Args:
            run: a value for each of `COLUMNS`.
            trace: a value for each of `TRACE_COLUMNS` but `key` and `position`, which are given here.

        Raises:
            InputError: columns are missing or unknown, a value is of the wrong type, the key is there already, or the
                disk is full; the store is then as it was.
        """
        check_row(run)
        lines = [{"key": run["key"], "position": position, **point} for position, point in enumerate(trace)]
        for line in lines:
            _check_values(line, TRACE_COLUMNS, f"trace of run {run['key']}")
        with self._transaction() as connection:
            try:
                connection.execute(RUNS.insert(), dict(run))
            except IntegrityError:
                raise InputError(f"{self.path}: run {run['key']} is there already") from None
            if lines:
                connection.execute(TRACES.insert(), lines)

    def add_graphs(self, graphs: Mapping[str, bytes]) -> None:
        """Keep the graphs of runs, packed, by digest; what is there stays."""
        there = self.graphs()
        lines = [{"digest": digest, "packed": packed} for digest, packed in graphs.items() if digest not in there]
        if lines:
            with self._transaction() as connection:
                connection.execute(GRAPHS.insert(), lines)

    def graphs(self) -> dict[str, bytes]:
        """Return the graphs of runs, packed, by digest; older stores lack those of runs not requested since."""
        if "graphs" in self._lacks:
            return {}
        return {row["digest"]: row["packed"] for row in self._read(GRAPHS)}

    def keys(self) -> set[str]:
        """Return the keys of all runs that are done."""
        with self._connected() as connection:
            return set(connection.scalars(sqlalchemy.select(RUNS.c.key)))

    def adopt(self, runs: Sequence[Mapping[str, Json]]) -> int:
        """Give runs that are done, by key, the labels they have in `runs`; those that are not done are passed over.

        A run that was done for another experiment keeps its line, and gets a second one for the experiment of `runs`.
        A run of that experiment which one of `runs` replaces (the same graph, budget, method and seed by their labels,
        but for example another time limit) is kept as one of the experiment "NAME (before)".

        Returns:
            The number of runs that are replaced.
        """
        rows = self.rows()
        done = {row["key"]: row for row in rows}
        own = {(row["key"], row["experiment"]) for row in rows}
        keys, places = {run["key"] for run in runs}, set(map(_place, runs))
        old = [row for row in rows if row["key"] not in keys and _place(row) in places]
        with self._transaction() as connection:
            for row in old:
                before = f"{row['experiment']} (before)"
                again = (row["key"], before) in own
                rename = RUNS.update().values(experiment=before)
                connection.execute((RUNS.delete() if again else rename).where(_is_line(row)))
            for run in runs:
                labels = {name: run[name] for name in LABELS}
                if (run["key"], run["experiment"]) in own:
                    connection.execute(RUNS.update().where(_is_line(run)).values(labels))
                elif run["key"] in done:
                    connection.execute(RUNS.insert(), {**done[run["key"]], **labels})
        return len(old)

    def rows(self) -> list[Row]:
        """Return all runs, in the order in which they were added; integers are integers, missing values None."""
        return self._read(RUNS)

    def trace_rows(self) -> list[Row]:
        """Return all traces, by run in the order in which they were added, then by position."""
        return self._read(TRACES)

    def runs(self) -> pandas.DataFrame:
        """Return all runs as a table with `COLUMNS`; missing values are None or NaN."""
        return _frame(self.rows(), COLUMNS)

    def traces(self) -> pandas.DataFrame:
        """Return all traces as a table with `TRACE_COLUMNS`; missing values are NaN."""
        return _frame(self.trace_rows(), TRACE_COLUMNS)

    def close(self) -> None:
        """End all use of the file."""
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlalchemy.Connection]:
        """Connect, and turn errors of SQLite into an `InputError` of one line."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise InputError(f"{self.path}: no store can be used here: {' '.join(str(error.orig).split())}") from None
        except sqlalchemy.exc.NoSuchTableError as error:
            raise InputError(f"{self.path}: the store is broken: it has no table {error}") from None

    def _read(self, table: Table) -> list[Row]:
        """Return all lines of a table, in the order in which they were added."""
        lacks = self._lacks.get(table.name, ())
        columns = [column for column in table.columns if column.name not in lacks]
        with self._connected() as connection:
            query = sqlalchemy.select(*columns).order_by(sqlalchemy.text(f"{table.name}.rowid"))
            return [{**row, **dict.fromkeys(lacks)} for row in connection.execute(query).mappings()]

    def _check(self) -> None:
        """Refuse what is no store, before anything is written to it."""
        with self._connected() as connection:
            application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
            if application != APPLICATION:
                raise InputError(f"{self.path}: a database, but no store of moccasin_mzn")
            version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
            if not 1 <= version <= VERSION:
                raise InputError(f"{self.path}: a store of version {version}, this program has version {VERSION}")
            self._lacks = {}
            for name, columns in (one for at, added in ADDED.items() if at > version for one in added.items()):
                self._lacks[name] = (*self._lacks.get(name, ()), *columns)
            flaw = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
            if flaw != "ok":
                raise InputError(f"{self.path}: the store is broken: {' '.join(flaw.split())}")
            inspector = sqlalchemy.inspect(connection)
            for table in _METADATA.sorted_tables:
                lacking = self._lacks.get(table.name, ())
                expected = [column.name for column in table.columns if column.name not in lacking]
                there = [column["name"] for column in inspector.get_columns(table.name)] if expected else []
                if there != expected:
                    raise InputError(f"{self.path}: the store is broken: its table {table.name} has other columns")

    def _complete(self) -> None:
        """Give an older store the tables and columns it lacks."""
        if self._lacks:
            with self._transaction() as connection:
                _METADATA.create_all(connection)
                for table in (RUNS, TRACES):
                    for name in self._lacks.get(table.name, ()):
                        form = table.columns[name].type.compile(self._engine.dialect)
                        connection.exec_driver_sql(f'ALTER TABLE {table.name} ADD COLUMN "{name}" {form}')
                connection.exec_driver_sql(f"PRAGMA user_version = {VERSION}")
            self._lacks = {}

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlalchemy.Connection]:
        with self._connected() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
            connection.commit()


def check_row(run: Mapping[str, Json]) -> None:
    """Check a line of `runs`.

    Raises:
        InputError: columns are missing or unknown, a value is of the wrong type, the status is unknown, or there is no
            experiment.
    """
    _check_values(run, COLUMNS, f"run {run.get('key')}")
    if not run["experiment"]:
        raise InputError(f"run {run['key']}: it belongs to no experiment")
    if not run["key"] or run["status"] not in STATUSES or run["valid"] is None:
        raise InputError(f"run {run['key']}: status {shown(run['status'])}, valid {shown(run['valid'])}")


def _check_values(values: Mapping[str, Json], columns: Mapping[str, type], what: str) -> None:
    if set(values) != set(columns):
        odd = sorted(set(values) ^ set(columns))
        raise InputError(f"{what}: columns missing or unknown: {', '.join(odd)}")
    for name, form in columns.items():
        fits = (int, float) if form is float else (form,)
        if values[name] is not None and type(values[name]) not in fits:
            raise InputError(f"{what}: {name} is {shown(values[name])}, expected {form.__name__}")
        if type(values[name]) is int and values[name].bit_length() > INTEGER_BITS:
            raise InputError(f"{what}: {name} is {shown(values[name])}, too large for SQLite")


def _is_line(run: Mapping[str, Json]) -> sqlalchemy.ColumnElement[bool]:
    return (RUNS.c.key == run["key"]) & (RUNS.c.experiment == run["experiment"])


def _place(run: Mapping[str, Json]) -> tuple[object, ...]:
    return tuple(run[name] for name in ("experiment", "graph", "budget", "method", "seed"))


def _engine(path: Path) -> sqlalchemy.Engine:
    url = sqlalchemy.URL.create("sqlite", database=str(path))
    if not os.access(path.parent, os.W_OK) and not os.path.exists(f"{path}-wal"):  # else SQLite wants to make one
        file = f"file:{quote(str(path.absolute()))}"
        url = sqlalchemy.URL.create("sqlite", database=file, query={"uri": "true", "immutable": "1"})
    # No pool: a file that is replaced under an open store is noticed, and no connection crosses threads.
    engine = sqlalchemy.create_engine(url, poolclass=NullPool, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
        connection.execute("PRAGMA synchronous = FULL")

    return engine


def _frame(rows: Sequence[Row], columns: Mapping[str, type]) -> pandas.DataFrame:
    require("bench", "pandas")
    import pandas

    frame = pandas.DataFrame(rows, columns=list(columns))
    empty = [name for name, form in columns.items() if form in (int, float) and frame[name].isna().all()]
    return frame.astype(dict.fromkeys(empty, float))


# --- The lock: at most one writer at a time; it ends with its process, however that ends ----------------------


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file by means of a file `path`.lock in its folder, which is removed afterwards.

    Raises:
        InputError: another process has the lock, or the folder cannot be written to.
    """
    import fcntl  # where there is none (Windows), nothing else of this package imports it

    name = f"{os.path.realpath(path)}.lock"
    while True:
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise InputError(f"{path}: cannot be locked: {error.strerror or error}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise InputError(f"{path}: another `bench run` is writing to this store") from None
        if _is_still(name, descriptor):  # else its owner has removed it between the two
            break
        os.close(descriptor)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)
        os.close(descriptor)


def _is_still(name: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(name), os.fstat(descriptor))
    except FileNotFoundError:
        return False
