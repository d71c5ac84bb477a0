"""The key of a session, and the requests that were sent with it: /admin/v1/own/key, /own/inferences and /own/inferences/{id}."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.api.admin.records.inference_detail import DetailQuery, FoundInference, InferenceDetails, InferenceWithContent
from app.api.admin.records.inference_filters import Outcomes, parse_id, to_filter
from app.api.admin.records.inferences import (
    TIMEOUT_S,
    InferencePage,
    InferenceQuery,
    ListedInference,
    check_preview,
    shown_fields,
)
from app.api.rest.fields import Values
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.request_parsing import TimeText
from app.domain.callers import Caller, ContentPolicy
from app.settings import Settings
from app.store.keys.callers import find_key_holder
from app.store.keys.key_format import parse_prefix
from app.store.messages.previews import read_previews
from app.store.postgres.paging import Limit
from app.store.records import inference_queries
from app.store.teams.shown_keys import show_key
from providers.canonical.errors import InvalidRequest, UnknownRecord

_SENT_BY_PEOPLE = (None, "playground")  # origins: not what the gateway made of others' requests, for which this key only pays


class OwnKey(Struct, frozen=True, kw_only=True):
    """The key that a request or session has, without its secret. Restrictions are those that hold: its own and its team's."""

    prefix: str
    name: str
    team: str
    admin: bool
    created_at: str
    expires_at: str | None
    models: Sequence[str] | None
    routes: Sequence[str] | None
    networks: Sequence[str] | None
    content: Annotated[ContentPolicy, Meta(description="What is recorded of its requests and responses.")]


class OwnInferenceQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    model: Annotated[Values, Meta(description="Only of requests for this model.")] | None = None
    outcome: Annotated[Outcomes, Meta(description="Only with this outcome.")] | None = None
    since: TimeText | None = None
    until: TimeText | None = None
    limit: Limit = 50
    before: Annotated[str, Meta(max_length=4096, description="`next` of the page before.")] | None = None
    preview: Annotated[bool, Meta(description="Also the `preview` of each.")] = False


async def _show_key(call: Call[NoQuery, NoBody]) -> Answer:
    caller = await _find_caller(call)
    row = await show_key(call.connection, caller.prefix)
    assert row is not None, "its caller was found in this transaction"
    return Answer(
        OwnKey(
            prefix=caller.prefix,
            name=row.name,
            team=caller.team,
            admin=caller.admin,
            created_at=row.created_at,
            expires_at=row.expires_at,
            models=caller.models,
            routes=caller.routes,
            networks=caller.networks,
            content=caller.content,
        )
    )


async def _find_caller(call: Call[Any, Any]) -> Caller:
    found = await find_key_holder(call.connection, prefix=parse_prefix(_own_prefix(call)))
    if found is None:
        raise UnknownRecord("The key was revoked a moment ago.")
    return found


def _own_prefix(call: Call[Any, Any]) -> str:
    """The public part of the key, with nx-. Raises InvalidRequest."""
    if call.principal.kind not in ("key", "caller"):
        raise InvalidRequest("You are signed in without a key, so no request is of your own key. GET /admin/v1/inferences lists requests.")
    return call.principal.id


async def _find_own(call: Call[DetailQuery, NoBody], connection: AsyncConnection) -> FoundInference:
    id, own = parse_id(call.path["id"], "id"), _own_prefix(call)
    row = await inference_queries.find_inference(connection, id)
    if row is None or row["key"] != own or row["origin"] not in _SENT_BY_PEOPLE:
        raise UnknownRecord(f"No inference {id} was made with your key. A new one appears here a moment after its response.")
    return FoundInference(row, hidden=False, teams=frozenset({row["team"]}))


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    async def list_inferences(call: Call[OwnInferenceQuery, NoBody]) -> Answer:
        query, own = call.query, _own_prefix(call)
        check_preview(query.limit, preview=query.preview)
        wanted = InferenceQuery(model=query.model, outcome=query.outcome, since=query.since, until=query.until, key=own)
        filters = to_filter(wanted, None, sent_by_people=True)
        before = query.before and parse_id(query.before, "before")
        page = await inference_queries.page_inferences(
            call.connection, filters, keep_hours_days=settings.keep_hours_days, before=before or None, limit=query.limit
        )
        previews = await read_previews(call.connection, {row["id"]: row["route"] for row in page.rows}) if query.preview else {}
        more = [{"preview": previews.get(row["id"])} if query.preview else {} for row in page.rows]
        rows = [ListedInference(**shown_fields(call, row), **added) for row, added in zip(page.rows, more, strict=True)]
        return Answer(InferencePage(rows, page.next, None))

    missing = {404: "There is no such inference, or it was made with another key."}
    return [
        Operation(
            method="GET",
            path="/own/key",
            id="get_own_key",
            tag="Own key",
            summary="Show the key that you use, and what it may do",
            description="For sessions that a key began, and for keys themselves: it need not be an admin key.",
            permission=None,
            response=OwnKey,
            caller_route="",
            commands=(),
            handler=_show_key,
        ),
        Operation(
            method="GET",
            path="/own/inferences",
            id="list_own_inferences",
            tag="Own key",
            summary="List the inferences of the key that you use, newest first",
            description="Those that were sent with it, also in the playground. It need not be an admin key, but one that may use"
            " /v1/inferences/{id}.",
            permission=None,
            query=OwnInferenceQuery,
            response=InferencePage,
            timeout_s=TIMEOUT_S,
            caller_route=_ROUTE,
            commands=(),
            handler=list_inferences,
        ),
        Operation(
            method="GET",
            path="/own/inferences/{id}",
            id="show_own_inference",
            tag="Own key",
            summary="Show an inference of the key that you use, with what was written",
            permission=None,
            access="memory",
            query=DetailQuery,
            response=InferenceWithContent,
            errors=missing,
            timeout_s=TIMEOUT_S,
            caller_route=_ROUTE,
            commands=(),
            handler=InferenceDetails(settings, _find_own).show,
        ),
    ]


_ROUTE = "/v1/inferences/"
