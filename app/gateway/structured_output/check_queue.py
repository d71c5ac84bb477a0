"""The queue of a checking process: teams take turns, so that a team with many orders waits for itself and not others for it."""

import asyncio
from collections import deque

from app.gateway.structured_output.checker.protocol import CheckOrder, Verdict
from app.gateway.structured_output.checker_client import CheckerClient, CheckerUnavailable

_WaitingOrder = tuple[CheckOrder, asyncio.Future[Verdict]]


class TooManyOrders(CheckerUnavailable):
    """The team has as many orders waiting as it may."""


class CheckQueue:
    """One order of a team, then one of the next team, and so on; a team's own orders are checked in the order in which they came."""

    def __init__(self, checker: CheckerClient, max_waiting_per_team: int | None = None) -> None:
        self._checker = checker
        self._max_waiting_per_team = max_waiting_per_team
        self._waiting: dict[str, deque[_WaitingOrder]] = {}  # the team whose turn is next comes first; none is empty
        self._worker: asyncio.Task[None] | None = None

    async def check(self, team_id: str, check_order: CheckOrder) -> Verdict:
        """Raises CheckerUnavailable. If it is cancelled while the order waits, the order is never checked."""
        orders = self._waiting.setdefault(team_id, deque())
        if self._max_waiting_per_team is not None and len(orders) >= self._max_waiting_per_team:
            raise TooManyOrders(f"{len(orders)} orders of this team wait")
        verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        orders.append((check_order, verdict))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await verdict

    async def stop(self) -> None:
        """Stops the checking process after the order in progress. Orders that wait raise CheckerUnavailable."""
        await self._checker.stop()
        if self._worker is not None:
            await self._worker

    async def _work(self) -> None:
        try:
            while self._waiting:
                check_order, verdict = self._pop_next()
                if verdict.done():
                    continue
                try:
                    checked = await self._checker.check(check_order)
                except Exception as fault:
                    if not verdict.done():
                        verdict.set_exception(fault)
                else:
                    if not verdict.done():
                        verdict.set_result(checked)
        finally:
            self._worker = None

    def _pop_next(self) -> _WaitingOrder:
        team_id = next(iter(self._waiting))
        orders = self._waiting.pop(team_id)
        popped = orders.popleft()
        if orders:
            self._waiting[team_id] = orders
        return popped
