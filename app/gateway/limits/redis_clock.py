"""RedisClock: the time by Redis's clock, by which the periods of rules begin."""

import time


class RedisClock:
    """Runs beside this machine's clock, and is set by what Redis replies."""

    def __init__(self) -> None:
        self._skew_ms = 0.0

    def now_ms(self) -> float:
        """The time by Redis's clock, as far as it is known."""
        return time.time() * 1000 + self._skew_ms

    def set(self, now_ms: float) -> None:
        self._skew_ms = now_ms - time.time() * 1000
