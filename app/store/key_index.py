"""The keys that a worker has met: whom they stand for, from memory; kept on disk too, for the time when Postgres is away."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from app.domain import Caller
from app.store import callers
from app.store.away import AWAY
from app.store.key_log import Kept, KeyLog, log_path, read_log
from app.store.key_terms import hashed, prefix_of
from app.store.line import Line
from app.store.recent import Recent

_UNKNOWN_FOR_S = 10.0
_UNKNOWN_AT_MOST = 10_000
_LOOKUP_S = 3.0  # a caller waits for it
_DOUBT_S = 1.0  # so that a caller may wait for it on another line, where one was dead
_AT_ONCE = 500  # keys in one question
_WAITING_AT_MOST = 10_000
_READ_OTHERS_S = 1.0


class Crowded(Exception):
    """More keys that nobody here has met are waiting to be looked up than may wait."""


class KeyIndex:
    """Callers by the hash of their key. A miss is looked up once, together with all that were missed meanwhile: however many unknown
    keys come at once, one question is under way, and a good one waits for two at most. What is unknown is remembered for a while.

    At most about `most` are remembered; `known` tells whom a key stands for that is, by its hash.

    Each worker keeps a log of its own in `folder`. While Postgres is away, a key that another worker of this machine has met is good too.
    """

    def __init__(self, database_url: str, folder: Path, worker: str, most: int = 50_000) -> None:
        self._line = Line(database_url, doubt_s=_DOUBT_S, patience_s=_LOOKUP_S)
        self._path = log_path(folder, worker)
        kept = read_log(self._path)
        self.version = kept.version
        self._unknown: dict[bytes, float] = {}
        self._looking: dict[bytes, asyncio.Future[Caller | None]] = {}
        self._queue: dict[bytes, str] = {}
        self._asking: asyncio.Task[None] | None = None
        self._others: dict[Path, tuple[int, Kept]] = {}
        self._others_read = 0.0
        self._reading_others = asyncio.Lock()
        self._log = KeyLog(self._path, lambda: Kept(self._met.everything(), self.version))
        # What is forgotten must leave the log as well: nobody would take it out if it were revoked.
        self._met = Recent(most, kept.callers, on_forgotten=self._log.write_anew)
        self.known = self._met.get

    def __len__(self) -> int:
        return len(self._met)

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
        if self._met.pop(hash):
            self._log.add(hash, None)

    def forget_teams(self, ids: set[str]) -> None:
        self._distrust_answers()
        for hash in [hash for hash, caller in self._met.everything().items() if caller.team_id in ids]:
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
        met = {hash: caller.prefix.removeprefix("nx-") for hash, caller in self._met.everything().items()}
        hashes = list(met)
        for start in range(0, len(hashes), _AT_ONCE):
            before = {hash: caller for hash in hashes[start : start + _AT_ONCE] if (caller := self._met.peek(hash)) is not None}
            found = await self._find({hash: met[hash] for hash in before})
            for hash, caller in before.items():
                # Forgotten, or met anew, while we asked: what we were told is older than that.
                if self._met.peek(hash) is caller and found.get(hash) != caller:
                    self.forget(hash)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._asking
        self._line.close()
        await self._log.close()

    async def _ask(self) -> None:
        while self._queue:
            some = {hash: self._queue.pop(hash) for hash in list(self._queue)[:_AT_ONCE]}
            waiting = {hash: self._looking[hash] for hash in some}
            try:
                found = await self._find(some)
            except Exception as fault:
                for hash, future in waiting.items():
                    self._answer(hash, future, fault)
            else:
                for hash, future in waiting.items():
                    self._answer(hash, future, found.get(hash))

    async def _find(self, sought: Mapping[bytes, str]) -> dict[bytes, Caller]:
        return await self._line.ask(lambda line: callers.find(line, sought))

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
        self._met.put(hash, caller)

    async def _met_by_others(self, hash: bytes) -> Caller | None:
        async with self._reading_others:  # who comes meanwhile waits for what is read, or it would be refused for nothing
            if time.monotonic() - self._others_read > _READ_OTHERS_S:
                self._others = await asyncio.to_thread(_read_others, self._path, self._others)
                self._others_read = time.monotonic()
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
