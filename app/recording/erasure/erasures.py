"""Erasures: orders to erase what was recorded of somebody, as they are given and listed; orders.py carries them out."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Row, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.episode_names import episode_id_of, is_uuid8
from app.domain.errors import InvalidKeyField
from app.recording.erasure.hashes import Selector, SelectorKind, hash_of, make_key
from app.store.postgres import tables
from app.store.postgres.audit_log import AuditEvent, Author, record
from app.store.postgres.locks import ERASED, WRITERS_LOCK
from app.store.postgres.paging import Page, read_cursor, write_cursor
from app.store.records.episode_lookup import check_episode

FIRST_STEP = "writers"

# Held while an order is given: numbers ascend in the order of commits, and readers look only for higher ones.
_ORDERS_LOCK = WRITERS_LOCK + 1

_SCOPE = "erasures"


class NewErasure(Struct, frozen=True):
    """An order to give."""

    selector: Selector
    team: str | None = None  # its name; None means all teams
    keep_tags: tuple[str, ...] = ()  # names of tags that stay
    reference: str | None = None  # of a ticket, say


class Erasure(Struct, frozen=True, kw_only=True):
    """An order as it is shown: never the value of an end user, tag or episode, only its keyed hash.

    `tag` is the name of the tag. A `team` of null means all teams. `step` is what is done at the moment, or
    null if the erasure is complete. `counts` has what was erased, by store; its `late` counts records that
    came after the order and were erased as they were stored. `error` says why the last try failed, and
    `continues_at` when it goes on. `spools_behind` counts machines that have not reported since the order,
    whose records may come late.
    """

    id: str
    kind: SelectorKind
    tag: str | None
    team: str | None
    keep_tags: Sequence[str]
    reference: str | None
    hash: str
    requested_at: str
    requested_by: str
    status: Literal["running", "complete"]
    step: str | None
    counts: Mapping[str, int]
    error: str | None
    continues_at: str | None
    completed_at: str | None
    spools_behind: int


def parse_selector(end_user: str | None, tag: str | None, episode_id: str | None) -> Selector | None:
    """Returns the selector, or None if nothing is given.

    `tag` is NAME=VALUE. Raises InvalidKeyField, also if several are given.
    """
    given = [name for name, value in (("end_user", end_user), ("tag", tag), ("episode_id", episode_id)) if value is not None]
    if len(given) > 1:
        raise InvalidKeyField(given[1], f"Give one of {' and '.join(f'`{name}`' for name in given)}: each is an erasure of its own.")
    if end_user is not None:
        if end_user in ("", ERASED):
            raise InvalidKeyField("end_user", f"`end_user` must be a user, not {end_user!r}.")
        return Selector("end_user", None, end_user)
    if tag is not None:
        name, separator, value = tag.partition("=")
        if not (name and separator) or value == ERASED:
            raise InvalidKeyField("tag", "`tag` must be NAME=VALUE.")
        return Selector("tag", name, value)
    if episode_id is not None:
        return Selector("episode", None, check_episode(episode_id))
    return None


async def give_order(connection: AsyncConnection, author: Author, new: NewErasure) -> str:
    """Gives an order; returns its id.

    Raises InvalidKeyField for an unknown team, and for its own tag in `keep_tags`.
    """
    if new.selector.tag in new.keep_tags:
        raise InvalidKeyField("keep_tags", f"The tag {new.selector.tag!r:.100} is the one to erase: it cannot stay.")
    team_id = await _team_id(connection, new.team)
    selector, id = resolve_selector(new.selector, team_id), uuid7.mint()
    hash = hash_of(await make_key(connection), selector)
    await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ORDERS_LOCK})
    values: dict[str, Any] = {
        **{"id": id, "kind": selector.kind, "tag": selector.tag, "hash": hash, "value": selector.value, "team_id": team_id},
        **{"keep_tags": list(new.keep_tags), "reference": new.reference, "requested_by": author.name, "step": FIRST_STEP},
        # The clock, not the beginning of the transaction: it may have waited.
        **{"requested_at": func.clock_timestamp(), "next_at": func.clock_timestamp()},
        "number": select(func.coalesce(func.max(tables.erasures.c.number), 0) + 1).scalar_subquery(),
    }
    await connection.execute(tables.erasures.insert().values(**values))
    shown = {"kind": selector.kind, "tag": selector.tag, "team": new.team, "keep_tags": list(new.keep_tags), "reference": new.reference}
    expected = await count_expected(connection, selector, team_id)
    event = AuditEvent("create", "erasure", id, None, {**shown, "expected_records": expected}, new.team)
    await record(connection, author, event)
    return id


def resolve_selector(selector: Selector, team_id: str | None) -> Selector:
    """Returns the selector with the id of its episode, as inferences have it.

    Raises InvalidKeyField for a text without a team, because a text names another episode in each team.
    """
    if selector.kind != "episode":
        return selector
    if team_id is not None:
        return replace(selector, value=episode_id_of(team_id, selector.value))
    if uuid7.is_uuid7(selector.value) or is_uuid8(selector.value):
        return replace(selector, value=selector.value.lower())
    raise InvalidKeyField("team", "Name the team, too: a text names another episode in each, and `episode_id` is not a UUIDv7.")


async def _team_id(connection: AsyncConnection, team: str | None) -> str | None:
    if team is None:
        return None
    teams = tables.teams.c
    team_id = (await connection.execute(select(teams.id).where(teams.name == team))).scalar()
    if team_id is None:
        raise InvalidKeyField("team", f"There is no team {team!r:.100}.")
    return team_id


async def count_expected(connection: AsyncConnection, selector: Selector, team_id: str | None) -> int:
    """Returns about how many inferences there are, by what is quick to read.

    Users beyond those that sums tell apart are not counted. `selector` is as resolve_selector() returns it.
    """
    of_team = "" if team_id is None else "AND team_id = CAST(:team_id AS uuid)"
    if selector.kind == "episode":
        query = f"SELECT count(*) FROM inferences WHERE episode_id = CAST(:value AS uuid) {of_team}"  # noqa: S608
    else:
        query = f"""
            SELECT coalesce(sum(requests), 0)::bigint FROM subject_rollups_by_day
            WHERE dimension = :dimension AND value = :value {of_team}
        """  # noqa: S608
    values = {"value": selector.value, "team_id": team_id, "dimension": dimension_of(selector.kind, selector.tag)}
    names = ("value", *(("team_id",) if team_id is not None else ()), *(("dimension",) if selector.kind != "episode" else ()))
    return (await connection.execute(text(query), {name: values[name] for name in names})).scalar_one()


def dimension_of(kind: SelectorKind, tag: str | None) -> str:
    """Returns the dimension of the sums of a selector; see app/store/usage/rollups.py."""
    return kind if tag is None else f"tag:{tag}"


def _shown_query() -> Any:
    erasures, spools = tables.erasures, tables.spools
    behind = select(func.count()).select_from(spools).where(spools.c.stored_until < erasures.c.requested_at).scalar_subquery()
    arrivals = select(tables.erasure_arrivals.c.id).where(tables.erasure_arrivals.c.erasure_id == erasures.c.id).exists()
    teams = tables.teams
    team = select(teams.c.name).where(teams.c.id == erasures.c.team_id).scalar_subquery()
    return select(erasures, team.label("team"), behind.label("spools_behind"), arrivals.label("has_arrivals"))


async def list_erasures(connection: AsyncConnection, *, limit: int, after: str | None) -> Page[Erasure]:
    """Returns a page of orders, the newest first."""
    query = _shown_query().order_by(tables.erasures.c.number.desc()).limit(limit + 1)
    if after is not None:
        query = query.where(tables.erasures.c.number < read_cursor(after, _SCOPE, [int])[0])
    rows = (await connection.execute(query)).all()
    shown = rows[:limit]
    return Page([_to_erasure(row) for row in shown], write_cursor(_SCOPE, [shown[-1].number]) if len(rows) > limit else None)


async def find_erasure(connection: AsyncConnection, id: str) -> Erasure | None:
    row = (await connection.execute(_shown_query().where(tables.erasures.c.id == id))).first()
    return None if row is None else _to_erasure(row)


def _to_erasure(row: Row[Any]) -> Erasure:
    is_complete = row.completed_at is not None and not row.has_arrivals
    return Erasure(
        id=row.id,
        kind=row.kind,
        tag=row.tag,
        team=row.team if row.team_id is None or row.team is not None else row.team_id,
        keep_tags=row.keep_tags,
        reference=row.reference,
        hash=bytes(row.hash).hex(),
        requested_at=row.requested_at.isoformat(),
        requested_by=row.requested_by,
        status="complete" if is_complete else "running",
        step=None if is_complete else row.step,
        counts=row.counts,
        error=row.error,
        continues_at=None if is_complete else row.next_at.isoformat(),
        completed_at=row.completed_at.isoformat() if is_complete and row.completed_at is not None else None,
        spools_behind=row.spools_behind,
    )
