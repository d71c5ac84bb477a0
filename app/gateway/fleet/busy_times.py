"""Busy times: until when an endpoint wants no requests for a model, as its 503 with Retry-After said."""

import time
from typing import NamedTuple

from providers.canonical.errors import Overloaded, QuotaExhausted, UpstreamError

# What hosts say of themselves; a 429 is about a credential, whose cooldown it begins.
_BUSY_STATUSES = (503, 529)
_MAX_MODELS = 256


class _Busy(NamedTuple):
    until: float
    team_id: str | None  # for whose requests alone; None: for everybody's


class BusyTimes:
    """The busy times of one endpoint, as one worker sees it.

    They differ by model, as a server may be loading one of several. They hold for the team whose request was answered so, as that may be
    what the endpoint could not take; and for everybody once a request of another team is, too, meanwhile. Times are by the monotonic clock.
    """

    def __init__(self) -> None:
        self._until: dict[str, _Busy] = {}

    def __bool__(self) -> bool:
        """Whether it was ever busy: the usual request asks no more."""
        return bool(self._until)

    def record(self, model: str, error: UpstreamError, max_s: float, team_id: str | None = None) -> None:
        """Notes the time that the error names, if it is one of an endpoint that is busy. `max_s` is the longest that is waited.

        Without a `team_id` the request was no team's.
        """
        wait_s = min(error.retry_after_s or 0.0, max_s)
        if wait_s <= 0 or not isinstance(error, Overloaded) or isinstance(error, QuotaExhausted):
            return
        if error.upstream_status in _BUSY_STATUSES:
            if len(self._until) >= _MAX_MODELS:
                self._until.clear()
            now, before = time.monotonic(), self._until.get(model)
            is_for_all = before is not None and before.until > now and before.team_id != team_id
            self._until[model] = _Busy(now + wait_s, None if is_for_all else team_id)

    def left_s(self, model: str, now: float, team_id: str | None = None) -> float:
        """Returns for how long it is still busy for a team, 0.0 if it is not. None: for everybody."""
        busy = self._until.get(model)
        return 0.0 if busy is None or busy.team_id not in (None, team_id) else max(0.0, busy.until - now)

    def models(self) -> dict[str, float]:
        """Returns for how many seconds it is still busy, for each model for which it is for any team."""
        now = time.monotonic()
        return {model: busy.until - now for model, busy in self._until.items() if busy.until > now}

    def refuse(self, model: str, provider: str, team_id: str) -> Overloaded | None:
        """Returns the error for a team's request that has nowhere else to go, or None if it may be sent."""
        left_s = self.left_s(model, time.monotonic(), team_id)
        if not left_s:
            return None
        message = f"{provider} is overloaded: it wants no requests for {model} for another {left_s:.1f} s."
        return Overloaded(message, retry_after_s=left_s)
