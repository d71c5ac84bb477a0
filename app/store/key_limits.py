"""Limits of single keys: set when a key is created, and shared by those that replace it. They are limits of the configuration."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import Text, func, literal, literal_column, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import AfterLoss, Limit, Period, Resource
from app.store import tables
from app.store.audit_log import Author
from app.store.calendar_periods import CalendarUnit
from app.store.configuration import Changed, change_configuration, edited
from app.store.configuration_rows import State, one_of
from app.store.key_rows import counted_prefix

MAX_NEW_LIMITS = 20

# As the index has it: SQLAlchemy writes subscripts with parameters, which no index matches.
_KEY_NAME = literal_column("(limits.config -> 'scope') ->> 'key'", Text)
MAX_LIMITS_OF_TEAM = 1000  # of its single keys, made by roles within it: every gateway process has all limits of all teams

_MAX_TEXT_CHARACTERS = 200
_Text = Annotated[str, Meta(min_length=1, max_length=_MAX_TEXT_CHARACTERS)]


class KeyLimit(Struct, frozen=True, forbid_unknown_fields=True):
    """At most `amount` of a resource for the key: see `[[limits]]` in docs/configuration.md.

    `model`: only of requests for this model. `name`: of the limit in the configuration; left out, it is made of the key and the rest.
    """

    resource: Resource
    amount: float
    per: Period | None = None
    model: _Text | None = None
    name: _Text | None = None
    on_outage: Literal["local", "refuse"] = "local"
    after_loss: AfterLoss = "rebuild"
    dry_run: bool = False
    time_zone: str = "UTC"


class Budget(Struct, frozen=True, forbid_unknown_fields=True):
    """At most so many US dollars a day, week or month: short for a limit of the resource `cost_usd`."""

    amount_usd: float
    per: CalendarUnit = "month"
    time_zone: str = "UTC"

    def to_limit(self) -> KeyLimit:
        return KeyLimit("cost_usd", self.amount_usd, self.per, time_zone=self.time_zone)


async def add_key_limits(
    connection: AsyncConnection, author: Author, prefix: str, limits: Iterable[KeyLimit], *, output_tokens: int | None = None
) -> Changed:
    """Add limits of a key with the public part `prefix`, as change_configuration() does. Raises BadConfiguration."""
    added = [
        Limit(
            each.name or _default_name(prefix, each),
            {"key": f"nx-{prefix}"} if each.model is None else {"key": f"nx-{prefix}", "model": each.model},
            each.resource,
            each.amount,
            each.per,
            each.on_outage,
            each.after_loss,
            each.dry_run,
            each.time_zone,
        )
        for each in limits
    ]
    return await change_configuration(connection, author, lambda state: _with_limits(state, added), output_tokens=output_tokens)


async def read_key_limits(connection: AsyncConnection, prefixes: Collection[str]) -> Mapping[str, Sequence[Limit]]:
    """The limits of each of the keys alone, by public part; keys without any are left out. Keys that replace each other have the same."""
    named, counted = tables.keys.alias(), tables.keys.alias()
    query = (
        select(tables.limits.c.config, counted.c.prefix)
        .select_from(tables.limits)
        .join(named, named.c.prefix == func.substr(_KEY_NAME, len("nx-") + 1))
        .join(counted, func.coalesce(counted.c.counts_as, counted.c.prefix) == func.coalesce(named.c.counts_as, named.c.prefix))
        .where(one_of(counted.c.prefix, prefixes), one_of(_KEY_NAME, await _read_names(connection, prefixes)))
        .order_by(tables.limits.c.position)
    )
    found: dict[str, list[Limit]] = {}
    for row in await connection.execute(query):
        found.setdefault(row.prefix, []).append(msgspec.convert(row.config, Limit))
    return found


async def _read_names(connection: AsyncConnection, prefixes: Collection[str]) -> list[str]:
    """The names, as scopes have them, of all keys that replace each other with one of these."""
    first = select(counted_prefix()).where(one_of(tables.keys.c.prefix, prefixes))
    query = select(tables.keys.c.prefix).where(or_(tables.keys.c.prefix.in_(first), tables.keys.c.counts_as.in_(first)))
    return [f"nx-{prefix}" for prefix in await connection.scalars(query)]


async def count_limits_of_keys(connection: AsyncConnection, team: str) -> int:
    """How many limits there are of single keys of a team, valid or not."""
    names = select(literal("nx-") + tables.keys.c.prefix).join(tables.teams, tables.teams.c.id == tables.keys.c.team_id)
    of_team = _KEY_NAME.in_(names.where(tables.teams.c.name == team))
    return await connection.scalar(select(func.count()).select_from(tables.limits).where(of_team)) or 0


def _with_limits(state: State, added: Sequence[Limit]) -> State:
    return edited(state, limits=[*state.snapshot.limits, *added])


def _default_name(prefix: str, limit: KeyLimit) -> str:
    return "-".join(filter(None, (f"nx-{prefix}", limit.model, limit.resource, limit.per)))
