"""Feedback rate: how much a team may send to a process, so that it does not fill the spool and the tables of all."""

import time
from collections import OrderedDict
from collections.abc import Callable

from providers.canonical.errors import LimitExceeded

_BURST_S = 10.0
MAX_AT_ONCE = 1_000
# What is larger counts as several: 200 demonstrations a second of their full size would be 50 MB.
COUNTED_BYTES = 4 * 1024
_MAX_TEAMS = 10_000


def counted(size_bytes: int) -> int:
    """Returns the number of ordinary feedback events that one event of this size counts as."""
    return max(1, -(-size_bytes // COUNTED_BYTES))


class FeedbackRate:
    """A bucket for each team that fills evenly. `per_second` 0: there is no limit."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = max(per_second * _BURST_S, MAX_AT_ONCE)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # team -> what is left, and when that was

    def take(self, team_id: str, count: int) -> None:
        """Raises LimitExceeded, and then takes nothing. `count` is by counted(); more than MAX_AT_ONCE counts as that."""
        if self._per_second <= 0:
            return
        count = min(count, MAX_AT_ONCE)
        now = self._clock()
        left, since = self._buckets.pop(team_id, (self._burst, now))
        left = min(left + (now - since) * self._per_second, self._burst)
        has_room = left >= count
        self._buckets[team_id] = (left - count if has_room else left, now)
        if len(self._buckets) > _MAX_TEAMS:
            self._buckets.popitem(last=False)
        if not has_room:
            raise LimitExceeded(
                f"Your team sends more feedback than the {self._per_second:g} a second that each gateway process takes: try again later.",
                code="feedback_rate_limit_reached",
                details={},
                retry_after_s=(count - left) / self._per_second,
                headers=(),
            )
