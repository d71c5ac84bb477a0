"""Erasures: orders to erase what was recorded of somebody, as they are given, listed and carried out."""

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec
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
from app.store.postgres.partitions import Connection
from app.store.records.episode_lookup import check_episode

FIRST_STEP = "writers"

# Held while an order is given: numbers ascend in the order of commits, and readers look only for higher ones.
_ORDERS_LOCK = WRITERS_LOCK + 1

_SCOPE = "erasures"
_MAX_ERROR_CHARACTERS = 300


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


class Order(Struct, frozen=True):
    """An order as it is carried out. If `value` is None, it is complete, and only its hash is known."""

    id: str
    number: int
    kind: SelectorKind
    tag: str | None
    hash: bytes
    value: str | None
    team_id: str | None
    keep_tags: Sequence[str]
    requested_at: datetime.datetime
    step: str
    position: Any
    counts: Mapping[str, int]
    failures: int
    completed_at: datetime.datetime | None

    @property
    def before(self) -> str:
        """Inferences with lower ids are those that were received before the order."""
        return uuid7.lowest_at(int(self.requested_at.timestamp() * 1000) + 1)


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


async def count_expected_of(connection: AsyncConnection, selector: Selector, team: str | None) -> int:
    """Returns the same as count_expected(), for the name of a team, or for all teams if it is None.

    Raises InvalidKeyField for an unknown team.
    """
    team_id = await _team_id(connection, team)
    return await count_expected(connection, resolve_selector(selector, team_id), team_id)


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


_ORDER_COLUMNS = """
    id::text, number, kind, tag, hash, value, team_id::text, keep_tags, requested_at, step, position::text, counts::text, failures,
    completed_at
"""


async def read_order(connection: Connection, id: str) -> Order | None:
    row = await connection.fetchrow(f"SELECT {_ORDER_COLUMNS} FROM erasures WHERE id = $1::uuid", id)  # noqa: S608
    return None if row is None else _to_order(row)


async def lock_due_order(connection: Connection, settle_s: float) -> Order | None:
    """Returns the order that has waited longest, locked for this transaction: other writers take others.

    Returns None if nothing is due. An order that is complete is due again `settle_s` after late records of it
    were erased.
    """
    row = await connection.fetchrow(_LOCK_DUE, settle_s)
    return None if row is None else _to_order(row)


# Not FOR UPDATE: nothing of an order is locked by others.
_LOCK_DUE = f"""
    SELECT {_ORDER_COLUMNS} FROM erasures
    WHERE next_at <= clock_timestamp() AND (completed_at IS NULL OR id IN (
        SELECT erasure_id FROM erasure_arrivals WHERE at <= clock_timestamp() - make_interval(secs => $1)
    ))
    ORDER BY next_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
"""  # noqa: S608


async def move_order(
    connection: Connection, order: Order, step: str, position: Any, counts: Mapping[str, int], continues_at: datetime.datetime | None
) -> None:
    """Stores what one piece of work did, in its transaction.

    If `continues_at` is None, the order goes on at once, after the others that are due.
    """
    await connection.execute(
        """
        UPDATE erasures SET step = $2, position = $3::jsonb, counts = $4::jsonb, next_at = coalesce($5, clock_timestamp()),
            failures = 0, error = NULL
        WHERE id = $1::uuid
        """,
        order.id,
        step,
        None if position is None else msgspec.json.encode(position).decode(),
        msgspec.json.encode(counts).decode(),
        continues_at,
    )


async def complete_order(connection: Connection, order: Order) -> None:
    """Completes the order: from now on only the hash of its value is known."""
    await connection.execute(
        "UPDATE erasures SET value = NULL, completed_at = coalesce(completed_at, clock_timestamp()) WHERE id = $1::uuid", order.id
    )


async def note_failure(connection: Connection, id: str, error: str, wait_s: float) -> None:
    await connection.execute(
        """
        UPDATE erasures SET error = $2, failures = failures + 1, next_at = clock_timestamp() + make_interval(secs => $3)
        WHERE id = $1::uuid
        """,
        id,
        error[:_MAX_ERROR_CHARACTERS],
        wait_s,
    )


async def note_arrivals(connection: Connection, records: Mapping[str, int]) -> None:
    """Notes late records that were erased as they were stored, by order, in the transaction that stores them."""
    if records:
        await connection.execute(
            "INSERT INTO erasure_arrivals (erasure_id, records) SELECT * FROM unnest($1::uuid[], $2::integer[])",
            list(records),
            list(records.values()),
        )


async def due_arrivals(connection: Connection, id: str, settle_s: float) -> dict[int, int]:
    """Returns how many late records of an order came `settle_s` ago or earlier, by the id of the note."""
    rows = await connection.fetch(
        "SELECT id, records FROM erasure_arrivals WHERE erasure_id = $1::uuid AND at <= clock_timestamp() - make_interval(secs => $2)",
        id,
        settle_s,
    )
    return {row["id"]: row["records"] for row in rows}


async def forget_arrivals(connection: Connection, ids: Collection[int]) -> None:
    await connection.execute("DELETE FROM erasure_arrivals WHERE id = any($1::bigint[])", list(ids))


async def last_arrival(connection: Connection, id: str) -> datetime.datetime | None:
    return await connection.fetchval("SELECT max(at) FROM erasure_arrivals WHERE erasure_id = $1::uuid", id)


async def read_orders_after(connection: Connection, number: int, since: datetime.datetime) -> list[Order]:
    """Returns the orders with higher numbers that were given after `since`."""
    rows = await connection.fetch(
        f"SELECT {_ORDER_COLUMNS} FROM erasures WHERE number > $1 AND requested_at > $2 ORDER BY number",  # noqa: S608
        number,
        since,
    )
    return [_to_order(row) for row in rows]


async def newest_number(connection: Connection) -> int:
    return await connection.fetchval("SELECT coalesce(max(number), 0) FROM erasures")


def _to_order(row: Mapping[str, Any]) -> Order:
    fields: dict[str, Any] = {name: row[name] for name in Order.__struct_fields__}
    fields["position"] = None if row["position"] is None else msgspec.json.decode(row["position"])
    fields["counts"] = msgspec.json.decode(row["counts"])
    return Order(**fields)
