"""Random changes of the configuration in a database, and what was in force after each."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from app.domain.callers import TeamConfig
from app.domain.errors import BadConfiguration
from app.domain.experiments import MetricConfig
from app.domain.functions import FunctionConfig
from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig
from app.store.configuration import snapshots
from app.store.configuration.configuration import change_configuration, edited
from app.store.configuration.rows import State, read_state
from app.store.postgres.audit_log import SYSTEM
from app.store.postgres.database import create_database_engine

_NAMES = [f"entry-{number}" for number in range(5)]


class InForce(Struct, frozen=True):
    """The configuration at a version, and the document of it as versions before 0054 stored it."""

    version: int
    state: State
    document: dict[str, Any]


def document_of(state: State) -> dict[str, Any]:
    """Returns the document from which the hash of a configuration is computed."""
    sections = ("functions", "limits", "metrics", "models", "prices", "providers")
    content = {name: msgspec.json.decode(msgspec.json.encode(getattr(state.snapshot, name))) for name in sections}
    return {name: each for name, each in content.items() if each or name in ("models", "providers")}


async def make_changes(database: str, seed: int, count: int, *, report: bool = True) -> Sequence[InForce]:
    """Makes changes, each of which is in force for a moment. `report` reports each one as workers that serve it do."""
    chance = random.Random(seed)
    engine = create_database_engine(database)
    made: list[InForce] = []
    try:
        while len(made) < count:
            try:
                async with engine.begin() as connection:
                    if chance.random() < 0.2:
                        await snapshots.publish_version(connection)  # of nodes or credentials
                    changed = await change_configuration(connection, SYSTEM, lambda state: _edit(state, chance))
            except BadConfiguration:  # such as a model without its last provider
                continue
            if changed.version is None:
                continue
            async with engine.begin() as connection:
                state = await read_state(connection)
                if report:
                    await snapshots.report_snapshot(connection, state.snapshot)
            made.append(InForce(changed.version, state, document_of(state)))
    finally:
        await engine.dispose()
    return made


def _edit(state: State, chance: random.Random) -> State:
    """Some sections at once; models, functions and prices only of providers that stay."""
    old = state.snapshot
    name, number = chance.choice(_NAMES), chance.choice((1, 2.5, 1e-7, 3_000_000))
    match chance.choice(("provider", "model", "function", "limits", "limits", "price", "metric", "team", "several")):
        case "provider":
            made = ProviderConfig(adapter="openai", base_url=f"http://127.0.0.1:{chance.randrange(1, 5)}")
            return edited(state, providers={**old.providers, name: made})
        case "model" if old.providers:
            model = msgspec.convert({"targets": [{"provider": min(old.providers), "model": f"m{number}"}]}, ModelConfig)
            return edited(state, models=_toggled(old.models, name, model, chance))
        case "function" if old.models and not old.functions.keys() & {name}:
            variant = {"model": min(old.models), "system_template": f"Say „{number}“."}
            function = msgspec.convert({"type": "chat", "variants": {"one": variant}}, FunctionConfig)
            return edited(state, functions=_toggled(old.functions, f"f-{name}", function, chance), models=old.models)
        case "price" if old.providers:
            price = Price(
                provider=min(old.providers), model=name, since=chance.choice((None, "2026-11-01")), input=float(number), output=3.0
            )
            kept = [each for each in old.prices if (each.model, each.since) != (price.model, price.since)]
            return edited(state, prices=kept if chance.random() < 0.3 else [*kept, price])
        case "metric":
            return edited(state, metrics=_toggled(old.metrics, name, MetricConfig(kind="boolean", level="inference"), chance))
        case "team":
            return edited(state, teams={**state.teams, name: TeamConfig(priority=chance.randrange(9))})
        case "several":
            limits = [_limit(each, number) for each in _NAMES]
            made = ProviderConfig(adapter="openai", base_url=f"http://127.0.0.1:{chance.randrange(5, 9)}")
            return edited(state, providers={**old.providers, "several": made}, limits=chance.sample(limits, chance.randrange(6)))
        case _:
            limits = list(old.limits)
            chance.shuffle(limits)  # a position may be all that changes
            if chance.random() < 0.7:
                limits = [each for each in limits if each.name != name]
                limits.insert(chance.randrange(len(limits) + 1), _limit(name, number))
            return edited(state, limits=limits[:4] if chance.random() < 0.3 else limits)


def _toggled(entries: Any, name: str, config: Any, chance: random.Random) -> dict[str, Any]:
    """Returns the entries with this one, or now and then without it."""
    left = {each: entry for each, entry in entries.items() if each != name}
    return left if name in entries and name != min(entries) and chance.random() < 0.4 else {**left, name: config}


def _limit(name: str, amount: float) -> Limit:
    return Limit(name=name, scope={f"tag:{name}": "each"}, resource="requests", amount=float(round(1 + amount)), per="day")
