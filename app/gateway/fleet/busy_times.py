"""Busy times: until when an endpoint wants no requests for a model, as its 503 with Retry-After said."""

import time

from providers.canonical.errors import Overloaded, QuotaExhausted, UpstreamError

# What hosts say of themselves; a 429 is about a credential, whose cooldown it begins.
_BUSY_STATUSES = (503, 529)
_MAX_MODELS = 256


class BusyTimes:
    """The busy times of one endpoint, as one worker sees it.

    They differ by model, as a server may be loading one of several. Times are by the monotonic clock.
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def __bool__(self) -> bool:
        """Whether it was ever busy: the usual request asks no more."""
        return bool(self._until)

    def record(self, model: str, error: UpstreamError, max_s: float) -> None:
        """Notes the time that the error names, if it is one of an endpoint that is busy. `max_s` is the longest that is waited."""
        wait_s = min(error.retry_after_s or 0.0, max_s)
        if wait_s <= 0 or not isinstance(error, Overloaded) or isinstance(error, QuotaExhausted):
            return
        if error.upstream_status in _BUSY_STATUSES:
            if len(self._until) >= _MAX_MODELS:
                self._until.clear()
            self._until[model] = time.monotonic() + wait_s

    def left_s(self, model: str, now: float) -> float:
        """Returns for how long it is still busy, 0.0 if it is not."""
        return max(0.0, self._until.get(model, 0.0) - now)

    def models(self) -> dict[str, float]:
        """Returns for how many seconds it is still busy, for each model for which it is."""
        now = time.monotonic()
        return {model: until - now for model, until in self._until.items() if until > now}

    def refuse(self, model: str, provider: str) -> Overloaded | None:
        """Returns the error for a request that has nowhere else to go, or None if it may be sent."""
        left_s = self.left_s(model, time.monotonic())
        if not left_s:
            return None
        message = f"{provider} is overloaded: it wants no requests for {model} for another {left_s:.1f} s."
        return Overloaded(message, retry_after_s=left_s)
