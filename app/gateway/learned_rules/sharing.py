"""Learned rules in Redis, so that what one worker learns all workers know a moment later.

One hash, `nx:learned`, has a field for each rule, and as its value the whole rule with when it ends. Each worker reads it every second:
without rules that is the shortest reply there is, and no connection has to be kept for messages that hardly ever come. What a worker
learns it writes at once. While Redis is away, or without it, each worker knows its own rules alone.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import cast

import msgspec

from app.gateway.learned_rules.store import LearnedRuleStore, StoredRule
from app.gateway.limits.counters.counters import RedisCounters
from app.process.background_tasks import BackgroundTask
from app.store.redis.replies import RedisReplyError, RedisUnavailable
from app.store.redis.resp import command

KEY = b"nx:learned"
_INTERVAL_S = 1.0
_MAX_STORED = 1024
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(StoredRule).decode


class RuleSharing:
    def __init__(self, store: LearnedRuleStore, counters: RedisCounters) -> None:
        self._store = store
        self._counters = counters
        self._key = counters.key(KEY)
        self._learned = asyncio.Event()
        store.on_learned = self._learned.set
        self.task = BackgroundTask("learned rules", self._keep_shared)

    async def _keep_shared(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL_S):
                    await self._learned.wait()
            self._learned.clear()
            self._store.expire()
            if self._counters.is_ready:
                with contextlib.suppress(RedisUnavailable, RedisReplyError):
                    await self.share()

    async def share(self) -> None:
        """Writes what other workers do not know, and reads what they know. Raises RedisUnavailable and RedisReplyError."""
        unshared = list(self._store.unshared)
        if unshared:
            fields = [part for each in unshared for part in (_encode(each.key), _encode(each))]
            await self._counters.call(command((b"HSET", self._key, *fields)))
            keep_ms = b"%d" % (self._store.keep_s * 1000 + 1)
            await self._counters.call(command((b"PEXPIRE", self._key, keep_ms)))
            del self._store.unshared[: len(unshared)]
        replies = cast("Sequence[bytes]", await self._counters.call(command((b"HGETALL", self._key))))
        if replies:
            await self._read(replies)

    async def _read(self, replies: Sequence[bytes]) -> None:
        stored: dict[bytes, StoredRule] = {}
        unreadable: list[bytes] = []
        for field, value in zip(replies[::2], replies[1::2], strict=True):
            try:
                stored[field] = _decode(value)
            except msgspec.MsgspecError:  # of another version
                unreadable.append(field)
        over = [field for field, each in stored.items() if self._store.is_over(each)]
        if len(replies) > 2 * _MAX_STORED:
            ends_first = sorted(stored, key=lambda field: stored[field].until_s)
            over = list({*over, *unreadable, *ends_first[: len(stored) - _MAX_STORED]})
        self._store.merge(each for field, each in stored.items() if field not in over)
        if over:
            await self._counters.call(command((b"HDEL", self._key, *over)))
