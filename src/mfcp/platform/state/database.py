"""A database by URL, SQLite or Postgres: transactions that wait while it is locked or gone, then say what to mend."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError

from mfcp.errors import MfcpError, SettingsError

Row = Mapping[str, Any]
R = TypeVar("R")

BUSY_S = 5.0  # SQLite itself waits so long for another writer before it says "locked"
LONGEST_PAUSE_S = 2.0
# What passes by itself, or once a person frees the disk or brings the file back; a wrong statement never does.
PASSING = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_PROTOCOL,
}


class Database:
    """Every call is one transaction, done whole or not at all, whatever dies.

    Args:
        url: `sqlite:////absolute/path.db` or any other URL of SQLAlchemy, such as `postgresql+psycopg://…`.
        tables: made where they are missing; so is an SQLite file in a folder that is there.
        wait_s: seconds to go on trying while the database is locked, full or out of reach.
        make: whether an SQLite file that is not there is made; else it is out of reach.

    Raises:
        SettingsError: not a URL, or a database without a driver here.
        MfcpError: out of reach for longer than `wait_s`.
    """

    def __init__(self, url: str, tables: sa.MetaData, *, wait_s: float, make: bool = True) -> None:
        self.wait_s = wait_s
        try:
            self.url = sa.make_url(url)
            self._engine = _sqlite(self.url) if self.url.get_backend_name() == "sqlite" else _server(self.url)
        except (ArgumentError, NoSuchModuleError) as error:
            raise SettingsError(
                f"platform.database: '{url}' is not a URL of a database ({error}); expected "
                "sqlite:////folder/platform.db or postgresql+psycopg://user@host/name"
            ) from None
        except ModuleNotFoundError as error:
            raise SettingsError(
                f"platform.database: {self} needs the driver '{error.name}', which is not installed here; "
                f"pip install '{error.name}[binary]'"
            ) from None
        dialect = postgresql if self._engine.dialect.name == "postgresql" else sqlite
        self._insert: Callable[[sa.Table], Any] = dialect.insert
        self._attempt(lambda: self._make(tables, file=make))

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    def write(self, work: Callable[[sa.Connection], R]) -> R:
        """What `work` returns, in one transaction; it may be called again after a failure, so let it only write here.

        Raises:
            IntegrityError: a key is there already, or one that is referred to is not; nothing was written.
            MfcpError: see the class.
        """

        def once() -> R:
            with self._engine.begin() as connection:
                return work(connection)

        return self._attempt(once)

    def read(self, *statements: sa.Select[Any]) -> list[list[sa.RowMapping]]:
        """The rows of each statement, all of one moment."""

        def once() -> list[list[sa.RowMapping]]:
            with self._engine.connect().execution_options(reads=True) as connection:
                return [[row._mapping for row in connection.execute(statement)] for statement in statements]

        return self._attempt(once)

    def insert_absent(self, connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> int:
        """Insert the rows whose key is not there yet; how many these were."""
        if not rows:
            return 0
        key = next(iter(table.primary_key))
        insert = self._insert(table).on_conflict_do_nothing().returning(key)  # rowcount is not told by every driver
        return len(connection.execute(insert, list(rows)).all())

    def _make(self, tables: sa.MetaData, *, file: bool) -> None:
        path = sqlite_path(self.url)
        if file and path is not None and path.parent.is_dir() and not path.exists():
            sqlite3.connect(path).close()  # connections themselves never make a file: one that is gone would be empty
        with self._engine.begin() as connection:
            tables.create_all(connection)

    def _attempt(self, once: Callable[[], R]) -> R:
        deadline, pause = time.monotonic() + self.wait_s, 0.05
        while True:
            try:
                return once()
            except IntegrityError:
                raise
            except DBAPIError as error:
                if not _passes(error) or time.monotonic() + pause > deadline:
                    raise MfcpError(self._explain(error)) from error
            time.sleep(pause * random.uniform(0.5, 1.0))  # two that wait for each other do not meet again
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _explain(self, error: DBAPIError) -> str:
        waited = f" for {self.wait_s:g} s" if _passes(error) else ""
        reason = " ".join(str(error.orig).split())[:200]
        path = sqlite_path(self.url)
        if path is None:
            remedy = "start its server, or mend platform.database"
        elif not path.parent.is_dir():
            remedy = f"there is no folder {path.parent}: mount it or start the platform there"
        elif isinstance(error.orig, sqlite3.OperationalError):
            remedy = "end other writers, free space, or make its folder readable and writable"
        else:
            remedy = "restore it from a backup"
        return f"{self}: the platform's database cannot be used{waited} ({reason}); {remedy}"


def sqlite_path(url: sa.URL) -> Path | None:
    """The file of an SQLite URL, None for any other database."""
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database or url.database == ":memory:":
        raise SettingsError("platform.database: SQLite in memory would forget everything; name a file")
    return Path(url.database).absolute()


def _sqlite(url: sa.URL) -> sa.Engine:
    """A connection per transaction: one that is kept would write on into a file that was moved away."""
    address = f"file:{quote(str(sqlite_path(url)))}?mode=rw"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.NullPool, json_serializer=_json)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # Writers queue up front: one that reads first and writes later fails at once when another came between.
        reads = connection.get_execution_options().get("reads")
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _server(url: sa.URL) -> sa.Engine:
    return sa.create_engine(url, poolclass=sa.NullPool, json_serializer=_json, isolation_level="REPEATABLE READ")


_json = partial(json.dumps, allow_nan=False, ensure_ascii=False)


def _passes(error: DBAPIError) -> bool:
    if isinstance(error.orig, sqlite3.Error):
        return (getattr(error.orig, "sqlite_errorcode", 0) & 0xFF) in PASSING
    return error.connection_invalidated or isinstance(error, sa.exc.OperationalError)
