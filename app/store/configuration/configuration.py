"""Changes of the configuration in Postgres: apply_file.py makes them of a file, roll_back.py of an earlier version, REST of one entry.

Whatever changes what a file can set goes through change_configuration(), so that it is validated, published, and in the history.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.callers import TeamConfig
from app.domain.experiments import MetricConfig
from app.domain.functions import FunctionConfig
from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig
from app.domain.snapshot import Snapshot
from app.process.thread_steps import run_in_steps
from app.store.configuration import snapshots
from app.store.configuration.config_file import SCHEMA_FILE, write_file
from app.store.configuration.difference import EntryChange, find_changes
from app.store.configuration.experiments.changes import ExperimentChange, find_experiment_changes
from app.store.configuration.experiments.experiments import NewVersion, store_experiment_changes
from app.store.configuration.history import publish_changes
from app.store.configuration.rows import (
    State,
    by_name,
    lock_configuration,
    read_state,
    store_limits,
    store_prices,
    store_table,
    store_teams,
)
from app.store.configuration.used_entries import read_budgets_of_webhooks
from app.store.configuration.validation.known_names import KnownNames
from app.store.keys.rows import lock_changes
from app.store.postgres import tables
from app.store.postgres.audit_log import Author
from app.store.postgres.conditions import one_of
from app.store.postgres.database import Database, transaction
from providers.transport.address_guard import AddressGuard

_KEY_PREFIX_CHARACTERS = 12


class Changed(Struct, frozen=True):
    """The result of a change."""

    version: int | None  # the one that has it; None: nothing differs
    before: State
    after: State
    changes: Sequence[EntryChange]
    warnings: Sequence[str]  # about probable mistakes that it adds
    experiment_versions: Sequence[NewVersion] = ()  # of each experiment that started or has other weights or another enrolment


async def change_configuration(
    connection: AsyncConnection,
    author: Author,
    edit: Callable[[State], State],
    *,
    output_tokens: int | None = None,
    restores: int | None = None,
    guard: AddressGuard | None = None,
    warn: Callable[[Snapshot, Snapshot, KnownNames], list[str]] | None = None,
) -> Changed:
    """Change what a file can set, in the caller's transaction, under a lock that others who change it wait for.

    `edit` gets the state in force and returns the wanted one; it runs in a thread. `output_tokens` is the setting for models without one of
    their own, for warnings. `guard` says what new addresses may be; None means that there are none. `warn` finds warnings, by the state
    before and the wanted one; None means all new ones. Raises BadConfiguration, as does `edit`; then nothing was changed.
    """
    # Whoever only reads the configuration imports none of this, which knows every adapter and dialect.
    change_checks = importlib.import_module("app.store.configuration.change_checks")
    await lock_configuration(connection)
    current = await read_state(connection)
    budgets_of_webhooks = await read_budgets_of_webhooks(connection)

    def compute() -> tuple[State, list[EntryChange], list[ExperimentChange]]:
        wanted = edit(current)
        change_checks.check_change(current, wanted, budgets_of_webhooks, guard)
        return wanted, list(find_changes(current, wanted)), find_experiment_changes(current.snapshot, wanted.snapshot)

    wanted, changes, experiment_changes = await run_in_steps(compute)
    known = await read_known_names(connection, wanted, output_tokens)

    warnings = await run_in_steps(lambda: (warn or change_checks.find_new_warnings)(current.snapshot, wanted.snapshot, known))
    # Not by the hash: what is encoded leaves a default out only if it was not written out.
    if not changes and [*by_name(current.snapshot.limits)] == [*by_name(wanted.snapshot.limits)]:
        return Changed(None, current, wanted, (), warnings)
    changed_teams = {change.name: wanted.teams[change.name] for change in changes if change.section == "teams"}
    if changed_teams:
        await lock_changes(connection)
        await store_teams(connection, changed_teams)
    await store_table(connection, tables.providers, current.snapshot.providers, wanted.snapshot.providers)
    await store_table(connection, tables.models, current.snapshot.models, wanted.snapshot.models)
    await store_table(connection, tables.functions, current.snapshot.functions, wanted.snapshot.functions)
    await store_table(connection, tables.metrics, current.snapshot.metrics, wanted.snapshot.metrics)
    experiment_versions = await store_experiment_changes(connection, author, experiment_changes)
    positions: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})
    if current.snapshot.limits != wanted.snapshot.limits:
        positions = await store_limits(connection, current.snapshot.limits, wanted.snapshot.limits)
    await store_prices(connection, current.snapshot.prices, wanted.snapshot.prices)
    version = await publish_changes(connection, author, changes, positions, restores)
    return Changed(version, current, wanted, changes, warnings, experiment_versions)


def edited(
    state: State,
    *,
    teams: Mapping[str, TeamConfig] | None = None,
    providers: Mapping[str, ProviderConfig] | None = None,
    models: Mapping[str, ModelConfig] | None = None,
    limits: Sequence[Limit] | None = None,
    prices: Sequence[Price] | None = None,
    functions: Mapping[str, FunctionConfig] | None = None,
    metrics: Mapping[str, MetricConfig] | None = None,
) -> State:
    """The state with some sections replaced."""
    old = state.snapshot
    snapshot = snapshots.build_snapshot(
        old.version,
        dict(sorted((old.providers if providers is None else providers).items())),
        dict(sorted((old.models if models is None else models).items())),
        old.limits if limits is None else limits,
        old.prices if prices is None else prices,
        old.credentials,
        functions=dict(sorted((old.functions if functions is None else functions).items())),
        metrics=dict(sorted((old.metrics if metrics is None else metrics).items())),
        experiments=old.experiments,
    )
    return State(snapshot, state.teams if teams is None else dict(sorted(teams.items())))


async def read_current(database: Database) -> Snapshot:
    """The configuration in force, with stored credentials, encrypted."""
    async with transaction(database) as connection:
        return (await read_state(connection)).snapshot


async def export(database: Database) -> str:
    async with transaction(database) as connection:
        current_state = await read_state(connection)
    text = await run_in_steps(lambda: write_file(current_state.snapshot, current_state.teams))
    return f"#:schema {SCHEMA_FILE}\n\n{text}"


async def read_known_names(connection: AsyncConnection, state: State, output_tokens: int | None) -> KnownNames:
    key_names = {limit.scope.get("key", "each") for limit in state.snapshot.limits}
    prefixes = {name.removeprefix("nx-") for name in key_names if len(name) == len("nx-") + _KEY_PREFIX_CHARACTERS}
    existing = await connection.scalars(select(tables.keys.c.prefix).where(one_of(tables.keys.c.prefix, prefixes))) if prefixes else ()
    return KnownNames(state.teams.keys(), {f"nx-{prefix}" for prefix in existing}, output_tokens)
