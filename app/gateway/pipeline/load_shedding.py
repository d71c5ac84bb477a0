"""LoadShedder: refuses requests before this process has more of them than it can serve; lowest priorities and busiest teams first.

There is room for `requests_max` requests. While the event loop is late for a whole second, the room shrinks to what was too much, and
grows again slowly once it is not: the additive-increase, multiplicative-decrease of TCP.

A team may have at most four times as many requests in progress as there is room left, after Choudhury and Hahne's dynamic thresholds
(https://doi.org/10.1109/90.664262, read 2026-11). So one team alone may fill four fifths of the room, two four ninths each, and whoever
comes next finds some.
"""

import asyncio
import math
import time

from app.domain.callers import Caller
from app.process.background_tasks import BackgroundTask
from app.settings import Settings
from providers.canonical.errors import Unavailable

_SHARE_OF_REST = 4
# The part of the room that the highest and the lowest priority may fill. Between them it grows evenly.
_HIGHEST_PRIORITY_SHARE, _LOWEST_PRIORITY_SHARE = 1.0, 0.8
# So few requests are never the reason for a late event loop.
_LEAST_ROOM = 100
_SAMPLE_S = 0.1
_SAMPLES = 10
_RETRY_AFTER_S = 1.0


def _share(priority: int) -> float:
    return _LOWEST_PRIORITY_SHARE + (_HIGHEST_PRIORITY_SHARE - _LOWEST_PRIORITY_SHARE) * (priority + 100) / 200


class LoadShedder:
    """The requests in progress of this process, by team."""

    def __init__(self, settings: Settings) -> None:
        self._max = max(settings.requests_max, 1)
        self._max_lag_s = settings.shed_lag_s
        self.room = float(self._max)  # how many there may be now
        self.in_progress = 0
        self._of_teams: dict[str, int] = {}
        self.task = BackgroundTask("load shedding", self._watch_event_loop)

    @property
    def is_busy(self) -> bool:
        """Whether there is no room for what nobody waits for: half of it is taken, or the event loop was late a moment ago."""
        return self.in_progress * 2 > self.room or self.room < self._max

    def enter(self, caller: Caller) -> None:
        """Counts a request, until leave(). Raises Unavailable."""
        of_team = self._of_teams.get(caller.team_id, 0)
        if self.in_progress * 8 > self.room and of_team >= _SHARE_OF_REST * (self.room * _share(caller.priority) - self.in_progress):
            raise Unavailable("The gateway has as many requests as it can serve: try again.", retry_after_s=_RETRY_AFTER_S)
        self.in_progress += 1
        self._of_teams[caller.team_id] = of_team + 1

    def leave(self, caller: Caller) -> None:
        self.in_progress -= 1
        of_team = self._of_teams[caller.team_id] - 1
        if of_team:
            self._of_teams[caller.team_id] = of_team
        else:
            del self._of_teams[caller.team_id]

    def adapt(self, lag_s: float) -> None:
        """Changes the room by how late the event loop is: `lag_s` is the least by which it was late throughout the last second."""
        if lag_s > self._max_lag_s:
            self.room = max(_LEAST_ROOM, min(self.room, self.in_progress) * 0.9)
        else:
            self.room = min(self._max, self.room * 1.02 + 1)

    async def _watch_event_loop(self) -> None:
        while True:
            least_lag_s = math.inf
            for _ in range(_SAMPLES):
                due_s = time.monotonic() + _SAMPLE_S
                await asyncio.sleep(_SAMPLE_S)
                least_lag_s = min(least_lag_s, time.monotonic() - due_s)
            self.adapt(least_lag_s)
