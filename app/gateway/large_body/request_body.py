"""The body of one request: its bytes, and where work on them runs."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from app.gateway.large_body.body_size import LARGE_BYTES, SMALL_BYTES, is_large, is_slow_to_record
from app.gateway.large_body.large_requests import LargeRequests, TeamLargeRequests
from providers.dialect import CallerDialect, InboundRequest

P = ParamSpec("P")
T = TypeVar("T")


class RequestBody:
    """Work on a large body runs beside the event loop, in the turns of its team; on any other, at once."""

    __slots__ = ("_has_large_raw", "_large_requests", "_measured", "_team_id", "is_large", "raw")

    def __init__(self, raw: bytes, large_requests: LargeRequests, team_id: str) -> None:
        self.raw = self._measured = raw  # the bytes, as recorded
        self.is_large = self._has_large_raw = len(raw) > SMALL_BYTES and is_large(raw)
        self._large_requests, self._team_id = large_requests, team_id

    @property
    def large_requests(self) -> TeamLargeRequests:
        return self._large_requests.of_team(self._team_id)

    @property
    def beside_loop(self) -> TeamLargeRequests | None:
        """Returns where work on the body runs, or None if that is at once."""
        return self.large_requests if self.is_large else None

    def is_slow_to_record(self, *, is_masked: bool) -> bool:
        """Whether recording the bytes would hold up the event loop: `is_large` may be about what an engine gets instead of them."""
        if self.raw is self._measured and not is_masked:  # whose size is known
            return self._has_large_raw
        return is_slow_to_record(self.raw, is_masked=is_masked)

    async def parse_large(self, dialect: CallerDialect) -> InboundRequest:
        """Parses a body that is large. Raises InvalidRequest."""
        return await self.large_requests.parse(dialect, self.raw)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self.is_large:
            return await self.large_requests.run(work, *args, **kwargs)
        return work(*args, **kwargs)

    def grow(self, size_bytes: int) -> None:
        """Notes the size that an engine gets: with the history of its conversation, or as a template makes it."""
        self.is_large = self.is_large or size_bytes > LARGE_BYTES
