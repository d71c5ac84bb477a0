"""The keys that a worker has met: who they stand for, from memory, kept on disk for the time when Postgres is away."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import Caller
from app.store import keys
from app.store.away import AWAY, PATIENCE_S

log = logging.getLogger(__name__)

_UNKNOWN_FOR_S = 10.0
_UNKNOWN_AT_MOST = 10_000
_LOOKUP_S = 3.0  # a caller waits for it
_SAVE_AFTER_S = 0.2


class KeyIndex:
    """Callers by the hash of their key. A miss is looked up once; what is unknown is remembered for a while too.

    Each worker keeps a file of its own in `folder`. While Postgres is away, a key that another worker of this machine has met is good too.
    """

    def __init__(self, database: AsyncEngine, folder: Path, worker: str) -> None:
        self._database = database
        self._path = folder / f"keys-{worker}.json"
        self._known: dict[bytes, Caller] = dict(_load(self._path))
        self._unknown: dict[bytes, float] = {}
        self._news = 0
        self._others: dict[Path, tuple[int, Mapping[bytes, Caller]]] = {}
        self._unsaved = False
        self._saving: asyncio.Task[None] | None = None

    def known(self, hash: bytes) -> Caller | None:
        return self._known.get(hash)

    async def find(self, hash: bytes) -> Caller | None:
        """The caller of a key that is not known yet. Raises one of AWAY if Postgres cannot be asked, and nobody here has met it."""
        if self._unknown.get(hash, 0.0) > time.monotonic():
            return None
        news = self._news
        try:
            async with asyncio.timeout(_LOOKUP_S), self._database.connect() as connection:
                caller = (await keys.find(connection, [hash])).get(hash)
        except AWAY:
            caller = self._met_by_others(hash)
            if caller is None:
                raise
        if self._news != news:
            return caller  # of something that changed meanwhile: good for this request, and not to be remembered
        if caller is None:
            if len(self._unknown) >= _UNKNOWN_AT_MOST:
                self._unknown.clear()
            self._unknown[hash] = time.monotonic() + _UNKNOWN_FOR_S
        else:
            self._known[hash] = caller
            self._save_soon()
        return caller

    def forget(self, hash: bytes) -> None:
        """The key may have been made or revoked: the next request looks it up."""
        self._news += 1
        self._unknown.pop(hash, None)
        if self._known.pop(hash, None) is not None:
            self._save_soon()

    async def check_all(self) -> None:
        """Looks every known key up again: notifications may have been missed. Raises one of AWAY."""
        self._news += 1
        self._unknown.clear()
        met = list(self._known)
        for start in range(0, len(met), 1000):
            some = met[start : start + 1000]
            async with asyncio.timeout(PATIENCE_S), self._database.connect() as connection:
                found = await keys.find(connection, some)
            for hash in some:
                before = self._known.get(hash)
                if before is None:
                    continue  # forgotten while we asked: what we were told is older than that
                if hash not in found:
                    del self._known[hash]
                else:
                    self._known[hash] = found[hash]
                if found.get(hash) != before:
                    self._save_soon()

    async def close(self) -> None:
        if self._saving is not None:
            self._saving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._saving
        if self._unsaved:
            self._write(dict(self._known))

    def _met_by_others(self, hash: bytes) -> Caller | None:
        for path in self._path.parent.glob("keys-*.json"):
            if path == self._path:
                continue
            try:
                changed = path.stat().st_mtime_ns
            except OSError:
                continue
            if self._others.get(path, (None,))[0] != changed:
                self._others[path] = changed, _load(path)
            caller = self._others[path][1].get(hash)
            if caller is not None:
                return caller
        return None

    def _save_soon(self) -> None:
        # Not at once, and not here: the file is written whole, and there may be many keys.
        self._unsaved = True
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._save())

    async def _save(self) -> None:
        while self._unsaved:
            await asyncio.sleep(_SAVE_AFTER_S)
            self._unsaved = False
            await asyncio.to_thread(self._write, dict(self._known))

    def _write(self, known: Mapping[bytes, Caller]) -> None:
        draft = self._path.with_suffix(".new")
        try:
            draft.write_bytes(msgspec.json.encode({hash.hex(): caller for hash, caller in known.items()}))
            draft.chmod(0o600)
            draft.replace(self._path)
        except OSError as fault:  # a full disk is no reason to refuse a key that is good
            log.warning("the keys that were met could not be kept on disk", extra={"fault": repr(fault)})


def forget_workers(folder: Path, workers: int) -> None:
    """Removes what workers have kept that are no more, as there are fewer now: nobody would take a revoked key out of it."""
    for path in folder.glob("keys-gateway-*.json"):
        number = path.stem.rpartition("-")[2]
        if number.isdigit() and int(number) >= workers:
            path.unlink(missing_ok=True)


def _load(path: Path) -> Mapping[bytes, Caller]:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=dict[str, Caller])
        return {bytes.fromhex(hash): caller for hash, caller in kept.items()}
    except (OSError, msgspec.DecodeError, ValueError):
        return {}
