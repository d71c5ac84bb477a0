"""The keys that a worker has met: whom they stand for, from memory; kept on disk too, for the time when Postgres is away."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import Caller
from app.store import callers
from app.store.away import AWAY, PATIENCE_S
from app.store.key_log import Kept, KeyLog, log_path, read_log
from app.store.key_terms import hashed, prefix_of

_UNKNOWN_FOR_S = 10.0
_UNKNOWN_AT_MOST = 10_000
_LOOKUP_S = 3.0  # a caller waits for it
_AT_ONCE = 500  # keys in one question
_WAITING_AT_MOST = 10_000
_READ_OTHERS_S = 1.0


class Crowded(Exception):
    """More keys that nobody here has met are waiting to be looked up than may wait."""


class KeyIndex:
    """Callers by the hash of their key. A miss is looked up once, together with all that were missed meanwhile: however many unknown
    keys come at once, one question is under way, and a good one waits for two at most. What is unknown is remembered for a while.

    At most about `most` are remembered. They are in two halves: what is used moves into the newer one; when that is full, the older one
    is forgotten. So those used least recently go first, and a key that is used much costs one look into one dict.

    Each worker keeps a log of its own in `folder`. While Postgres is away, a key that another worker of this machine has met is good too.
    """

    def __init__(self, database: AsyncEngine, folder: Path, worker: str, most: int = 50_000) -> None:
        self._database = database
        self._path = log_path(folder, worker)
        self._half = max(most // 2, 1)
        kept = read_log(self._path)
        met = list(kept.callers.items())[-2 * self._half :]
        self._newer: dict[bytes, Caller] = dict(met[-self._half :])
        self._older: dict[bytes, Caller] = dict(met[: -self._half])
        self.version = kept.version
        self._unknown: dict[bytes, float] = {}
        self._looking: dict[bytes, asyncio.Future[Caller | None]] = {}
        self._queue: dict[bytes, str] = {}
        self._asking: asyncio.Task[None] | None = None
        self._others: dict[Path, tuple[int, Kept]] = {}
        self._others_read = 0.0
        self._log = KeyLog(self._path, lambda: Kept({**self._older, **self._newer}, self.version))

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def known(self, hash: bytes) -> Caller | None:
        caller = self._newer.get(hash)
        if caller is None and self._older:
            caller = self._older.pop(hash, None)
            if caller is not None:
                self._renew(hash, caller)
        return caller

    async def find(self, key: str) -> Caller | None:
        """The caller of a key that is not known yet. What does not look like a key is never looked up.

        Raises Crowded; one of AWAY if Postgres cannot be asked, and nobody here has met it.
        """
        prefix = prefix_of(key)
        if prefix is None:
            return None
        hash = hashed(key)
        if self._unknown.get(hash, 0.0) > time.monotonic():
            return None
        looking = self._looking.get(hash)
        if looking is None:
            if len(self._queue) >= _WAITING_AT_MOST:
                raise Crowded
            looking = self._looking[hash] = asyncio.get_running_loop().create_future()
            self._queue[hash] = prefix
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
        try:
            async with asyncio.timeout(_LOOKUP_S):
                return await asyncio.shield(looking)
        except AWAY:
            caller = await self._met_by_others(hash)
            if caller is None:
                raise
            self._remember(hash, caller)
            return caller

    def forget(self, hash: bytes) -> None:
        """The key has changed: the next request looks it up."""
        self._unknown.pop(hash, None)
        # One that is being looked up may be as it was: good for the requests that wait for it, and not to be remembered.
        if hash not in self._queue:
            self._looking.pop(hash, None)
        if self._newer.pop(hash, None) is not None or self._older.pop(hash, None) is not None:
            self._log.add(hash, None)

    def forget_teams(self, ids: set[str]) -> None:
        self._distrust_answers()
        for half in (self._newer, self._older):
            for hash in [hash for hash, caller in half.items() if caller.team_id in ids]:
                self.forget(hash)

    def reached(self, version: int) -> None:
        """What is remembered is true up to this version of the keys."""
        if version != self.version:
            self.version = version
            self._log.reached(version)

    async def check_all(self) -> None:
        """Looks every known key up again, where what has changed cannot be told. Raises one of AWAY."""
        self._unknown.clear()
        self._distrust_answers()
        met = {hash: caller.prefix.removeprefix("nx-") for half in (self._older, self._newer) for hash, caller in half.items()}
        hashes = list(met)
        for start in range(0, len(hashes), _AT_ONCE):
            before = {hash: caller for hash in hashes[start : start + _AT_ONCE] if (caller := self._peek(hash)) is not None}
            async with asyncio.timeout(PATIENCE_S), self._database.connect() as connection:
                found = await callers.find(connection, {hash: met[hash] for hash in before})
            for hash, caller in before.items():
                # Forgotten, or met anew, while we asked: what we were told is older than that.
                if self._peek(hash) is caller and found.get(hash) != caller:
                    self.forget(hash)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._asking
        await self._log.close()

    async def _ask(self) -> None:
        while self._queue:
            some = {hash: self._queue.pop(hash) for hash in list(self._queue)[:_AT_ONCE]}
            waiting = {hash: self._looking[hash] for hash in some}
            try:
                async with asyncio.timeout(_LOOKUP_S), self._database.connect() as connection:
                    found = await callers.find(connection, some)
            except Exception as fault:
                for hash, future in waiting.items():
                    self._answer(hash, future, fault)
            else:
                for hash, future in waiting.items():
                    self._answer(hash, future, found.get(hash))

    def _distrust_answers(self) -> None:
        """See forget(); what is not asked yet will be answered as it is."""
        self._looking = {hash: future for hash, future in self._looking.items() if hash in self._queue}

    def _answer(self, hash: bytes, future: asyncio.Future[Caller | None], told: Caller | Exception | None) -> None:
        if self._looking.get(hash) is future:
            del self._looking[hash]
            if isinstance(told, Caller):
                self._remember(hash, told)
            elif told is None:
                if len(self._unknown) >= _UNKNOWN_AT_MOST:
                    self._unknown.clear()
                self._unknown[hash] = time.monotonic() + _UNKNOWN_FOR_S
        if isinstance(told, Exception):
            future.set_exception(told)
            future.exception()  # whoever waited may have left
        else:
            future.set_result(told)

    def _remember(self, hash: bytes, caller: Caller) -> None:
        self._log.add(hash, caller)
        self._renew(hash, caller)

    def _renew(self, hash: bytes, caller: Caller) -> None:
        self._newer[hash] = caller
        if len(self._newer) > self._half:
            self._older, self._newer = self._newer, {}
            # What is forgotten must leave the log as well: nobody would take it out if it were revoked.
            self._log.write_anew()

    def _peek(self, hash: bytes) -> Caller | None:
        return self._newer.get(hash) or self._older.get(hash)

    async def _met_by_others(self, hash: bytes) -> Caller | None:
        if time.monotonic() - self._others_read > _READ_OTHERS_S:
            self._others_read = time.monotonic()
            self._others = await asyncio.to_thread(_read_others, self._path, self._others)
        for _, kept in self._others.values():
            # Who is behind us may not have heard of a revocation that we have heard of.
            if (kept.version or 0) >= (self.version or 0) and (caller := kept.callers.get(hash)) is not None:
                return caller
        return None


def _read_others(own: Path, read: Mapping[Path, tuple[int, Kept]]) -> dict[Path, tuple[int, Kept]]:
    found: dict[Path, tuple[int, Kept]] = {}
    for path in own.parent.glob("keys-*.log"):
        if path == own:
            continue
        try:
            changed = path.stat().st_mtime_ns
        except OSError:
            continue
        before = read.get(path)
        found[path] = before if before is not None and before[0] == changed else (changed, read_log(path))
    return found
