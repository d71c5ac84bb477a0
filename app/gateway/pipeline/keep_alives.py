"""Keep-alives: callers of streams hear something while an engine is silent, before its first byte and within its response."""

import asyncio
import logging
import time
from typing import Protocol

from app.process.background_tasks import BackgroundTask
from app.settings import Settings
from providers.dialect import CallerDialect, ResponseMeta

log = logging.getLogger(__name__)

_LONGEST_TICK_S = 1.0
# Those that are sent one take longest: 50 of Responses about 4 ms, then others have their turn.
_CHECKED_AT_ONCE = 50


class WatchedStream(Protocol):
    """A response that a caller waits for, or the rest of it."""

    def check_silence(self, now_s: float, longest_s: float, dialect: CallerDialect, meta: ResponseMeta) -> None:
        """Sends a keep-alive, if the caller has heard nothing for so long. Waits for nothing. `now_s` is by the monotonic clock."""
        ...


class KeepAlives:
    """The streams of this process that are watched: one task looks at all of them, so that neither a request nor a chunk costs a timer."""

    def __init__(self, settings: Settings) -> None:
        self.longest_s = settings.stream_keep_alive_s  # the silence after which one is sent; 0: nothing is watched
        # What the keep-alives of each are made of; None: they failed. It is a dict because requests put themselves in and take themselves
        # out without a call.
        self.streams: dict[WatchedStream, tuple[CallerDialect, ResponseMeta] | None] = {}
        self.task = BackgroundTask("keep-alives", self._watch)

    async def _watch(self) -> None:
        tick_s = min(_LONGEST_TICK_S, self.longest_s / 5) or _LONGEST_TICK_S
        while True:
            await asyncio.sleep(tick_s)
            now_s = time.monotonic()
            for count, stream in enumerate(tuple(self.streams), 1):
                made_of = self.streams.get(stream)  # None, too, for one that has ended meanwhile
                if made_of is not None:
                    self._check(stream, now_s, *made_of)
                if count % _CHECKED_AT_ONCE == 0:
                    await asyncio.sleep(0)

    def _check(self, stream: WatchedStream, now_s: float, dialect: CallerDialect, meta: ResponseMeta) -> None:
        try:
            stream.check_silence(now_s, self.longest_s, dialect, meta)
        except Exception:  # the other streams must get theirs, and this one's response goes on
            log.exception("a keep-alive could not be sent")
            self.streams[stream] = None
