"""The audit log: /admin/v1/audit, /admin/v1/audit/{id} and /admin/v1/audit/export."""

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from msgspec import Meta, Struct

from app.api.rest.command import Command, Option
from app.api.rest.export import export_answer
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.request_parsing import TimeText, parse_time
from app.domain import uuid7
from app.store.postgres.audit_log import Via
from app.store.postgres.names import MAX_NAME_CHARACTERS
from app.store.postgres.paging import After, Limit, Page, read_cursor, write_cursor
from app.store.records import audit_queries
from app.store.records.audit_export import EXPORT_MEDIA_TYPES, ExportFormat, export_events, export_head
from app.store.records.audit_queries import AuditFilter, RecordedEvent
from providers.canonical.errors import InvalidRequest, UnknownRecord

_MAX_NAME_CHARACTERS = 512  # of a resource, such as a target, whose name has several parts

Text = Annotated[str, Meta(max_length=_MAX_NAME_CHARACTERS)]


class AuditFilters(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The conditions that an event must meet."""

    actor: Annotated[Text, Meta(description="Who: an id or a name.")] | None = None
    action: Annotated[Text, Meta(description="What was done, such as create, update, delete, revoke.")] | None = None
    resource: Annotated[Text, Meta(description="The kind of what was changed, such as key, team, model.")] | None = None
    name: Annotated[Text, Meta(description="The name of what was changed.")] | None = None
    team: Annotated[Text, Meta(description="The team that it belongs to.")] | None = None
    since: TimeText | None = None
    until: TimeText | None = None
    via: Annotated[Via, Meta(description="How: over the admin API, by a command, or by the gateway itself.")] | None = None
    search: (
        Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS, description="Text in names and in what was changed, in any case.")] | None
    ) = None


class AuditQuery(AuditFilters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    limit: Limit = 100
    after: After | None = None


class ExportQuery(AuditFilters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: Annotated[ExportFormat, Meta(description="An event a line as JSON, or CSV for spreadsheets.")] = "jsonl"


async def _list(call: Call[AuditQuery, NoBody]) -> Answer:
    query, scope = call.query, "audit"
    last = None if query.after is None else _read_id(read_cursor(query.after, scope, [str])[0], "after")
    events = await audit_queries.list_events(call.connection, _filter(call), before=last, limit=query.limit + 1)
    shown = events[: query.limit]
    return Answer(Page(shown, write_cursor(scope, [shown[-1].id]) if len(events) > query.limit else None))


async def _show(call: Call[NoQuery, NoBody]) -> Answer:
    id = _read_id(call.path["id"], "id")
    event = await audit_queries.find_event(call.connection, id, teams=call.visible_teams())
    if event is None:
        raise UnknownRecord(f"There is no event {id}. GET /admin/v1/audit lists them.")
    return Answer(event)


async def _export(call: Call[ExportQuery, NoBody]) -> Answer:
    format = call.query.format
    pages = audit_queries.walk_events(call.read_transaction, _filter(call))
    first = await anext(pages, list[RecordedEvent]())  # before the response begins, so that an outage is a 503

    async def lines() -> AsyncGenerator[bytes]:
        yield export_head(format) + export_events(first, format)
        async for events in pages:
            yield export_events(events, format)

    return export_answer(call, lines(), f"narthex-audit.{format}", EXPORT_MEDIA_TYPES[format])


def _filter(call: Call[Any, Any]) -> AuditFilter:
    query: AuditFilters = call.query
    return AuditFilter(
        actor=query.actor,
        action=query.action,
        resource=query.resource,
        name=query.name,
        team=query.team,
        since=None if query.since is None else parse_time(query.since, "since"),
        until=None if query.until is None else parse_time(query.until, "until"),
        via=query.via,
        search=query.search,
        teams=call.visible_teams(),
    )


def _read_id(text: str, param: str) -> str:
    if not uuid7.is_uuid7(text):
        raise InvalidRequest(f"`{param}` must be the id of an event, as GET /admin/v1/audit shows it.", param=param)
    return text.lower()


_LIST = Command(
    name="audit",
    summary="List changes: who changed what, when, and what it was before; with ID, show one.",
    help="The newest come first. Every change is logged, whether by the admin API or a command. The log is append-only. Secrets are"
    " masked.",
    examples=(
        "audit --since 7d --resource key",
        "audit 019a2c3d-0000-7000-8000-000000000000",
        "audit --since 2026-01-01 --export csv > audit.csv",
    ),
    options={"limit": Option(default="50", help="Most changes to list.")},
    data="events",
    render="audit.events",
    json='{"events": [{"id", "at", "actor", "via", "ip", "user_agent", "action", "resource", "name", "team", "before", "after",'
    ' "request_id", "version"}], "next"}; with ID the event itself',
)
_SHOW = Command(name="audit", render="audit.event")
_EXPORT = Command(
    name="audit",
    options={"format": Option(flag="--export", decides=True, help="Print all that match, however many, in this format.")},
)


def operations() -> list[Operation[Any, Any]]:
    tag = "Audit"
    return [
        Operation(
            method="GET",
            path="/audit",
            id="list_audit_events",
            tag=tag,
            summary="List changes",
            description="Every change of what the admin API manages, newest first: who, when, from where, before and after.",
            permission="audit:read",
            scope="team",
            query=AuditQuery,
            response=Page[RecordedEvent],
            commands=(_LIST,),
            handler=_list,
        ),
        Operation(
            method="GET",
            path="/audit/export",
            id="export_audit_events",
            tag=tag,
            summary="Export changes",
            description="All changes that match, newest first, of any number. An export that breaks off is not complete: repeat it.",
            permission="audit:read",
            scope="team",
            access="memory",
            query=ExportQuery,
            response=str,
            response_media_type="application/jsonl",
            other_media_types=("text/csv",),
            timeout_s=20.0,
            commands=(_EXPORT,),
            handler=_export,
        ),
        Operation(
            method="GET",
            path="/audit/{id}",
            id="get_audit_event",
            tag=tag,
            summary="Show a change",
            permission="audit:read",
            scope="team",
            response=RecordedEvent,
            errors={404: "There is no such event, or it is not of one of your teams."},
            commands=(_SHOW,),
            handler=_show,
        ),
    ]
