"""Overrides of limits: /admin/v1/limit-overrides and /admin/v1/limit-overrides/{id}: another amount for one subject, until a time."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from app.api.rest.command import Command, Option
from app.api.rest.etags import etag_of
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.store.configuration.validation.prices import MAX_NAME_CHARACTERS
from app.store.limits import limit_overrides as store
from app.store.limits.limit_overrides import Amount, EndsAt, Override, OverrideEdit, OverrideExists, Reason, State, UnknownLimit
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import Conflict, UnknownRecord

_ENDS_OPTION = {"ends_at": Option(flag="--until", help="When it ends: 2d, 2026-12-31 (at the end of that day, UTC) or 2026-12-31T18:00Z.")}


class NewOverride(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An override to create."""

    limit: Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARACTERS, description="The name of the limit or budget.")]
    subject: Annotated[
        dict[str, str],
        Meta(description='Whose amount it is: a value of each dimension of the limit\'s scope that is "each". Empty if there is none.'),
    ] = {}
    amount: Amount
    ends_at: EndsAt
    reason: Reason


class OverrideQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["created_at", "-created_at", "ends_at", "-ends_at"] = "-created_at"
    limit_name: Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS, description="Of this limit or budget.")] | None = None
    state: State | None = None


async def _list(call: Call[OverrideQuery, NoBody]) -> Answer:
    page: Page[Override] = await store.page_overrides(call.connection, call.query, call.query.limit_name, call.query.state)
    return Answer(page)


async def _show(call: Call[NoQuery, NoBody]) -> Answer:
    return _answer(_found(await store.find_override(call.connection, call.path["id"])))


async def _create(call: Call[NoQuery, NewOverride]) -> Answer:
    body = call.body
    try:
        created = await store.create_override(
            call.connection, call.author, body.limit, body.subject, body.amount, _with_zone(body.ends_at), body.reason
        )
    except UnknownLimit as fault:
        raise UnknownRecord(f"{fault} GET /admin/v1/limits lists them.") from None
    except OverrideExists as fault:
        raise Conflict(f"{fault} PATCH or DELETE /admin/v1/limit-overrides/{fault.id}.") from None
    return _answer(created, status=201)


async def _change(call: Call[NoQuery, OverrideEdit]) -> Answer:
    before = _found(await store.lock_override(call.connection, call.path["id"]))
    call.check_match(_etag(before))
    if not before.in_force:
        raise Conflict("This override has ended; make another one with POST /admin/v1/limit-overrides.")
    ends_at = None if call.body.ends_at is None else _with_zone(call.body.ends_at)
    return _answer(await store.change_override(call.connection, call.author, before, replace(call.body, ends_at=ends_at)))


async def _end(call: Call[NoQuery, NoBody]) -> Answer:
    before = _found(await store.lock_override(call.connection, call.path["id"]))
    return _answer(await store.end_override(call.connection, call.author, before))


def _found(override: Override | None) -> Override:
    if override is None:
        raise UnknownRecord("There is no such override. GET /admin/v1/limit-overrides lists them.")
    return override


def _answer(override: Override, status: int = 200) -> Answer:
    return Answer(override, etag=_etag(override), status=status)


def _etag(override: Override) -> str:
    return etag_of([override.amount, override.ends_at, override.reason, override.ended_at])


def _with_zone(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def operations() -> list[Operation[Any, Any]]:
    tag, path, item = "Limits", "/limit-overrides", "/limit-overrides/{id}"
    missing = {404: "There is no such override."}
    return [
        Operation(
            method="GET",
            path=path,
            id="list_limit_overrides",
            tag=tag,
            summary="List overrides of limits",
            description="Those that have ended, too: they stay as a history, until their limit is deleted.",
            permission="config:read",
            query=OverrideQuery,
            response=Page[Override],
            commands=(
                Command(
                    name="limits overrides",
                    summary="List overrides, the newest first; with LIMIT, of that one.",
                    help="",
                    examples=("limits overrides --all",),
                    options={
                        "limit_name": Option(is_argument=True, metavar="LIMIT"),
                        "state": Option(default="in_force", constants={"--all": (None, "Also those that have ended.")}),
                    },
                    data="overrides",
                    render="limits.overrides",
                ),
            ),
            handler=_list,
        ),
        Operation(
            method="POST",
            path=path,
            id="create_limit_override",
            tag=tag,
            summary="Give one subject of a limit another amount, until a time",
            description="Every worker goes by it, and by the limit's own amount again from `ends_at` on, by itself: what"
            " was used meanwhile counts, so a budget that is exceeded then refuses until its period ends.",
            permission="config:write",
            access="write",
            body=NewOverride,
            response=Override,
            status=201,
            errors={404: "There is no such limit.", 409: "The subject has an override in force already."},
            example={
                "limit": "budget of search",
                "amount": 800,
                "ends_at": "2026-12-01T00:00:00Z",
                "reason": "Load test, agreed with finance",
            },
            commands=(
                Command(
                    name="limits override",
                    summary="Give a subject of LIMIT (or a budget) another amount, until a time.",
                    help="Returns once every gateway process goes by it; they go by the limit's own amount again when it has ended, by"
                    " themselves. What was used meanwhile counts.",
                    examples=(
                        'limits override "search in a month" --amount 800 --until 2026-12-01 --reason "load test"',
                        'limits override "each key in a week" --for key=nx-0123456789ab --amount 50 --until 2d --reason "migration"',
                    ),
                    options={
                        **_ENDS_OPTION,
                        "limit": Option(is_argument=True),
                        "subject": Option(
                            flag="--for",
                            help="Whose amount it is, of a limit for each team, key or value of a tag: team=search, key=nx-...,"
                            " tag:NAME=VALUE. Can be repeated.",
                        ),
                    },
                    render="limits.created_override",
                ),
            ),
            handler=_create,
        ),
        Operation(
            method="GET",
            path=item,
            id="get_limit_override",
            tag=tag,
            summary="Show an override",
            permission="config:read",
            response=Override,
            errors=missing,
            commands=(Command(name="limits show-override"),),
            handler=_show,
        ),
        Operation(
            method="PATCH",
            path=item,
            id="patch_limit_override",
            tag=tag,
            summary="Change the amount, end or reason of an override",
            permission="config:write",
            access="write",
            body=OverrideEdit,
            response=Override,
            conditional=True,
            errors={**missing, 409: "It has ended."},
            example={"ends_at": "2026-12-08T00:00:00Z"},
            commands=(
                Command(
                    name="limits change-override",
                    examples=("limits change-override 019ab3c4-5d6e-7f80-9123-456789abcdef --until 7d",),
                    options=_ENDS_OPTION,
                    render="limits.changed_override",
                ),
            ),
            handler=_change,
        ),
        Operation(
            method="DELETE",
            path=item,
            id="end_limit_override",
            tag=tag,
            summary="End an override now",
            description="The limit's own amount is in force again. It stays in the list.",
            permission="config:write",
            access="write",
            response=Override,
            errors=missing,
            commands=(Command(name="limits end-override", confirm="End this override now?", done="The override of {limit} has ended."),),
            handler=_end,
        ),
    ]
