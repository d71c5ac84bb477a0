"""Limits of single keys: set when a key is created, and shared by those that replace it. They are limits of the configuration."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import Text, func, literal, literal_column, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.errors import InvalidKeyField
from app.domain.limits import AfterLoss, Limit, Period, Resource
from app.domain.snapshot import Snapshot
from app.store.configuration.configuration import Changed, change_configuration, edited
from app.store.configuration.rows import State
from app.store.configuration.validation.known_names import KnownNames
from app.store.configuration.validation.limits import find_warnings_about
from app.store.keys.restrictions import permits
from app.store.keys.rows import counted_prefix
from app.store.keys.team_columns import read_restrictions
from app.store.postgres import tables
from app.store.postgres.audit_log import Author
from app.store.postgres.calendar_periods import CalendarUnit
from app.store.postgres.conditions import one_of
from app.store.teams.shown_keys import KeyRow

MAX_NEW_LIMITS = 20

# As the index has it: SQLAlchemy writes subscripts with parameters, which no index matches.
_KEY_NAME = literal_column("(limits.config -> 'scope') ->> 'key'", Text)
MAX_LIMITS_OF_TEAM = 1000  # of its single keys, made by roles within it: every gateway process has all limits of all teams

_MAX_TEXT_CHARACTERS = 200
_MAX_PATTERNS_SHOWN = 20
_Text = Annotated[str, Meta(min_length=1, max_length=_MAX_TEXT_CHARACTERS)]


class KeyLimit(Struct, frozen=True, forbid_unknown_fields=True):
    """A limit of at most `amount` of a resource for the key: see `[[limits]]` in docs/configuration.md.

    `model` limits it to requests for this model. `name` is that of the limit in the configuration; left out,
    it is made of the key and the rest.
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
    """A limit of so many US dollars a day, week or month: short for a limit of the resource `cost_usd`."""

    amount_usd: float
    per: CalendarUnit = "month"
    time_zone: str = "UTC"

    def to_limit(self) -> KeyLimit:
        return KeyLimit("cost_usd", self.amount_usd, self.per, time_zone=self.time_zone)


async def add_key_limits(
    connection: AsyncConnection,
    author: Author,
    key: KeyRow,
    limits: Sequence[KeyLimit],
    *,
    lists_models: bool,
    output_tokens: int | None = None,
) -> Changed:
    """Add limits of a key, as change_configuration() does. Warnings name only models that it may use.

    `lists_models` says whether an error may say which models there are. Raises InvalidKeyField for a model that the key may not use, and
    BadConfiguration.
    """
    team_models = (await read_restrictions(connection, key.team)).models
    in_team, in_key = permits(team_models), permits(key.models)
    models = {index: each.model for index, each in enumerate(limits) if each.model is not None and each.model != "each"}

    def may_use(model: str) -> bool:
        return in_key(model) and in_team(model)

    for index, model in models.items():
        if not may_use(model):
            raise InvalidKeyField("limits", f"limits[{index}].model: {_refusal(model, key.models or team_models or ())}")
    added = [
        Limit(
            each.name or _default_name(key.prefix, each),
            {"key": f"nx-{key.prefix}"} if each.model is None else {"key": f"nx-{key.prefix}", "model": each.model},
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

    def edit(state: State) -> State:
        for index, model in models.items():
            if not lists_models and model not in state.snapshot.models:
                hint = "GET /v1/models lists those that a key may use."
                raise InvalidKeyField("limits", f"limits[{index}].model: there is no model {model!r:.100}. {hint}")
        return edited(state, limits=[*state.snapshot.limits, *added])

    def warn(_: Snapshot, wanted: Snapshot, known: KnownNames) -> list[str]:
        return find_warnings_about(added, wanted, known, may_use)

    return await change_configuration(connection, author, edit, output_tokens=output_tokens, warn=warn)


def _refusal(model: str, usable: Sequence[str]) -> str:
    shown = ", ".join(usable[:_MAX_PATTERNS_SHOWN])
    more = f" and {len(usable) - _MAX_PATTERNS_SHOWN} more" if len(usable) > _MAX_PATTERNS_SHOWN else ""
    return f"This key may not use the model {model!r:.100}. This key may use: {shown}{more}."


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
    """Count the limits of single keys of a team, valid or not."""
    names = select(literal("nx-") + tables.keys.c.prefix).join(tables.teams, tables.teams.c.id == tables.keys.c.team_id)
    of_team = _KEY_NAME.in_(names.where(tables.teams.c.name == team))
    return await connection.scalar(select(func.count()).select_from(tables.limits).where(of_team)) or 0


def _default_name(prefix: str, limit: KeyLimit) -> str:
    return "-".join(filter(None, (f"nx-{prefix}", limit.model, limit.resource, limit.per)))
