"""One change of the configuration by a command that knows what to change: stored, served by every gateway process, reported."""

from collections.abc import Callable

import click

from app.cli.output import print_json
from app.settings import Settings
from app.store.configuration import configuration, confirmed_change
from app.store.configuration.rows import State
from app.store.postgres.audit_log import command_author
from app.store.postgres.database import transaction
from app.supervisor.database_query import query_database
from app.supervisor.machine import server_addresses


def change_and_report(name: str, edit: Callable[[State], State], *, as_json: bool) -> None:
    """`name`: of what is changed. With `as_json` it prints {"name", "version" or null, "message", "warnings"}."""
    settings = server_addresses.resolve(Settings.read())

    async def store(database_url: str) -> configuration.Changed:
        async with transaction(database_url) as connection:
            output_tokens, guard = settings.limits_output_tokens, settings.address_guard
            return await configuration.change_configuration(connection, command_author(), edit, output_tokens=output_tokens, guard=guard)

    report_change(name, query_database(settings.database_url, store), as_json=as_json)


def report_change(name: str, changed: configuration.Changed, *, as_json: bool) -> None:
    """Once every gateway process serves it."""
    settings = server_addresses.resolve(Settings.read())
    message = "Nothing to change."
    if changed.version is not None:
        served = query_database(settings.database_url, lambda url: confirmed_change.report(url, changed, settings.apply_wait_s))
        message = f"Applied as version {changed.version} of the configuration; {served}"
    if as_json:
        print_json({"name": name, "version": changed.version, "message": message, "warnings": changed.warnings})
        return
    for warning in changed.warnings:
        click.echo(f"Warning: {warning}", err=True)
    click.echo(message)
