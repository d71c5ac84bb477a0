"""The keys that a worker knows: their callers in memory, and on disk for when Postgres is unavailable."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from app.domain.callers import Caller
from app.store.keys import callers
from app.store.keys.caller_cache import CallerCache
from app.store.keys.key_format import hash_key, key_prefix
from app.store.keys.log import KeyLog, LoggedKeys, log_path, read_log
from app.store.postgres.pg_connection import PgConnection

_UNKNOWN_FOR_S = 10.0
_MAX_UNKNOWN = 10_000
_LOOKUP_TIMEOUT_S = 3.0  # a caller waits for it
_RETRY_AFTER_S = 1.0  # leaves time for a second connection if the first was dead
_MAX_KEYS_PER_QUERY = 500
_MAX_WAITING = 10_000
_READ_OTHER_LOGS_EVERY_S = 1.0


class TooManyLookups(Exception):
    """Too many unknown keys are waiting to be looked up."""


class KeyIndex:
    """Callers by the hash of their key.

    Misses are looked up together: however many unknown keys come at once, one query runs at a time, and a valid key waits for two at
    most. Unknown keys are remembered for a while. At most about `max_keys` callers are cached; `get_cached` finds them by hash.

    Each worker keeps a log of its own in `folder`. While Postgres is unavailable, keys in the logs of this machine's other workers are
    valid too.
    """

    def __init__(self, database_url: str, folder: Path, worker: str, max_keys: int = 50_000) -> None:
        self._connection = PgConnection(database_url, retry_after_s=_RETRY_AFTER_S, timeout_s=_LOOKUP_TIMEOUT_S)
        self._path = log_path(folder, worker)
        logged = read_log(self._path)
        self.version = logged.version
        self._unknown: dict[bytes, float] = {}
        self._pending: dict[bytes, asyncio.Future[Caller | None]] = {}
        self._queue: dict[bytes, str] = {}
        self._lookup_task: asyncio.Task[None] | None = None
        self._other_logs: dict[Path, tuple[int, LoggedKeys]] = {}
        self._other_logs_read_s = 0.0
        self._other_logs_lock = asyncio.Lock()
        self._log = KeyLog(self._path, lambda: LoggedKeys(self._callers.all_callers(), self.version))
        # An evicted key must leave the log as well: nobody would remove it if it were revoked.
        self._callers = CallerCache(max_keys, logged.callers, on_evicted=self._log.request_rewrite)
        self.get_cached = self._callers.get

    def __len__(self) -> int:
        return len(self._callers)

    async def find(self, key: str) -> Caller | None:
        """The caller of a key that is not cached; None: the key is unknown. Text that does not look like a key is never looked up.

        Raises TooManyLookups; an error of any kind if it could not be looked up, and no worker of this machine knows the key.
        """
        prefix = key_prefix(key)
        return None if prefix is None else await self.find_hashed(hash_key(key), prefix)

    async def find_hashed(self, hash: bytes, prefix: str) -> Caller | None:
        """The caller of a key that is not cached, by its hash and its public part without `nx-`. Raises as find() does."""
        if self._unknown.get(hash, 0.0) > time.monotonic():
            return None
        pending = self._pending.get(hash)
        if pending is None:
            if len(self._queue) >= _MAX_WAITING:
                raise TooManyLookups
            pending = self._pending[hash] = asyncio.get_running_loop().create_future()
            self._queue[hash] = prefix
            if self._lookup_task is None or self._lookup_task.done():
                self._lookup_task = asyncio.create_task(self._run_lookups())
        try:
            async with asyncio.timeout(_LOOKUP_TIMEOUT_S):
                return await asyncio.shield(pending)
        except Exception:  # whatever kept it from being looked up
            caller = await self._find_in_other_logs(hash)
            if caller is None:
                raise
            self._cache(hash, caller)
            return caller

    def invalidate(self, hash: bytes) -> None:
        """Forget a key that has changed: the next request looks it up."""
        self._unknown.pop(hash, None)
        # A look-up in progress may return the old state: good enough for the requests that wait for it, but not to be cached.
        if hash not in self._queue:
            self._pending.pop(hash, None)
        if self._callers.pop(hash):
            self._log.add(hash, None)

    def invalidate_teams(self, ids: set[str]) -> None:
        self._detach_pending()
        for hash in [hash for hash, caller in self._callers.all_callers().items() if caller.team_id in ids]:
            self.invalidate(hash)

    def set_version(self, version: int) -> None:
        """The cache is true up to this version of the keys."""
        if version != self.version:
            self.version = version
            self._log.add_version(version)

    async def revalidate_all(self) -> None:
        """Look up every cached key again, when it is unknown what has changed. Raises one of DB_UNAVAILABLE_ERRORS."""
        self._unknown.clear()
        self._detach_pending()
        prefixes_by_hash = {hash: caller.prefix.removeprefix("nx-") for hash, caller in self._callers.all_callers().items()}
        hashes = list(prefixes_by_hash)
        for start in range(0, len(hashes), _MAX_KEYS_PER_QUERY):
            before = {
                hash: caller for hash in hashes[start : start + _MAX_KEYS_PER_QUERY] if (caller := self._callers.peek(hash)) is not None
            }
            found = await self._query_callers({hash: prefixes_by_hash[hash] for hash in before})
            for hash, caller in before.items():
                # A caller that was evicted or looked up again meanwhile is newer than this result.
                if self._callers.peek(hash) is caller and found.get(hash) != caller:
                    self.invalidate(hash)

    async def close(self) -> None:
        if self._lookup_task is not None:
            self._lookup_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._lookup_task
        self._connection.close()
        await self._log.close()

    async def _run_lookups(self) -> None:
        while self._queue:
            batch = {hash: self._queue.pop(hash) for hash in list(self._queue)[:_MAX_KEYS_PER_QUERY]}
            futures = {hash: self._pending[hash] for hash in batch}
            try:
                found = await self._query_callers(batch)
            except Exception as fault:
                for hash, future in futures.items():
                    self._complete_lookup(hash, future, fault)
            else:
                for hash, future in futures.items():
                    self._complete_lookup(hash, future, found.get(hash))

    async def _query_callers(self, prefixes_by_hash: Mapping[bytes, str]) -> dict[bytes, Caller]:
        return await self._connection.run(lambda connection: callers.find_callers(connection, prefixes_by_hash))

    def _detach_pending(self) -> None:
        """Do not cache the results of look-ups in progress (see invalidate); queued ones will see the new state."""
        self._pending = {hash: future for hash, future in self._pending.items() if hash in self._queue}

    def _complete_lookup(self, hash: bytes, future: asyncio.Future[Caller | None], result: Caller | Exception | None) -> None:
        if self._pending.get(hash) is future:
            del self._pending[hash]
            if isinstance(result, Caller):
                self._cache(hash, result)
            elif result is None:
                if len(self._unknown) >= _MAX_UNKNOWN:
                    self._unknown.clear()
                self._unknown[hash] = time.monotonic() + _UNKNOWN_FOR_S
        if isinstance(result, Exception):
            future.set_exception(result)
            future.exception()  # marks it as retrieved: the caller may have disconnected
        else:
            future.set_result(result)

    def _cache(self, hash: bytes, caller: Caller) -> None:
        self._log.add(hash, caller)
        self._callers.put(hash, caller)

    async def _find_in_other_logs(self, hash: bytes) -> Caller | None:
        async with self._other_logs_lock:  # requests that come meanwhile wait, or they would be refused for nothing
            if time.monotonic() - self._other_logs_read_s > _READ_OTHER_LOGS_EVERY_S:
                self._other_logs = await asyncio.to_thread(_read_other_logs, self._path, self._other_logs)
                self._other_logs_read_s = time.monotonic()
        for _, logged in self._other_logs.values():
            # A worker with an older version may not know of a revocation that this one knows.
            if (logged.version or 0) >= (self.version or 0) and (caller := logged.callers.get(hash)) is not None:
                return caller
        return None


def _read_other_logs(own_path: Path, previous: Mapping[Path, tuple[int, LoggedKeys]]) -> dict[Path, tuple[int, LoggedKeys]]:
    logs: dict[Path, tuple[int, LoggedKeys]] = {}
    for path in own_path.parent.glob("keys-*.log"):
        if path == own_path:
            continue
        try:
            modified_ns = path.stat().st_mtime_ns
        except OSError:
            continue
        known = previous.get(path)
        logs[path] = known if known is not None and known[0] == modified_ns else (modified_ns, read_log(path))
    return logs
