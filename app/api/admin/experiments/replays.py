"""/admin/v1/replays: recorded requests that are answered again by another model or variant, and how both compare."""

from typing import Any, Literal

from msgspec import Struct

from app.api.admin.experiments.replay_order import ReplayOrder, start_replay
from app.api.rest.command import Command, Option
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.domain import uuid7
from app.results.replay_results import ReplayResults, read_results
from app.store.access.roles import Permission
from app.store.postgres.paging import After, Limit, Page
from app.store.replays import replays
from app.store.replays.replays import ItemStatus, Replay, ReplayItem, ReplayStatus
from app.store.replays.team_room import TooManyReplays
from providers.canonical.errors import Conflict, UnknownRecord

_TIMEOUT_S = 60.0  # of the statement that chooses the sample


class ReplayQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["created_at", "-created_at"] = "-created_at"
    status: ReplayStatus | None = None


class ItemQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["number", "-number"] = "number"
    status: ItemStatus | None = None


class _Replays:
    async def page(self, call: Call[ReplayQuery, NoBody]) -> Answer:
        query = call.query
        return Answer(await replays.page_replays(call.connection, query, only_teams=call.visible_teams(), status=query.status))

    async def show(self, call: Call[NoQuery, NoBody]) -> Answer:
        return Answer(await _find(call))

    async def items(self, call: Call[ItemQuery, NoBody]) -> Answer:
        found = await _find(call)
        return Answer(await replays.page_items(call.connection, found.id, call.query, call.query.status))

    async def results(self, call: Call[NoQuery, NoBody]) -> Answer:
        return Answer(await read_results(call.connection, await _find(call)))

    async def cancel(self, call: Call[NoQuery, NoBody]) -> Answer:
        found = await _find(call, lock=True)
        if found.status != "running":
            raise Conflict(f"The replay is {found.status}: there is nothing to cancel.")
        await replays.cancel_replay(call.connection, call.author, found.id)
        return Answer(await replays.find_replay(call.connection, found.id))

    async def resume(self, call: Call[NoQuery, NoBody]) -> Answer:
        found = await _find(call, lock=True)
        if found.status not in ("cancelled", "failed"):
            raise Conflict(f"The replay is {found.status}: only one that was cancelled, or that failed, can be resumed.")
        try:
            await replays.resume_replay(call.connection, call.author, found.id)
        except TooManyReplays as fault:
            raise Conflict(str(fault)) from None
        return Answer(await replays.find_replay(call.connection, found.id))

    async def delete(self, call: Call[NoQuery, NoBody]) -> Answer:
        found = await _find(call, lock=True)
        if found.status == "running":
            raise Conflict("The replay is running: cancel it first.")
        await replays.delete_replay(call.connection, call.author, found)
        return Answer(found)

    def operations(self) -> list[Operation[Any, Any]]:
        tag, missing = "Replays", {404: "There is no such replay, or it is not of one of your teams."}
        return [
            Operation(
                method="GET",
                path="/replays",
                id="list_replays",
                tag=tag,
                summary="List replays, the newest first",
                permission="records:read",
                scope="team",
                query=ReplayQuery,
                response=Page[Replay],
                commands=(
                    Command(
                        name="replay list",
                        nothing="There are no replays yet; docs/replay.md shows how to start one.",
                        data="replays",
                        render="replays.listed",
                    ),
                ),
                handler=self.page,
            ),
            Operation(
                method="POST",
                path="/replays",
                id="start_replay",
                tag=tag,
                summary="Answer recorded requests again by another model or variant",
                description="In the background, by one of the gateway's processes. `dry_run` says how many there are, and how many cannot"
                " be replayed, by reason. Your role must include what was written in the inferences, and keys of the team that pays.",
                permission="records:content",
                scope="team",
                access="write",
                body=ReplayOrder,
                response=Replay,
                status=201,
                errors={
                    404: "There is no such key, or it is not of one of your teams.",
                    409: "The team has as many replays that have not ended, or requests in replays, as it may have.",
                },
                example={
                    "model": "sandbox",
                    "key": "nx-0123456789ab",
                    "filter": {"model": "sandbox", "since": "2026-11-01"},
                    "max_items": 200,
                    "max_usd": 5,
                },
                timeout_s=_TIMEOUT_S,
                commands=(Command(name="replay start"),),
                handler=start_replay,
            ),
            Operation(
                method="GET",
                path="/replays/{id}",
                id="get_replay",
                tag=tag,
                summary="Show a replay, and how far it is",
                permission="records:read",
                scope="team",
                response=Replay,
                errors=missing,
                commands=(Command(name="replay show", render="replays.shown"),),
                handler=self.show,
            ),
            Operation(
                method="GET",
                path="/replays/{id}/items",
                id="list_replay_items",
                tag=tag,
                summary="List the inferences of a replay, with the values of both",
                permission="records:read",
                scope="team",
                query=ItemQuery,
                response=Page[ReplayItem],
                errors=missing,
                commands=(
                    Command(
                        name="replay items",
                        summary="List a replay's requests, and what came of each.",
                        help="REASON: why a request was refused, or why its pair has no judgement; docs/replay.md lists them.",
                        options={"sort": Option(constants={"--descending": ("-number", "The last first.")})},
                        data="items",
                        render="replays.items",
                    ),
                ),
                handler=self.items,
            ),
            Operation(
                method="GET",
                path="/replays/{id}/results",
                id="get_replay_results",
                tag=tag,
                summary="Show how the responses of a replay compare with the originals",
                description="At any time: the intervals hold at every look.",
                permission="records:read",
                scope="team",
                response=ReplayResults,
                errors=missing,
                commands=(
                    Command(name="replay results", summary="Compare a replay's responses with the originals.", render="replays.results"),
                ),
                handler=self.results,
            ),
            Operation(
                method="POST",
                path="/replays/{id}/cancel",
                id="cancel_replay",
                tag=tag,
                summary="Begin no further item of a replay",
                description="What is in progress goes on to its end.",
                permission="keys:write",
                scope="team",
                access="write",
                response=Replay,
                errors={**missing, 409: "It does not run."},
                commands=(Command(name="replay cancel", done="The replay {id} is cancelled; what is in progress goes on to its end."),),
                handler=self.cancel,
            ),
            Operation(
                method="POST",
                path="/replays/{id}/resume",
                id="resume_replay",
                tag=tag,
                summary="Go on with a replay that was cancelled, or that failed",
                permission="keys:write",
                scope="team",
                access="write",
                response=Replay,
                errors={**missing, 409: "It runs, or is complete."},
                commands=(Command(name="replay resume", done="The replay {id} goes on."),),
                handler=self.resume,
            ),
            Operation(
                method="DELETE",
                path="/replays/{id}",
                id="delete_replay",
                tag=tag,
                summary="Delete a replay that does not run, with its items and results",
                description="The inferences that it made stay.",
                permission="keys:write",
                scope="team",
                access="write",
                response=Replay,
                errors={**missing, 409: "It runs: cancel it first."},
                timeout_s=_TIMEOUT_S,
                commands=(
                    Command(name="replay delete", confirm="Delete replay {id} with its results?", done="The replay {id} is deleted."),
                ),
                handler=self.delete,
            ),
        ]


def operations() -> list[Operation[Any, Any]]:
    return _Replays().operations()


async def _find(call: Call[Any, Any], permission: Permission | None = None, *, lock: bool = False) -> Replay:
    id = call.path["id"].lower()
    found = await replays.find_replay(call.connection, id, lock=lock) if uuid7.is_uuid7(id) else None
    if found is None or not call.is_visible(found.team, permission):
        raise UnknownRecord(f"There is no replay {call.path['id']!r:.60}. GET /admin/v1/replays lists them.")
    return found
