"""Cooldown: for how long a credential is left for last. Of one model, where the host has no room for that; of all, where it was refused.

Hosts limit each model by itself: https://platform.openai.com/docs/guides/rate-limits and https://docs.claude.com/en/api/rate-limits,
read 2026-11. So what is said of one says nothing of another.
"""

import time

import httpx

from providers.allowance import Allowance, read_allowance

# For a refused one: an operator may have mended it meanwhile.
_REFUSED_S = 60.0
# For one of which no token could be had.
_AWAY_S = 10.0
# For one that was told to come later, and not when.
_BUSY_S = 1.0
_LONGEST_S = 3600.0
_MOST_MODELS = 256


class _Room:
    """Of one model. `told`: the headers of the host's last answer, and when they came; read when somebody wants to know."""

    def __init__(self) -> None:
        self.until = 0.0
        self.judged_at = 0.0
        self.told: tuple[httpx.Headers, float] | None = None
        self._allowance: Allowance | None = None

    @property
    def allowance(self) -> Allowance | None:
        if self.told is not None:
            headers, at = self.told
            at_s = time.time() - (time.monotonic() - at)
            self._allowance, self.told = read_allowance(headers.raw, at, at_s) or self._allowance, None
        return self._allowance

    def rests(self, now: float) -> bool:
        allowance = self.allowance
        return self.until > now or (allowance is not None and allowance.spent_until > now)


class Cooldown:
    """Of one credential. Moments are by the monotonic clock. `refused`: it was not accepted, when last asked with."""

    def __init__(self) -> None:
        self.refused = False
        self.until = 0.0
        self._judged_at = 0.0
        self._rooms: dict[str, _Room] = {}

    def rests(self, now: float, model: str) -> bool:
        room = self._rooms.get(model)
        return self.until > now or (room is not None and room.rests(now))

    @property
    def models(self) -> dict[str, tuple[float, Allowance | None]]:
        """Of those that something was heard of: until when it rests, and what the host said last of how much it lets through."""
        return {model: (room.until, room.allowance) for model, room in self._rooms.items()}

    def heard(self, model: str, headers: httpx.Headers) -> None:
        """An answer's headers, which may tell how much more the host lets through."""
        self._room(model).told = headers, time.monotonic()

    def busy(self, model: str, retry_after_s: float | None) -> None:
        """It was told that there is no room for this model now."""
        room = self._room(model)
        room.judged_at = time.monotonic()
        room.until = room.judged_at + min(_BUSY_S if retry_after_s is None else retry_after_s, _LONGEST_S)

    def spent(self, retry_after_s: float | None) -> None:
        """Nothing is left of what was paid for."""
        self._rest(_REFUSED_S if retry_after_s is None else retry_after_s)

    def away(self) -> None:
        """No token could be had for it."""
        self._rest(_AWAY_S)

    def refuse(self) -> None:
        """It was not accepted."""
        self.refused = True
        self._rest(_REFUSED_S)

    def praise(self, model: str, asked_at: float) -> None:
        """It served a request of that moment, which says nothing of what another was told later."""
        if asked_at >= self._judged_at:
            self.refused, self.until = False, 0.0
        room = self._rooms.get(model)
        if room is not None and asked_at >= room.judged_at:
            room.until = 0.0

    def clear(self) -> None:
        """It is another credential."""
        self.refused, self.until = False, 0.0
        self._rooms.clear()

    def _rest(self, wait_s: float) -> None:
        self._judged_at = time.monotonic()
        self.until = self._judged_at + min(wait_s, _LONGEST_S)

    def _room(self, model: str) -> _Room:
        room = self._rooms.get(model)
        if room is None:
            if len(self._rooms) >= _MOST_MODELS:
                self._rooms.clear()
            room = self._rooms[model] = _Room()
        return room
