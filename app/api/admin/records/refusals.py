"""A sample of refused requests: GET /admin/v1/refusals."""

from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from app.api.admin.records.explain import explain_refusal
from app.api.admin.records.reasons import RefusalReason
from app.api.rest.command import Beside, Command, Option
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.api.rest.request_parsing import TimeText, parse_time
from app.domain import uuid7
from app.store.keys.key_format import parse_prefix
from app.store.postgres.paging import After, Limit, Page, read_cursor, write_cursor
from app.store.records.refusal_queries import RefusalFilter, StoredRefusal, list_refusals
from providers.canonical.errors import InvalidRequest

Text = Annotated[str, Meta(max_length=512)]


class RefusalQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    team: Annotated[Text, Meta(description="Only of the team with this name.")] | None = None
    key: Annotated[Text, Meta(description="Only of the key with this public part, also of one that is not known, or no longer.")] | None = (
        None
    )
    status: Annotated[str, Meta(pattern="^([45][0-9]{2}|[45]xx)$", description="Such as 429, or 4xx.")] | None = None
    rule: Annotated[Text, Meta(description="Only what this limit refused.")] | None = None
    error: Annotated[Text, Meta(description="Only with this error, such as LimitExceeded.")] | None = None
    route: Annotated[Text, Meta(description="Only of this route, such as openai_chat.")] | None = None
    model: Annotated[Text, Meta(description="Only of requests for this model, which may be none that is configured.")] | None = None
    request_id: Annotated[Text, Meta(description="Only with this `x-request-id`, as the response had it.")] | None = None
    since: TimeText | None = None
    until: TimeText | None = None
    limit: Limit = 50
    after: After | None = None


class Refusal(StoredRefusal, frozen=True, kw_only=True):
    """A refused request. `id`: what its response named as the inference; it is recorded only if it had a plan.

    `team`, `key` null: no key was sent, or an unknown one; `unknown_key`: the public part of that. `model`: as it was requested, empty if
    the request was not read. `param`: the field at fault. `rule`: the limit that refused. `message` null: it might quote the request.
    `passes_at`: when the same request would pass, if no other came; null: waiting does not help, or nothing says.
    `passes_at_is_estimate`: requests in flight hold a part of the limit, and may give it back earlier or later.
    """

    why: Annotated[RefusalReason, Meta(description="Why it was refused, in a sentence.")]


async def _list(call: Call[RefusalQuery, NoBody]) -> Answer:
    query, scope = call.query, "refusals"
    before = None if query.after is None else read_cursor(query.after, scope, [str])[0]
    if before is not None and not uuid7.is_uuid7(before):
        raise InvalidRequest("`after` must be the `next` of a page of this list.", param="after")
    found = await list_refusals(call.connection, _filter(call), before=before, limit=query.limit + 1)
    shown = [Refusal(**asdict(each), why=explain_refusal(each)) for each in found[: query.limit]]
    return Answer(Page(shown, write_cursor(scope, [shown[-1].id]) if len(found) > query.limit else None))


def _filter(call: Call[RefusalQuery, NoBody]) -> RefusalFilter:
    """Raises InvalidRequest."""
    query = call.query
    key = query.key and parse_prefix(query.key)
    if query.key is not None and key is None:
        raise InvalidRequest("`key` must be the public part of a key, such as nx-0123456789ab.", param="key")
    is_class = query.status is not None and query.status.endswith("xx")
    return RefusalFilter(
        team=query.team,
        key=key,
        route=query.route,
        model=query.model,
        status=None if query.status is None or is_class else int(query.status),
        status_class=int(query.status[0]) if query.status is not None and is_class else None,
        error=query.error,
        rule=query.rule,
        request_id=query.request_id,
        since=None if query.since is None else parse_time(query.since, "since"),
        until=None if query.until is None else parse_time(query.until, "until"),
        only_teams=call.visible_teams(),
    )


_COMMAND = Command(
    name="refusals",
    summary="Show who was refused, and why.",
    help="How many requests of each team, key, error and limit the gateway refused itself (in whole hours), then the newest of a sample of"
    " them.",
    examples=("refusals", "refusals --team search --status 429 --since 7d", "refusals --request-id order-17"),
    options={
        "team": Option(help="Only of this team; (unknown) for requests without a known key."),
        "request_id": Option(metavar="ID", help="Only the sample with this x-request-id, as the response had it."),
        "since": Option(default="1d"),
        "limit": Option(default="20", help="Most groups, and most samples."),
    },
    beside={
        "counts": Beside(
            "get_analytics",
            fields=("team", "key", "model", "route", "status", "error", "rule", "since", "until", "limit"),
            fixed={"group_by": "team,key,error,rule", "outcome": "refused", "order_by": "refused"},
            unless="request_id",  # sums know no request
        )
    },
    data="sample",
    render="refusals.shown",
    json='{"counts": {"data": [{"group", "refused", ...}], "has_more", ...} or null with --request-id, "sample": [{"id", "received_at",'
    ' "team", "key", "model", "route", "status", "error", "rule", "message", ...}], "next"}',
)


def operations() -> list[Operation[Any, Any]]:
    return [
        Operation(
            method="GET",
            path="/refusals",
            id="list_refusals",
            tag="Records",
            summary="List a sample of refused requests",
            description="Newest first: who was refused and why, without anything of what was written. It is a sample, bounded for each"
            " minute, team and reason; `GET /admin/v1/analytics` with `outcome=refused` has the number of all. Requests without a known"
            " key are shown to those who may read the records of all teams.",
            permission="records:read",
            scope="team",
            query=RefusalQuery,
            response=Page[Refusal],
            commands=(_COMMAND,),
            handler=_list,
        )
    ]
