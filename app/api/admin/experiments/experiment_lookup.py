"""The experiment that the path of an operation names, and what is checked before it is changed."""

from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.api.rest.etags import etag_of
from app.api.rest.operation import Call
from app.store.configuration.rows import lock_configuration
from app.store.experiments.queries import ExperimentRow, find_experiment, find_settings
from providers.canonical.errors import Conflict, UnknownRecord


async def require_experiment(connection: AsyncConnection, name: str) -> ExperimentRow:
    """Raises UnknownRecord."""
    found = await find_experiment(connection, name)
    if found is None:
        raise UnknownRecord(f"There is no experiment {name!r:.200}. GET /admin/v1/experiments lists them.")
    return found


async def lock_for_change(call: Call[Any, Any]) -> None:
    """Locks the configuration until the end of the transaction, and checks that the experiment may be changed.

    Raises UnknownRecord, Conflict, and what Call.check_match() raises.
    """
    await lock_configuration(call.connection)
    found = await require_experiment(call.connection, call.path["name"])
    settings = await find_settings(call.connection, found)
    if settings is None:
        raise Conflict(f"The configuration no longer has the experiment {found.name!r:.200}: only its record is left.")
    call.check_match(etag_of(settings))
