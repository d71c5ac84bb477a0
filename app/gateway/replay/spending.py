"""The amount that a replay may still spend: it is reserved before a request and settled after it.

One process runs a replay, so its memory is enough.
"""

import asyncio

from app.gateway.replay.own_request import Withdrawn


class CapReached(Withdrawn):
    """The next request might cost more than is left."""


class Spending:
    """The amounts that a replay has spent and reserved, against its cap."""

    def __init__(self, cap_microusd: int | None, spent_microusd: int) -> None:
        self.cap_microusd = cap_microusd  # None: no cap
        self.spent_microusd = spent_microusd  # charged so far, by every process that ran the replay
        self.reserved_microusd = 0
        self._settled = asyncio.Condition()

    async def reserve(self, microusd: int) -> None:
        """Waits while requests in progress may give back what is missing. Raises CapReached."""
        async with self._settled:
            while self.cap_microusd is not None and self.spent_microusd + self.reserved_microusd + microusd > self.cap_microusd:
                if not self.reserved_microusd:
                    raise CapReached
                await self._settled.wait()
            self.reserved_microusd += microusd

    async def settle(self, reserved_microusd: int, spent_microusd: int) -> None:
        async with self._settled:
            self.reserved_microusd -= reserved_microusd
            self.spent_microusd += spent_microusd
            self._settled.notify_all()
