"""Applying a file: its entries are stored, and with --prune those that it lacks are removed."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncConnection

from app.process.thread_steps import run_in_steps
from app.store.configuration.config_file import ConfigFile, parse_config_file
from app.store.configuration.configuration import Changed, change_configuration, edited, read_known_names
from app.store.configuration.confirmed_change import is_confirmed, report, require_as_shown
from app.store.configuration.ended_experiments import read_ends, refuse_restarts
from app.store.configuration.experiments.acts import read_stopped_arms
from app.store.configuration.experiments.kept_acts import keep_acts
from app.store.configuration.limits_of_keys import find_kept_limits, own_by_file, read_limits_of_keys
from app.store.configuration.rows import State, by_name, by_price_key, lock_configuration
from app.store.configuration.validation.teams import check_teams
from app.store.configuration.validation.validate import find_warnings
from app.store.postgres.audit_log import SYSTEM, Author
from app.store.postgres.database import transaction
from providers.transport.address_guard import AddressGuard

T = TypeVar("T")
K = TypeVar("K")


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
    check_teams(file.teams or {})

    async with transaction(database_url) as connection:
        shown, kept = await apply_file(connection, author, file, prune=prune, output_tokens=output_tokens, guard=guard)
        known_names = await read_known_names(connection, shown.after, output_tokens)
        await connection.rollback()
    if shown.version is None:
        return "\n".join(["Nothing to change.", *kept])
    warnings = await run_in_steps(lambda: find_warnings(shown.after.snapshot, known_names))
    if not is_confirmed(shown, warnings, kept, confirm):
        return "Nothing was changed."
    async with transaction(database_url) as connection:
        changed, _ = await apply_file(connection, author, file, prune=prune, output_tokens=output_tokens, guard=guard)
        version = require_as_shown(changed, shown)
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
