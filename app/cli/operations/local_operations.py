"""The operations of a subject in the process of a command, which has settings and a database, and no gateway."""

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from app.api.rest.operation import Operation
from app.settings import Settings
from app.store.access.accounts import configured_group_roles

PACKAGE = "app.api.admin"
# What `operations()` of a module of app.api.admin may take, by the names of its parameters. Others are a gateway's alone.
_PARTS: Mapping[str, Callable[[Settings], Any]] = {
    "settings": lambda settings: settings,
    "public_url": lambda settings: settings.public_url,
    "output_tokens": lambda settings: settings.limits_output_tokens,
    "focus_days": lambda settings: 36_600,  # of a command: no gateway's loop is held up
    "group_roles": configured_group_roles,
    # imported where they are needed: with them come cryptography and httpx2, or redis
    "vault": lambda settings: _open_vault(settings),
    "counts": lambda settings: _open_counts(settings),
}


def _open_counts(settings: Settings) -> Any:
    stored_values = importlib.import_module("app.gateway.limits.counters.stored_values")
    return importlib.import_module(f"{PACKAGE}.limits.budgets").BudgetCounts(
        functools.partial(stored_values.read_stored_values, settings.redis_url)
    )


def _open_vault(settings: Settings) -> Any:
    secret_key = importlib.import_module("app.supervisor.machine.secret_key")
    return secret_key.open_vault(secret_key.resolve(settings))


def operations_of(subject: str, settings: Settings) -> list[Operation[Any, Any]]:
    """Returns the operations of a subject, a module of app.api.admin such as access.teams. Empty: it has none, or they need a gateway."""
    declare = getattr(importlib.import_module(f"{PACKAGE}.{subject}"), "operations", None)
    if declare is None:
        return []
    needed = inspect.signature(declare).parameters
    return declare(**{name: _PARTS[name](settings) for name in needed}) if needed.keys() <= _PARTS.keys() else []
