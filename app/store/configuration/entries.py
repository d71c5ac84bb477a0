"""Entries of the configuration one by one: pages of a section, one entry with its times, and the state with one entry changed."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec import Struct
from sqlalchemy import ColumnElement, Row, Table, and_, cast, func, literal, or_, select
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import Text

from app.domain.experiments import ExperimentConfig, MetricConfig
from app.domain.functions import FunctionConfig
from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig
from app.store.configuration.configuration import edited
from app.store.configuration.rows import State, by_name, by_price_key
from app.store.configuration.validation.paths import limit_path, price_path
from app.store.configuration.validation.shadows import shadows_of
from app.store.keys.rows import one_of_key
from app.store.postgres import tables
from app.store.postgres.conditions import one_of
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn

Condition = ColumnElement[bool]
T = TypeVar("T", ProviderConfig, ModelConfig, Limit, Price, FunctionConfig, MetricConfig)

_providers, _models, _limits, _prices = tables.providers, tables.models, tables.limits, tables.prices


class Entry(Struct, frozen=True):
    """An entry as it is stored: the columns that identify it, and its content as a file has it, without fields at their defaults."""

    key: Mapping[str, str]
    config: dict[str, Any]
    created_at: str
    updated_at: str


class Section(Struct, Generic[T], frozen=True):
    """A section of the file."""

    name: str
    kind: type[T]
    table: Table
    keyset: Keyset
    searched: Sequence[str] = ("name",)  # the columns in which a search looks

    @property
    def key_columns(self) -> list[str]:
        return [str(column.name) for column in self.table.primary_key.columns]  # msgspec takes no subclasses of str as keys

    async def find(self, connection: AsyncConnection, key: Mapping[str, str], *conditions: Condition) -> Entry | None:
        of_key = [self.table.c[name] == value for name, value in key.items()]
        row = (await connection.execute(select(self.table).where(*of_key, *conditions))).one_or_none()
        return None if row is None else self._entry(row)

    async def page(self, connection: AsyncConnection, query: PageQuery, search: str | None, conditions: Sequence[Condition]) -> Page[Entry]:
        """A page of the entries. `search` leaves those with this text in what identifies them, in any case."""
        selected = select(self.table).where(*conditions)
        if search is not None:
            selected = selected.where(or_(*(self.table.c[name].icontains(search, autoescape=True) for name in self.searched)))
        rows = (await connection.execute(self.keyset.page_query(selected, query))).all()
        return self.keyset.page(rows, query, self._entry)

    def _entry(self, row: Row[Any]) -> Entry:
        values = row._mapping  # pyright: ignore[reportPrivateUsage]
        key = {name: values[name] for name in self.key_columns}
        return Entry(key, values["config"], values["created_at"].isoformat(), values["updated_at"].isoformat())

    def replace(self, state: State, key: Mapping[str, str], config: T | None) -> State:
        """The state with an entry added, replaced or (`config` None) removed. A new limit comes last."""
        old = state.snapshot
        match self.name:
            case "providers":
                return edited(state, providers=_replaced(old.providers, key["name"], config))
            case "models":
                return edited(state, models=_replaced(old.models, key["name"], config))
            case "functions":
                return edited(state, functions=_replaced(old.functions, key["name"], config))
            case "metrics":
                return edited(state, metrics=_replaced(old.metrics, key["name"], config))
            case "limits":
                return edited(state, limits=list(_replaced(by_name(old.limits), key["name"], config).values()))
            case _:
                of_price = (key["provider"], key["model"], key["since"])
                return edited(state, prices=list(_replaced(by_price_key(old.prices), of_price, config).values()))


def _replaced(entries: Mapping[Any, Any], key: object, config: object) -> dict[Any, Any]:
    if config is None:
        return {name: entry for name, entry in entries.items() if name != key}
    return {**entries, key: config}


def _keyset(table: Table, **more: SortColumn) -> Keyset:
    times = {name: SortColumn(table.c[name], datetime) for name in ("created_at", "updated_at")}
    return Keyset({"name": SortColumn(table.c.name), **times, **more}, SortColumn(table.c.name))


# Names are printable, so this cannot be part of one.
_SEPARATOR = literal("\x01")
_PRICES_KEYSET = Keyset(
    {
        "provider": SortColumn(_prices.c.provider),
        "model": SortColumn(_prices.c.model),
        "created_at": SortColumn(_prices.c.created_at, datetime),
        "updated_at": SortColumn(_prices.c.updated_at, datetime),
    },
    SortColumn(_prices.c.provider + _SEPARATOR + _prices.c.model + _SEPARATOR + _prices.c.since),
)

PROVIDERS = Section("providers", ProviderConfig, _providers, _keyset(_providers))
MODELS = Section("models", ModelConfig, _models, _keyset(_models))
FUNCTIONS = Section("functions", FunctionConfig, tables.functions, _keyset(tables.functions))
METRICS = Section("metrics", MetricConfig, tables.metrics, _keyset(tables.metrics))
LIMITS = Section("limits", Limit, _limits, _keyset(_limits, position=SortColumn(_limits.c.position, int)))
PRICES = Section("prices", Price, _prices, _PRICES_KEYSET, ("provider", "model"))


def providers_with(adapter: str | None) -> list[Condition]:
    return [] if adapter is None else [_providers.c.config["adapter"].astext == adapter]


def models_with(provider: str | None) -> list[Condition]:
    """The condition that one of a model's targets is at the provider; none without one."""
    if provider is None:
        return []
    return [_models.c.config.op("@>", is_comparison=True)(cast({"targets": [{"provider": provider}]}, JSONB))]


