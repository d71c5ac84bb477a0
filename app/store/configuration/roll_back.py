"""Rolling back: the configuration of an earlier version, as a new one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.callers import TeamConfig
from app.domain.experiments import MetricConfig
from app.domain.functions import FunctionConfig
from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig
from app.process.thread_steps import in_steps
from app.store.configuration.configuration import Changed, change_configuration, edited
from app.store.configuration.confirmed_change import is_confirmed, report, require_as_shown
from app.store.configuration.difference import price_key_of
from app.store.configuration.earlier import EarlierEntries, read_entries_at
from app.store.configuration.history import count_other_changes
from app.store.configuration.limits_of_keys import find_kept_limits, read_limits_of_keys
from app.store.configuration.rows import State, by_name, by_price_key, lock_configuration, read_limit_positions
from app.store.postgres.audit_log import SYSTEM, Author
from app.store.postgres.database import transaction
from providers.transport.address_guard import AddressGuard


class RolledBack(Struct, frozen=True):
    """The result of a rollback."""

    changed: Changed
    left: Sequence[str]  # what a rollback does not restore, a sentence each; also what becomes of limits of keys


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
    if not is_confirmed(shown.changed, shown.changed.warnings, shown.left, confirm):
        return "Nothing was changed."
    async with transaction(database_url) as connection:
        changed = (await roll_back(connection, author, version, output_tokens=output_tokens, guard=guard)).changed
        restored = require_as_shown(changed, shown.changed)
    return f"Restored version {version} as version {restored}; {await report(database_url, changed, wait_s)}"


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
