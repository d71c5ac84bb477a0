"""ItemAllowance: what a request of a replay's item may spend, reserved of the replay's cap before it is sent."""

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.exchange import OriginKind
from app.gateway.replay.own_request import Withdrawn
from app.gateway.replay.replay_runs import HeldReplay, Item, begin_item, reserve_for_judge
from app.gateway.replay.spending import Spending


class ReplayFailed(Withdrawn):
    """No item can be run. The message says why."""


class ItemAllowance:
    """Implements context.Allowance."""

    def __init__(self, database: AsyncEngine, held: HeldReplay, spending: Spending, item: Item, kind: OriginKind) -> None:
        self._database = database
        self._held = held
        self._spending = spending
        self._item = item
        self._kind = kind
        self.microusd: int | None = None  # what is reserved; None: nothing
        self.fault: Exception | None = None  # why the request was withdrawn

    async def reserve(self, inference_id: str, cost_microusd: int | None) -> None:
        if cost_microusd is None and self._spending.cap_microusd is not None:
            raise ReplayFailed("A model that may serve has no price, so no cap in dollars can hold.")
        microusd = cost_microusd or 0
        await self._spending.reserve(microusd)
        try:
            async with self._database.begin() as connection:
                if self._kind == "replay":
                    await begin_item(connection, self._held, self._item, inference_id, microusd)
                else:
                    await reserve_for_judge(connection, self._held, self._item, microusd)
        except Exception as fault:
            await self._spending.settle(microusd, 0)
            self.fault = fault
            raise Withdrawn from None
        self.microusd = microusd
