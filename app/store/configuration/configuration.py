"""The configuration in Postgres: `apply` stores a file's content, `export` writes a file, `roll_back` restores an earlier version.

Whatever changes what a file can set goes through change_configuration(), so that it is validated, published, and in the history.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.callers import TeamConfig
from app.domain.errors import BadConfiguration, InvalidKeyField
from app.domain.experiments import MetricConfig
from app.domain.functions import FunctionConfig
from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig
from app.domain.snapshot import Snapshot
from app.process.thread_steps import in_steps, run_in_steps
from app.store.configuration import snapshots
from app.store.configuration.config_file import ConfigFile, parse_config_file, write_file
from app.store.configuration.difference import EntryChange, find_changes, format_difference, price_key_of
from app.store.configuration.earlier import EarlierEntries, read_entries_at
from app.store.configuration.ended_experiments import read_ends, refuse_restarts
from app.store.configuration.experiments.acts import read_stopped_arms
from app.store.configuration.experiments.changes import ExperimentChange, find_experiment_changes
from app.store.configuration.experiments.experiments import NewVersion, describe_new_versions, store_experiment_changes
from app.store.configuration.experiments.kept_acts import keep_acts
from app.store.configuration.history import count_other_changes, publish_changes
from app.store.configuration.limits_of_keys import find_kept_limits, own_by_file, read_limits_of_keys
from app.store.configuration.rows import (
    State,
    by_name,
    by_price_key,
    lock_configuration,
    read_limit_positions,
    read_state,
    store_limits,
    store_prices,
    store_table,
    store_teams,
)
from app.store.configuration.used_entries import read_budgets_of_webhooks, refuse_removing_used
from app.store.configuration.validation.addresses import check_new_addresses
from app.store.configuration.validation.known_names import KnownNames
from app.store.configuration.validation.shadows import check_shadow_teams
from app.store.configuration.validation.team_restrictions import check_restrictions
from app.store.configuration.validation.validate import check_drop, find_new_warnings, find_warnings, validate
from app.store.keys.mask_rules import check_mask
from app.store.keys.rows import lock_changes
from app.store.postgres import tables
from app.store.postgres.audit_log import SYSTEM, Author
from app.store.postgres.conditions import one_of
from app.store.postgres.database import Database, transaction
from app.store.postgres.name_forms import check_form, explain_homograph, find_homographs
from app.store.postgres.names import check_priority, check_team
from app.store.workers.applied_changes import wait_until_served
from providers.transport.address_guard import AddressGuard

T = TypeVar("T")
K = TypeVar("K")

_KEY_PREFIX_CHARACTERS = 12
_CHANGED_MEANWHILE = "Somebody else changed the configuration in the meantime: run this again to see the new difference."


class Changed(Struct, frozen=True):
    """The result of a change. `version`: the one that has it; None: nothing differs. `warnings`: about probable mistakes that it adds.

    `experiment_versions`: of each experiment that started or has other weights or another enrolment.
    """

    version: int | None
    before: State
    after: State
    changes: Sequence[EntryChange]
    warnings: Sequence[str]
    experiment_versions: Sequence[NewVersion] = ()


class RolledBack(Struct, frozen=True):
    """`left`: what a rollback does not restore, a sentence each; also what becomes of limits of keys."""

    changed: Changed
    left: Sequence[str]


async def change_configuration(
    connection: AsyncConnection,
    author: Author,
    edit: Callable[[State], State],
    *,
    output_tokens: int | None = None,
    restores: int | None = None,
    guard: AddressGuard | None = None,
    warn: Callable[[Snapshot, Snapshot, KnownNames], list[str]] = find_new_warnings,
) -> Changed:
    """Change what a file can set, in the caller's transaction, under a lock that others who change it wait for.

    `edit` gets the state in force and returns the wanted one; it runs in a thread. `output_tokens`: the setting for models without one of
    their own, for warnings. `guard`: what new addresses may be; None: there are none. `warn`: finds warnings, by the state before and the
    wanted one. Raises BadConfiguration, as does `edit`; then nothing was changed.
    """
    await lock_configuration(connection)
    current = await read_state(connection)
    budgets_of_webhooks = await read_budgets_of_webhooks(connection)

    def compute() -> tuple[State, list[EntryChange], list[ExperimentChange]]:
        wanted = edit(current)
        _check_teams({name: team for name, team in wanted.teams.items() if current.teams.get(name) != team})
        refuse_removing_used(current.snapshot, wanted.snapshot, budgets_of_webhooks)
        validate(wanted.snapshot)
        if guard is not None:
            check_new_addresses(current.snapshot, wanted.snapshot, guard)
        _check_new_names(current, wanted)
        check_shadow_teams(wanted.snapshot, wanted.teams)
        return wanted, list(find_changes(current, wanted)), find_experiment_changes(current.snapshot, wanted.snapshot)

    wanted, changes, experiment_changes = await run_in_steps(compute)
    known = await _read_known_names(connection, wanted, output_tokens)

    warnings = await run_in_steps(lambda: warn(current.snapshot, wanted.snapshot, known))
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


async def apply(
    database_url: str,
    content: str,
    *,
    prune: bool,
    confirm: Callable[[str], bool],
    wait_s: float = 5.0,
    output_tokens: int | None = None,
    author: Author = SYSTEM,
    guard: AddressGuard | None = None,
) -> str:
    """Upsert the content of a file; with `prune` also remove what its sections lack, except teams.

    `confirm` is shown the difference first, followed by warnings about probable mistakes; these use `output_tokens`, the setting for
    models without one of their own. Returns the result as a sentence, once every worker serves it (or `wait_s` is over). Raises
    BadConfiguration, with nothing changed; before `confirm` is called if the file cannot be applied to what is in force.
    """
    file = parse_config_file(content)
    _check_teams(file.teams or {})

    async with transaction(database_url) as connection:
        shown, kept = await apply_file(connection, author, file, prune=prune, output_tokens=output_tokens, guard=guard)
        known_names = await _read_known_names(connection, shown.after, output_tokens)
        await connection.rollback()
    if shown.version is None:
        return "\n".join(["Nothing to change.", *kept])
    warnings = await run_in_steps(lambda: find_warnings(shown.after.snapshot, known_names))
    if not _is_confirmed(shown, warnings, kept, confirm):
        return "Nothing was changed."
    async with transaction(database_url) as connection:
        changed, _ = await apply_file(connection, author, file, prune=prune, output_tokens=output_tokens, guard=guard)
        version = _require_as_shown(changed, shown)
    return f"Applied as version {version}; {await report(database_url, changed, wait_s)}"


async def apply_file(
    connection: AsyncConnection,
    author: Author,
    file: ConfigFile,
    *,
    prune: bool,
    output_tokens: int | None = None,
    guard: AddressGuard | None = None,
) -> tuple[Changed, list[str]]:
    """Apply a file as change_configuration() does.

    Also return what the file would undo and does not, a sentence each: see
    app/store/configuration/experiments/kept_acts.py. What becomes of limits of keys is among these sentences:
    see app/store/configuration/limits_of_keys.py.

    Raises BadConfiguration also for an experiment that has ended: see
    app/store/configuration/ended_experiments.py.
    """
    await lock_configuration(connection)
    stopped = await read_stopped_arms(connection)
    ends = await read_ends(connection, file)
    own_names = [limit.name for limit in file.limits or ()]
    of_keys = (await read_limits_of_keys(connection)).difference(own_names) if prune else set[str]()
    kept: list[str] = []

    def edit(current: State) -> State:
        merged = merge_file(current, file, prune=prune)
        limits, about_limits = find_kept_limits(current, merged, of_keys)
        kept.extend(about_limits)
        refuse_restarts(current.snapshot, merged.snapshot, ends)
        models, functions = dict(merged.snapshot.models), dict(merged.snapshot.functions)
        for owned, config, sentence in keep_acts(current.snapshot, merged.snapshot, stopped):
            if owned.section == "models":
                models[owned.owner] = replace(models[owned.owner], experiment=config)
            else:
                functions[owned.owner] = replace(functions[owned.owner], experiment=config)
            kept.append(sentence)
        return edited(merged, models=models, functions=functions, limits=limits) if kept else merged

    changed = await change_configuration(connection, author, edit, output_tokens=output_tokens, guard=guard)
    await own_by_file(connection, own_names)
    return changed, kept


async def restore(
    database_url: str,
    version: int,
    *,
    confirm: Callable[[str], bool],
    wait_s: float = 5.0,
    output_tokens: int | None = None,
    author: Author = SYSTEM,
    guard: AddressGuard | None = None,
) -> str:
    """Restore the configuration of an earlier version, as apply() applies a file: see roll_back()."""
    async with transaction(database_url) as connection:
        shown = await roll_back(connection, author, version, output_tokens=output_tokens, guard=guard)
        await connection.rollback()
    if shown.changed.version is None:
        return "\n".join(["Nothing to change: the configuration is as it was then.", *shown.left])
    if not _is_confirmed(shown.changed, shown.changed.warnings, shown.left, confirm):
        return "Nothing was changed."
    async with transaction(database_url) as connection:
        changed = (await roll_back(connection, author, version, output_tokens=output_tokens, guard=guard)).changed
        restored = _require_as_shown(changed, shown.changed)
    return f"Restored version {version} as version {restored}; {await report(database_url, changed, wait_s)}"


def _is_confirmed(shown: Changed, warnings: Sequence[str], notes: Sequence[str], confirm: Callable[[str], bool]) -> bool:
    """Called outside of any transaction: a person may take their time, and nobody should wait for them behind a lock."""
    difference = format_difference(shown.before, shown.after)
    return confirm("\n".join([difference, *(f"Warning: {each}" for each in warnings), *notes]))


def _require_as_shown(changed: Changed, shown: Changed) -> int:
    """The version of a change that was tried, shown and then made. Raises BadConfiguration if it is another one by now."""
    before, expected = changed.before, shown.before
    if changed.version is None or (before.snapshot.hash, before.teams) != (expected.snapshot.hash, expected.teams):
        raise BadConfiguration(_CHANGED_MEANWHILE)
    return changed.version


async def read_current(database: Database) -> Snapshot:
    """The configuration in force, with stored credentials, encrypted."""
    async with transaction(database) as connection:
        return (await read_state(connection)).snapshot


async def export(database: Database) -> str:
    async with transaction(database) as connection:
        current_state = await read_state(connection)
    return await run_in_steps(lambda: write_file(current_state.snapshot, current_state.teams))


async def roll_back(
    connection: AsyncConnection,
    author: Author,
    version: int,
    *,
    output_tokens: int | None = None,
    guard: AddressGuard | None = None,
) -> RolledBack:
    """Make a new version whose configuration is equal to that of an earlier one, in the caller's transaction.

    Keys, credentials, users, roles, registered nodes and drained endpoints stay as they are, and teams are never removed. Limits that keys
    were given since then over the admin API stay with their keys. Raises UnknownVersion, or BadConfiguration for a version that is not
    valid today.
    """
    await lock_configuration(connection)
    earlier = await read_entries_at(connection, version)
    positions = {**await read_limit_positions(connection), **earlier.positions}
    of_keys = await read_limits_of_keys(connection)
    left: list[str] = []

    def edit(current: State) -> State:
        restored = _restore(current, earlier, positions)
        limits, about_limits = find_kept_limits(current, restored, of_keys)
        left.extend(about_limits)
        return edited(restored, limits=limits) if about_limits else restored

    changed = await change_configuration(connection, author, edit, output_tokens=output_tokens, restores=version, guard=guard)
    left += [
        f"{count} change{'s' if count != 1 else ''} of kind {resource!r} since then: a rollback restores only what a file can set."
        for resource, count in (await count_other_changes(connection, version)).items()
    ]
    kept_teams = sorted(name for (section, name), entry in earlier.entries.items() if section == "teams" and entry is None)
    if kept_teams:
        shown = ", ".join(kept_teams[:10]) + (f" and {len(kept_teams) - 10} more" if len(kept_teams) > 10 else "")
        left.append(f"Teams that are newer than version {version} stay, with their keys and records: {shown}.")
    return RolledBack(changed, left)


def _restore(state: State, earlier: EarlierEntries, positions: Mapping[str, int]) -> State:
    sections: dict[str, dict[Any, Any]] = {
        "teams": dict(state.teams),
        "providers": dict(state.snapshot.providers),
        "models": dict(state.snapshot.models),
        "limits": dict(by_name(state.snapshot.limits)),
        "prices": dict(by_price_key(state.snapshot.prices)),
        "functions": dict(state.snapshot.functions),
        "metrics": dict(state.snapshot.metrics),
    }
    kinds = {
        "teams": TeamConfig,
        "providers": ProviderConfig,
        "models": ModelConfig,
        "limits": Limit,
        "prices": Price,
        "functions": FunctionConfig,
        "metrics": MetricConfig,
    }
    for (section, name), entry in in_steps(earlier.entries.items()):
        key = price_key_of(name) if section == "prices" else name
        if entry is not None:
            sections[section][key] = msgspec.convert(entry, kinds[section])
        elif section != "teams":
            sections[section].pop(key, None)
    limits = sorted(sections["limits"].values(), key=lambda limit: (positions[limit.name], limit.name))
    return edited(
        state,
        teams=sections["teams"],
        providers=sections["providers"],
        models=sections["models"],
        limits=limits,
        prices=list(sections["prices"].values()),
        functions=sections["functions"],
        metrics=sections["metrics"],
    )


def merge_file(state: State, file: ConfigFile, *, prune: bool) -> State:
    """The state with a file's entries; with `prune` without what the file's sections lack, except teams."""
    old = state.snapshot
    return edited(
        state,
        teams={**state.teams, **(file.teams or {})},
        providers=_merge_section(old.providers, file.providers, prune=prune),
        models=_merge_section(old.models, file.models, prune=prune),
        limits=list(_merge_section(by_name(old.limits), None if file.limits is None else by_name(file.limits), prune=prune).values()),
        functions=_merge_section(old.functions, file.functions, prune=prune),
        metrics=_merge_section(old.metrics, file.metrics, prune=prune),
        prices=list(
            _merge_section(by_price_key(old.prices), None if file.prices is None else by_price_key(file.prices), prune=prune).values()
        ),
    )


def _merge_section(old: Mapping[K, T], new: Mapping[K, T] | None, *, prune: bool) -> dict[K, T]:
    if new is None:
        return dict(old)
    return {**({} if prune else old), **new}


def _check_teams(teams: Mapping[str, TeamConfig]) -> None:
    for name, team in teams.items():
        try:
            check_team(name)
            check_priority(team.priority)
            check_mask(team.mask)
            check_restrictions(team)
        except InvalidKeyField as fault:
            raise BadConfiguration(f"teams.{name!r:.60}: {fault}") from None
        check_drop(f"teams.{name}.drop", team.drop)


def _check_new_names(current: State, wanted: State) -> None:
    """Raises BadConfiguration for a new name that no path can have, or that looks like another one of its kind."""
    before, after = current.snapshot, wanted.snapshot
    kinds: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
        ("teams", current.teams, wanted.teams),
        ("providers", before.providers, after.providers),
        # What callers send as `model` is one of either.
        ("models", {**before.functions, **before.models}, {**after.functions, **after.models}),
        ("metrics", before.metrics, after.metrics),
    ]
    for section, known, names in kinds:
        new = names.keys() - known.keys()
        faults = [(name, fault) for name in new if (fault := check_form(name)) is not None]
        faults += [(name, explain_homograph(name, other)) for name, other in find_homographs(new, names)] if new else []
        for name, fault in sorted(faults)[:1]:
            section = "functions" if section == "models" and name in after.functions else section
            raise BadConfiguration(f"{section}.{name!r:.60}: {fault}")


async def _read_known_names(connection: AsyncConnection, state: State, output_tokens: int | None) -> KnownNames:
    key_names = {limit.scope.get("key", "each") for limit in state.snapshot.limits}
    prefixes = {name.removeprefix("nx-") for name in key_names if len(name) == len("nx-") + _KEY_PREFIX_CHARACTERS}
    existing = await connection.scalars(select(tables.keys.c.prefix).where(one_of(tables.keys.c.prefix, prefixes))) if prefixes else ()
    return KnownNames(state.teams.keys(), {f"nx-{prefix}" for prefix in existing}, output_tokens)


async def report(database_url: str, changed: Changed, wait_s: float) -> str:
    """Return what has become of a change that was committed: who serves it, as the end of a sentence.

    Sentences follow that say when experiments follow the change.
    """
    assert changed.version is not None
    async with transaction(database_url) as connection:
        experiments = await describe_new_versions(connection, changed.experiment_versions)
    applied = await wait_until_served(database_url, wait_s)
    return "\n".join([applied.in_words(wait_s), *experiments])
