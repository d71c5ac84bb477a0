"""Circuit breaker: takes an endpoint out of rotation for a while after failures in a row."""

import time

from providers.canonical.errors import UpstreamError

_NO_TEAMS: frozenset[str] = frozenset()
_DOUBTED_TEAMS = 2


class Breaker:
    """One endpoint's breaker, as one worker sees it. While it is open, the endpoint is tried last, not never.

    After that it is half-open: one request is let through, and the breaker stays open for the others until that one has succeeded.
    """

    def __init__(self) -> None:
        self.consecutive_failures = 0
        self.open_until = 0.0  # by the monotonic clock; 0.0 = closed
        self._half_open_s: float | None = None
        self._in_doubt_of = _NO_TEAMS

    def is_open(self, now: float) -> bool:
        return self.open_until > now

    def begin_request(self, now: float) -> None:
        """A request is sent there."""
        if self._half_open_s is not None and self.open_until <= now:
            self.open_until = now + self._half_open_s

    def record_success(self) -> None:
        self.consecutive_failures = 0
        self._in_doubt_of = _NO_TEAMS
        if self._half_open_s is not None:
            self.close()

    def record_failure(self, error: UpstreamError, max_failures: int, open_s: float, in_doubt_of: str | None = None) -> None:
        """Counts the error if it is the endpoint's fault; any other error shows that the endpoint works, and resets the count.

        `in_doubt_of` is the team whose request made another endpoint fail, too, and may be at fault. Its failures count once those of
        another team do so, with no success between them: then it is the endpoints that fail.
        """
        if not error.counts_as_failure:
            self.record_success()
            return
        if in_doubt_of is not None and len(self._in_doubt_of) < _DOUBTED_TEAMS:
            self._in_doubt_of |= {in_doubt_of}
            if len(self._in_doubt_of) < _DOUBTED_TEAMS:
                return
        self.consecutive_failures += 1
        if self.consecutive_failures >= max_failures:
            self._half_open_s = open_s
            self.open_for(open_s)

    def open_for(self, seconds: float) -> None:
        self.open_until = time.monotonic() + seconds

    def close(self) -> None:
        """Puts the endpoint back into rotation. Failures in a row stay counted until a request succeeds."""
        self.open_until = 0.0
        self._half_open_s = None
