"""One item of a replay: its request once more, what both responses say, and what a judge makes of them."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.callers import Caller
from app.domain.exchange import Exchange, Origin, OriginKind
from app.domain.inference_paths import PATHS_BY_ROUTE
from app.gateway.pipeline.gateway import Gateway
from app.gateway.replay import judge
from app.gateway.replay.item_allowance import ItemAllowance, ReplayFailed
from app.gateway.replay.judge import JudgedPair, NoJudgement, judge_pair
from app.gateway.replay.own_request import OwnResponse, Withdrawn, make_request
from app.gateway.replay.recorded_requests import RecordedRequests
from app.gateway.replay.replay_runs import (
    HeldReplay,
    Item,
    OriginalErased,
    RecordedRequest,
    ReplayCancelled,
    settle_item,
    take_item,
)
from app.gateway.replay.spending import CapReached, Spending
from app.gateway.replay.stored_request import HEADERS, NotRunnable, ReplayTarget, SentAgain, prepare_request
from app.gateway.response_translation.written import WrittenChoice, as_text, say_the_same
from app.gateway.routing.permissions import may_come_from, may_use
from app.store.keys.callers import find_key_holder
from app.store.records.outcome_conditions import has_schema_failure, is_refused
from providers.canonical.errors import (
    BodyMemoryExceeded,
    CallerCredentialRequired,
    LimitExceeded,
    LimitUnsatisfiable,
    NarthexError,
    NotAllowed,
    OperationNotSupported,
    Unavailable,
    UnknownModel,
    Unsupported,
    UpstreamError,
)
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS

_FIRST_WAIT_S, _MAX_WAIT_S = 0.5, 30.0
# Of an item that processes have begun and not ended: perhaps it is what ends them.
_MAX_TRIES = 5
# After so many it runs alone: what ends the next process is then not what happened to run beside it.
_TRIES_BESIDE_OTHERS = 1
# The gateway has no place at the moment, which says nothing of the model.
_BUSY = (LimitExceeded, BodyMemoryExceeded, Unavailable)
# About the key or the configuration: every other item would end alike.
_HOPELESS = (CallerCredentialRequired, NotAllowed, UnknownModel)
# What whoever used the model instead would have got: an error of the model's, as results count it.
_ERRORS_OF_MODEL = (UpstreamError, Unsupported, OperationNotSupported)


class LeftForLater(Withdrawn):
    """The item waits for room, and the replay is to be left meanwhile."""


class _Pair(Struct, frozen=True):
    """A recorded response and the replayed one; each is None if what was written is not known."""

    prompt: bytes  # what was to be answered, as JSON
    original: tuple[WrittenChoice, ...] | None
    replayed: tuple[WrittenChoice, ...] | None

    @property
    def same(self) -> bool | None:
        return say_the_same(self.original, self.replayed)


class ItemRuns:
    """Runs items of one replay, several at a time.

    Once `leaves` is set, an item that waits for room is left for later. `waits_for` is why the newest request has to wait; None means that
    none does.
    """

    def __init__(self, gateway: Gateway, database: AsyncEngine, held: HeldReplay, spending: Spending, leaves: asyncio.Event) -> None:
        self._gateway = gateway
        self._database = database
        self._held = held
        self._spending = spending
        self._leaves = leaves
        self._recorded = RecordedRequests(gateway, database)
        self.waits_for: str | None = None

    async def run(self, item: Item) -> None:
        """Raises CapReached, LeaseLost, LeftForLater, ReplayCancelled, ReplayFailed, and one of DB_UNAVAILABLE_ERRORS."""
        async with self._database.begin() as connection:
            await take_item(connection, self._held, item)
        try:
            original = await self._recorded.read(item.original_id)
            async with self._recorded.open_body(original) as body:
                sent = await self._prepare(original, body)
                del body
                response = await self._send(item, original, sent)
        except NotRunnable as fault:
            await self._settle(item, 0, 0, status="refused", reason=fault.reason)
            return
        except (CapReached, LeftForLater, ReplayCancelled, ReplayFailed):
            await self._settle(item, 0, 0, status="pending", tries=item.tries)
            raise
        assert response.exchange is not None
        replayed = None if response.body is None else await self._recorded.written(original, response.body, streamed=original.streamed)
        pair = _Pair(sent.prompt, await self._recorded.recorded_writing(original), replayed)
        known: dict[str, Any] = {"original": original.values, "replayed": values_of(response.exchange), "same": pair.same}
        await self._finish(item, original, pair, known)

    async def settle_interrupted(self, items: Sequence[Item]) -> None:
        """Counts what the process that had begun them may have spent: before this one reserves anything."""
        for item in items:
            if item.began_at is None and not item.reserved_microusd:
                continue  # another process has, and ended
            # Of what was in progress nobody knows what it cost: as much as was reserved counts, unless the record says it.
            found = None if item.replayed is not None else await self._recorded.find_response(item)
            cost = item.reserved_microusd if found is None else found.values["cost_microusd"] or 0
            async with self._database.begin() as connection:
                settled: dict[str, Any] = {"reserved_microusd": item.reserved_microusd, "cost_microusd": cost}
                await settle_item(connection, self._held, item, **settled, began_at=None)
            await self._spending.settle(0, cost)

    async def finish_interrupted(self, item: Item) -> None:
        """Finishes an item that another process had begun when it ended.

        The response is taken over if it was recorded, else the item is run again. Its cost is settled. Raises
        what run() does.
        """
        if item.tries >= _MAX_TRIES:
            status, reason = ("refused", "interrupted") if item.replayed is None else ("done", "judge_interrupted")
            await self._settle(item, 0, 0, status=status, reason=reason)
            return
        await self._settle(item, 0, 0, tries=item.tries + 1)
        answered = await self._recorded.find_response(item)
        if answered is None or answered.outcome not in ("answered", "failed"):
            await self._settle(item, 0, 0, status="pending", tries=item.tries)
            if item.tries > _TRIES_BESIDE_OTHERS:
                await self.run(item)
            return
        try:
            original = await self._recorded.read(item.original_id)
            async with self._recorded.open_body(original) as body:
                sent = await self._prepare(original, body)
        except NotRunnable as fault:
            await self._settle(item, 0, 0, status="refused", reason=fault.reason)
            return
        pair = _Pair(sent.prompt, await self._recorded.recorded_writing(original), await self._recorded.recorded_writing(answered))
        known: dict[str, Any] = {"original": original.values, "replayed": answered.values, "same": pair.same}
        await self._finish(item, original, pair, known)

    async def _finish(self, item: Item, original: RecordedRequest, pair: _Pair, known: dict[str, Any]) -> None:
        configured = self._held.definition.judge
        if configured is None:
            await self._settle(item, 0, 0, **known, status="done", reason=None)
            return
        await self._settle(item, 0, 0, **known)  # whatever becomes of the judge
        try:
            judgement, reason = await self._judge(item, original, pair), None
        except (NoJudgement, NotRunnable) as fault:
            judgement, reason = None, fault.reason
        except CapReached:
            await self._settle(item, 0, 0, status="done", reason="cap")
            raise
        except (LeftForLater, ReplayFailed):
            await self._settle(item, 0, 0, tries=item.tries)
            raise
        await self._settle(item, 0, 0, status="done", judgement=None if judgement is None else to_builtins(judgement), reason=reason)

    async def _judge(self, item: Item, original: RecordedRequest, pair: _Pair) -> judge.Judgement:
        """Raises NoJudgement."""
        configured = self._held.definition.judge
        assert configured is not None
        function = self._gateway.snapshot_cache.snapshot.functions.get(configured.function)
        if function is None:
            raise ReplayFailed(f"There is no function {configured.function!r:.100} to judge any more.")
        if pair.original is None or pair.replayed is None:
            raise NoJudgement("no_response_to_judge")
        if pair.same:
            return judge.Judgement(0.5, 0.5, 0.5, False)

        async def send(body: bytes) -> OwnResponse:
            return await self._make_request(item, original, "judge", judge.ROUTE, judge.PATH, body)

        try:
            judged = JudgedPair(pair.prompt, as_text(pair.original), as_text(pair.replayed))
        except RecursionError:
            raise NoJudgement("no_response_to_judge") from None
        return await judge_pair(send, configured, function, judged)

    async def _send(self, item: Item, original: RecordedRequest, sent: SentAgain) -> OwnResponse:
        """Raises NotRunnable where the gateway refuses the request itself."""
        response = await self._make_request(item, original, "replay", original.route, PATHS_BY_ROUTE[original.route], sent.raw)
        if response.exchange is None or (response.error is not None and not isinstance(response.error, _ERRORS_OF_MODEL)):
            raise NotRunnable("limit" if isinstance(response.error, LimitUnsatisfiable) else type(response.error).__name__)
        return response

    async def _make_request(
        self, item: Item, original: RecordedRequest, kind: OriginKind, route: str, path: str, body: bytes
    ) -> OwnResponse:
        """Makes the request, if need be again until the gateway has room for it, and settles its cost."""
        dialect, wait_s = CALLER_CHAT_DIALECTS[route], _FIRST_WAIT_S
        while True:
            caller = await self._find_caller(original)
            origin = Origin(kind, original.id, self._held.id, None if caller.team_id == original.team_id else original.team_id)
            allowance = ItemAllowance(self._database, self._held, self._spending, item, kind)
            try:
                response = await make_request(self._gateway, dialect, path, body, HEADERS, caller, origin, allowance)
            except Withdrawn:
                if isinstance(allowance.fault, OriginalErased):
                    raise NotRunnable("erased") from None
                if allowance.fault is not None:
                    raise allowance.fault from None
                raise
            is_busy = isinstance(response.error, _BUSY) and not isinstance(response.error, LimitUnsatisfiable)
            cost = 0 if response.exchange is None else response.exchange.cost_microusd or 0
            # Whatever ends this process while the item waits, the item does not.
            waiting = {"tries": item.tries, **({"status": "pending"} if kind == "replay" else {})} if is_busy else {}
            if allowance.microusd is not None or waiting:
                await self._settle(item, allowance.microusd or 0, cost, began_at=None, **waiting)
            if isinstance(response.error, _HOPELESS) and not self._is_of_item_alone(response.error, kind, caller):
                raise ReplayFailed(response.error.message)
            if not is_busy:
                return response
            assert response.error is not None
            self.waits_for = response.error.message
            wait_s = min(_MAX_WAIT_S, 2 * wait_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(_MAX_WAIT_S, max(wait_s, response.error.retry_after_s or 0.0))):
                    await self._leaves.wait()
            if self._leaves.is_set():
                raise LeftForLater
            self.waits_for = None

    def _is_of_item_alone(self, error: NarthexError, kind: OriginKind, caller: Caller) -> bool:
        """Whether the key may not use the item's API, or a model that the item names beside that of the replay."""
        is_of_plan = error.param == "model"  # a place that check_named_models() names is never this one
        return kind == "replay" and isinstance(error, NotAllowed) and not is_of_plan and may_use(caller, self._held.definition.model)

    async def _find_caller(self, original: RecordedRequest) -> Caller:
        """Who pays, by the key as it is now. What another team wrote is not recorded under the name of this one."""
        async with self._database.connect() as connection:
            caller = await find_key_holder(connection, key_id=self._held.key_id)
        if caller is None:
            raise ReplayFailed("The key that pays was revoked.")
        if caller.expires_s is not None and caller.expires_s <= self._gateway.snapshot_cache.now_s():
            raise ReplayFailed("The key that pays has expired.")
        if not may_come_from(caller, None):
            raise ReplayFailed("The key that pays may only be used from some networks.")
        return caller if caller.team_id == original.team_id else replace(caller, content="none")

    async def _prepare(self, original: RecordedRequest, body: bytes) -> SentAgain:
        large_requests = self._gateway.large_requests.of_team(original.team_id)
        target = self._find_target()
        return await large_requests.run_if_large(len(body), prepare_request, original.route, body, original.function, target)

    def _find_target(self) -> ReplayTarget:
        snapshot, definition = self._gateway.snapshot_cache.snapshot, self._held.definition
        if definition.model in snapshot.models:
            return ReplayTarget(definition.model, definition.variant, is_function=False)
        if definition.model in snapshot.functions:
            return ReplayTarget(definition.model, definition.variant, is_function=True)
        raise ReplayFailed(f"There is no model or function {definition.model!r:.100} any more.")

    async def _settle(self, item: Item, reserved: int, cost: int, **columns: Any) -> None:
        async with self._database.begin() as connection:
            await settle_item(connection, self._held, item, reserved_microusd=reserved, cost_microusd=cost, **columns)
        await self._spending.settle(reserved, cost)


def values_of(exchange: Exchange) -> dict[str, Any]:
    """Returns the metrics of an exchange, as read_request() returns those of a recorded one."""
    return {
        **{"error": exchange.outcome != "answered", "schema_failure": has_schema_failure(exchange)},
        **{"refusal": is_refused(exchange), "latency_us": exchange.duration_us},
        **{"cost_microusd": exchange.cost_microusd, "input_tokens": exchange.charged_input, "output_tokens": exchange.charged_output},
    }
