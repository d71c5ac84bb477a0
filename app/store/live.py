"""What a worker knows without asking: the directory's snapshot and the keys it has met, kept true by NOTIFY and a slow poll."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import Caller, Directory
from app.settings import Settings
from app.store import directory, keys
from app.store.database import connect

log = logging.getLogger(__name__)

# What a lost, refused or not yet started Postgres raises through SQLAlchemy and asyncpg.
AWAY = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, SQLAlchemyError, TimeoutError)

_UNKNOWN_FOR_S = 10.0
_UNKNOWN_AT_MOST = 10_000


class KeyIndex:
    """Callers by the hash of their key. A miss is looked up once; what is unknown is remembered for a while too."""

    def __init__(self, database: AsyncEngine, path: Path) -> None:
        self._database = database
        self._path = path
        self._known: dict[bytes, Caller] = _load(path)
        self._unknown: dict[bytes, float] = {}

    def known(self, hash: bytes) -> Caller | None:
        return self._known.get(hash)

    async def find(self, hash: bytes) -> Caller | None:
        """The caller of a key that is not known yet. Raises one of AWAY if Postgres cannot be asked."""
        if self._unknown.get(hash, 0.0) > time.monotonic():
            return None
        async with self._database.connect() as connection:
            caller = (await keys.find(connection, [hash])).get(hash)
        if caller is None:
            if len(self._unknown) >= _UNKNOWN_AT_MOST:
                self._unknown.clear()
            self._unknown[hash] = time.monotonic() + _UNKNOWN_FOR_S
        else:
            self._known[hash] = caller
            self._save()
        return caller

    def forget(self, hash: bytes) -> None:
        """The key may have been made or revoked: the next request looks it up."""
        self._unknown.pop(hash, None)
        if self._known.pop(hash, None) is not None:
            self._save()

    async def check_all(self) -> None:
        """Looks every known key up again: notifications may have been missed. Raises one of AWAY."""
        self._unknown.clear()
        met = list(self._known)
        for start in range(0, len(met), 1000):
            some = met[start : start + 1000]
            async with self._database.connect() as connection:
                found = await keys.find(connection, some)
            for hash in some:
                if hash in found:
                    self._known[hash] = found[hash]
                else:
                    self._known.pop(hash, None)
        self._save()

    def _save(self) -> None:
        kept = {hash.hex(): caller for hash, caller in self._known.items()}
        _replace(self._path, msgspec.json.encode(kept))


class Live:
    """`directory` is the snapshot in force. run() keeps it and the keys true; start() returns once there is one to serve by.

    `on_swap` is called with each new snapshot, before it is reported as served.
    """

    def __init__(
        self, settings: Settings, database: AsyncEngine, worker: str, on_swap: Callable[[Directory], None] = lambda directory: None
    ) -> None:
        folder = settings.home / "directory"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.directory = directory.EMPTY
        self.keys = KeyIndex(database, folder / f"keys-{worker}.json")
        self.connected = False
        self._settings = settings
        self._database = database
        self._worker = f"{os.uname().nodename}:{settings.home.resolve()}:{worker}"
        self._path = folder / "snapshot.json"
        self._on_swap = on_swap
        self._changed = asyncio.Event()
        self._recheck = False
        self._listening: asyncpg.Connection[Any] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises one of AWAY if Postgres cannot be asked and no earlier run has kept a snapshot."""
        try:
            await self._listen()
            await self._refresh()
        except AWAY as fault:
            kept = directory.load(self._path)
            if kept is None:
                raise
            log.warning("Postgres is away: serving by the configuration of the last run", extra={"fault": repr(fault)})
            self._swap(kept)
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        with contextlib.suppress(*AWAY):
            async with asyncio.timeout(2), self._database.begin() as connection:
                await directory.retire(connection, self._worker)
        if self._listening is not None:
            self._listening.terminate()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.directory_poll_s if self.connected else 1.0):
                    await self._changed.wait()
            self._changed.clear()
            try:
                if self._listening is None or self._listening.is_closed():
                    await self._listen()
                await self._refresh()
            except AWAY as fault:
                if self.connected:
                    log.warning("Postgres is away: serving on by what is known", extra={"fault": repr(fault)})
                self.connected = False

    async def _listen(self) -> None:
        connection = await connect(self._settings.database_url)
        await connection.add_listener(directory.CHANNEL, self._heard_of_directory)
        await connection.add_listener(keys.CHANNEL, self._heard_of_keys)
        connection.add_termination_listener(lambda _: self._changed.set())
        self._listening = connection
        self._recheck = True

    def _heard_of_directory(self, *_: object) -> None:
        self._changed.set()

    def _heard_of_keys(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        if payload:
            self.keys.forget(bytes.fromhex(str(payload)))
        else:
            self._recheck = True
            self._changed.set()

    async def _refresh(self) -> None:
        async with self._database.connect() as connection:
            await connection.execution_options(isolation_level="REPEATABLE READ")
            async with connection.begin():
                newest = self.directory
                if await directory.read_version(connection) != newest.version:
                    newest = await directory.read(connection)
        if newest is not self.directory:
            self._swap(newest)
            directory.save(newest, self._path)
        async with self._database.begin() as connection:
            await directory.remember(connection, newest)
            await directory.report(connection, self._worker, newest.version)
        if self._recheck:
            await self.keys.check_all()
            self._recheck = False
        self.connected = True

    def _swap(self, newest: Directory) -> None:
        self._on_swap(newest)
        self.directory = newest
        log.info("configuration in force", extra={"version": newest.version, "hash": newest.hash})


def _load(path: Path) -> dict[bytes, Caller]:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=dict[str, Caller])
    except (OSError, msgspec.DecodeError):
        return {}
    return {bytes.fromhex(hash): caller for hash, caller in kept.items()}


def _replace(path: Path, content: bytes) -> None:
    draft = path.with_suffix(".new")
    draft.write_bytes(content)
    draft.chmod(0o600)
    draft.replace(path)