def metrics_with(kind: str | None, level: str | None) -> list[Condition]:
    wanted = {"kind": kind, "level": level}
    return [tables.metrics.c.config[name].astext == value for name, value in wanted.items() if value is not None]


def limits_with(resource: str | None, per: str | None, scope: Mapping[str, str | None]) -> list[Condition]:
    """Conditions of limits with these values.

    `scope` has dimensions with the name, or "each", that they have; of a key also that of one which it replaces, or is replaced by.
    """
    fields = {"resource": resource, "per": per}
    of_scope = [
        one_of_key(_limits.c.config["scope"]["key"].astext, value)
        if name == "key" and value != "each"
        else _limits.c.config["scope"][name].astext == value
        for name, value in scope.items()
        if value is not None
    ]
    return [*(_limits.c.config[name].astext == value for name, value in fields.items() if value is not None), *of_scope]


def prices_with(provider: str | None, model: str | None) -> list[Condition]:
    wanted = {"provider": provider, "model": model}
    return [_prices.c[name] == value for name, value in wanted.items() if value is not None]


def limits_of_teams(teams: Collection[str]) -> Condition:
    """Limits that name one of the teams or of their keys, or that each team or key has. Other teams, keys and tags stay unknown."""
    scope = _limits.c.config["scope"]
    team, key = scope["team"].astext, scope["key"].astext
    own_keys = select(literal("nx-") + tables.keys.c.prefix).join(tables.teams, tables.teams.c.id == tables.keys.c.team_id)
    has_own_team, has_own_key = one_of(team, teams), key.in_(own_keys.where(one_of(tables.teams.c.name, teams)))
    only_shared = scope.op("-")(cast(["key", "team", "model"], ARRAY(Text))) == cast({}, JSONB)
    names_nobody_else = and_(or_(team.is_(None), team == "each", has_own_team), or_(key.is_(None), key == "each", has_own_key))
    names_own = or_(func.coalesce(has_own_team, False), func.coalesce(has_own_key, False))
    is_of_each = or_(team == "each", key == "each")
    return and_(names_nobody_else, or_(names_own, and_(is_of_each, only_shared)))


def find_references(state: State, section: str, name: str) -> list[str]:
    """Returns the paths in a file of what refers to a provider or model.

    While something refers to it, it cannot be removed.
    """
    snapshot = state.snapshot
    match section:
        case "providers":
            of_targets = {model: {target.provider for target in config.targets} for model, config in snapshot.models.items()}
            serving = [f"models.{model}" for model, used in of_targets.items() if name in used]
            return [*serving, *(price_path(price) for price in snapshot.prices if price.provider == name)]
        case "models":
            of_fallbacks = [f"models.{model}.fallbacks" for model, config in snapshot.models.items() if name in config.fallbacks]
            of_arms = [
                f"models.{model}.experiment"
                for model, config in snapshot.models.items()
                if model != name and name in _arms(config.experiment)
            ]
            of_variants = [
                f"functions.{function}.variants.{variant}"
                for function, config in snapshot.functions.items()
                for variant, of_variant in config.variants.items()
                if of_variant.model == name
            ]
            of_shadows = [f"{path}.to" for path, _, shadow in shadows_of(snapshot) if path.startswith("models.") and shadow.to == name]
            of_limits = [limit_path(limit.name) for limit in snapshot.limits if limit.scope.get("model") == name]
            return [*of_fallbacks, *of_arms, *of_shadows, *of_variants, *of_limits]
        case _:
            return []


def _arms(experiment: ExperimentConfig | None) -> Mapping[str, float]:
    return {} if experiment is None else experiment.arms
