"""Erasures of what was recorded of somebody: /admin/v1/erasures."""

import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.api.rest.command import Command, Option, Parts
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.domain import uuid7
from app.recording.erasure import erasures
from app.recording.erasure.check import Checked, check_erasure
from app.recording.erasure.copies import CopiesUnavailable
from app.recording.erasure.erasures import Erasure, NewErasure, parse_selector
from app.recording.erasure.hashes import Selector
from app.settings import Settings
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import InvalidRequest, Unavailable, UnknownRecord

_TIMEOUT_S = 60.0  # of one statement: a day of millions of inferences is searched by one
_EPOCH = datetime.date(1970, 1, 1)

_EndUser = Annotated[str, Meta(max_length=512, description="The end user, as the records of their requests have it.")]
_Tag = Annotated[str, Meta(max_length=2048, description="NAME=VALUE: everything with this tag.")]
_EpisodeId = Annotated[str, Meta(description="An episode: its UUID, or with its team the text that its caller names it by.")]
_TagName = Annotated[str, Meta(min_length=1, max_length=512)]


class SelectorFields(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A selection of records by an end user, a tag or an episode, of which only one may be given."""

    end_user: _EndUser | None = None
    tag: _Tag | None = None
    episode_id: _EpisodeId | None = None


class ErasureOrder(SelectorFields, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Erase what was recorded until now."""

    team: Annotated[str, Meta(description="Only of the team with this name; without it, of all teams.")] | None = None
    keep_tags: Annotated[
        tuple[_TagName, ...], Meta(max_length=50, description="Names of tags that say nothing of a person, and whose values stay.")
    ] = ()
    reference: Annotated[str, Meta(max_length=200, description="Your own, such as the number of a ticket. It stays: no name.")] | None = (
        None
    )


class ErasureCheck(SelectorFields, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Search all stores for what is left. With an end user, tag or episode it says whether the order is about that one."""

    after: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="`next` of the part before.")] | None = None


class Verification(Struct, frozen=True):
    """The records of an order that are left in the part that was searched. 0 in every store proves the erasure.

    `status` is that of the order. `inferences` are the ids of the first inferences that are left. `matches`
    says whether the order is about the end user, tag or episode of the request, and is null if the request
    named none. `days` is the number of days that were searched. Send `next` as `after` to search the rest; it
    is null if everything was searched.
    """

    id: str
    hash: str
    status: str
    left: dict[str, int]
    inferences: list[str]
    matches: bool | None
    days: int
    next: str | None
    spools_behind: int


class ErasureQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None


async def _list(call: Call[ErasureQuery, NoBody]) -> Answer:
    return Answer(await erasures.list_erasures(call.connection, limit=call.query.limit, after=call.query.after))


async def _show(call: Call[NoQuery, NoBody]) -> Answer:
    return Answer(await _find(call.connection, call.path["id"]))


async def _create(call: Call[NoQuery, ErasureOrder]) -> Answer:
    body = call.body
    selector = _selector(body)
    if selector is None:
        raise InvalidRequest("Say whose records are to be erased: `end_user`, `tag` or `episode_id`.", param="end_user")
    id = await erasures.give_order(call.connection, call.author, NewErasure(selector, body.team, body.keep_tags, body.reference))
    given = await erasures.find_erasure(call.connection, id)
    assert given is not None, "it was stored in this transaction"
    return Answer(given, status=201)


async def _verify(call: Call[NoQuery, ErasureCheck], settings: Settings) -> Answer:
    body = call.body
    async with call.read_transaction() as connection:
        order = await _find(connection, call.path["id"])
    try:
        from_day = None if body.after is None else (datetime.date.fromisoformat(body.after) - _EPOCH).days
    except ValueError:
        raise InvalidRequest("`after` must be a day, as `next` of an answer before.", param="after") from None
    try:
        checked = await check_erasure(call.read_transaction, settings, order.id, from_day=from_day, selector=_selector(body))
    except CopiesUnavailable:
        raise Unavailable("Redis is unavailable, so its copies cannot be searched at the moment.", retry_after_s=2) from None
    assert checked is not None, "orders are never deleted"
    return Answer(_verification(order, checked))


def _verification(order: Erasure, checked: Checked) -> Verification:
    following = None if checked.next is None else (_EPOCH + datetime.timedelta(days=checked.next)).isoformat()
    return Verification(
        order.id,
        order.hash,
        order.status,
        dict(checked.left),
        list(checked.inferences),
        checked.matches,
        checked.days,
        following,
        order.spools_behind,
    )


async def _find(connection: AsyncConnection, id: str) -> Erasure:
    found = await erasures.find_erasure(connection, id.lower()) if uuid7.is_uuid7(id) else None
    if found is None:
        raise UnknownRecord(f"There is no erasure {id!r:.60}. GET /admin/v1/erasures lists them.")
    return found


def _selector(fields: SelectorFields) -> Selector | None:
    return parse_selector(fields.end_user, fields.tag, fields.episode_id)


_SELECTOR = {
    "end_user": Option(flag="--user", metavar="USER", help="This end user."),
    "tag": Option(metavar="NAME=VALUE", help="Everything with this tag."),
    "episode_id": Option(flag="--episode", metavar="ID", help="This episode: its UUID, or with its team the text its caller named it."),
}
_LIST = Command(
    name="erase list",
    summary="List erasures, the newest first.",
    examples=("erase list",),
    options={"limit": Option(default="50", help="Most erasures to list.")},
    data="erasures",
    render="erasures.listed",
)
_START = Command(
    name="erase start",
    summary="Erase what was recorded until now.",
    help="It cannot be undone. The writers carry it out; `narthex erase show` says how far they are.",
    examples=(
        "erase start --user ann@example.com --keep-tag tenant",
        "erase start --tag customer=4711 --team search --reference DSR-118",
        "erase start --episode 019aa3f4-7492-7b70-8347-9564aeb44a24",
    ),
    options={
        **_SELECTOR,
        "keep_tags": Option(flag="--keep-tag", metavar="NAME", help="A tag that says nothing of a person, and stays. Can be repeated."),
    },
    one_of=("end_user", "tag", "episode_id"),
    needs_one=True,
    asks=True,
    preview="erasures.expected",
    confirm="Erase?",
    done="The erasure {id} has begun. `narthex erase show {id}` shows how far it is.",
)
_SHOW = Command(
    name="erase show",
    summary="Show an erasure: how far it is, and what was erased.",
    examples=("erase show 019aa3f4-7492-7b70-8347-955764f97b3d",),
    render="erasures.shown",
)
_VERIFY = Command(
    name="erase verify",
    summary="Search every store for what is left of an erasure.",
    help="By its keyed hash, so also after the value itself was forgotten. With --user, --tag or --episode it says whether the erasure is"
    " about that one. Exit status 1 if anything is left, or if it is about another one.",
    examples=(
        "erase verify 019aa3f4-7492-7b70-8347-955764f97b3d",
        "erase verify 019aa3f4-7492-7b70-8347-955764f97b3d --user ann@example.com",
    ),
    options=_SELECTOR,
    one_of=("end_user", "tag", "episode_id"),
    parts=Parts("next", "after", ("left", "inferences", "days")),
    render="erasures.verified",
    fails="erasures.is_left",
    only=("id", "hash", "status", "left", "inferences", "matches", "days"),
)


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    async def verify(call: Call[NoQuery, ErasureCheck]) -> Answer:
        return await _verify(call, settings)

    tag, missing = "Erasures", {404: "There is no such erasure."}
    return [
        Operation(
            method="GET",
            path="/erasures",
            id="list_erasures",
            tag=tag,
            summary="List erasures, the newest first",
            permission="audit:read",
            query=ErasureQuery,
            response=Page[Erasure],
            commands=(_LIST,),
            handler=_list,
        ),
        Operation(
            method="POST",
            path="/erasures",
            id="create_erasure",
            tag=tag,
            summary="Erase what was recorded of an end user, a tag's value or an episode until now",
            description="The writers carry it out, which cannot be undone. `dry_run` says how many records there are (`expected_records`)."
            " The value itself is shown nowhere; it is forgotten once the erasure is complete, and only its keyed hash stays.",
            permission="records:erase",
            access="write",
            body=ErasureOrder,
            response=Erasure,
            status=201,
            example={"end_user": "ann@example.com", "keep_tags": ["tenant"], "reference": "DSR-118"},
            commands=(_START,),
            handler=_create,
        ),
        Operation(
            method="GET",
            path="/erasures/{id}",
            id="get_erasure",
            tag=tag,
            summary="Show an erasure",
            permission="audit:read",
            response=Erasure,
            errors=missing,
            commands=(_SHOW,),
            handler=_show,
        ),
        Operation(
            method="POST",
            path="/erasures/{id}/verify",
            id="verify_erasure",
            tag=tag,
            summary="Search every store for what is left of an erasure",
            description="By the keyed hash, so also after the value is forgotten. It changes nothing. Of many days it searches a part; send"
            " it again with `next` of the answer as `after` until `next` is null.",
            permission="audit:read",
            access="memory",
            body=ErasureCheck,
            body_is_optional=True,
            response=Verification,
            errors=missing,
            timeout_s=_TIMEOUT_S,
            commands=(_VERIFY,),
            handler=verify,
        ),
    ]
