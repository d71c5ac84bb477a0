"""narthex credentials: secrets for providers, kept encrypted in Postgres."""

import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from app.cli.errors import OrderedGroup
from app.cli.output import json_option, pluralize, print_json, print_table, progress
from app.cli.times import format_time
from app.settings import Settings
from app.store import configuration
from app.store import credentials as store
from app.store.vault import Vault
from app.supervisor import secret_key, server_addresses
from app.supervisor.database_query import query_database
from app.supervisor.errors import OperatorError
from providers.credentials import CredentialError

T = TypeVar("T")

_APPLY_TIMEOUT_S = 30.0


@click.group(cls=OrderedGroup)
def credentials() -> None:
    """Store secrets for providers, encrypted.

    A provider names one as `credential = "store:NAME"`. NARTHEX_SECRET_KEY, or HOME/secret-key, which `narthex up` makes, encrypts them;
    Postgres never sees it. docs/credentials.md tells of other places for secrets, and how to change them.
    """


@credentials.command("set")
@click.argument("name")
@json_option
def set_credential(name: str, as_json: bool) -> None:
    """Store a secret under NAME, or another in its place.

    It is read from standard input, or asked for where that is a terminal; never from the command line, which others may see. Returns
    once every gateway process uses it; no request is lost over that.

    \b
    Examples:
      narthex credentials set openai
      narthex credentials set vertex < service-account.json

    With --json: {"name", "version", "message"}.
    """
    settings, vault = _open_vault()
    secret = click.prompt(f"Secret for {name}", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    version = _query_credentials(settings, lambda url: store.set_credential(url, vault, name, secret))
    _report_applied(settings, name, version, f"{name} is stored", as_json)


@credentials.command("list")
@json_option
def list_credentials(as_json: bool) -> None:
    """List what is stored, by name, never by what it is.

    \b
    Example:
      narthex credentials list

    With --json: {"credentials": [{"name", "key", "updated_at", "opens", "providers"}], "newest_key"}. "key": the id of the key that
    encrypts it, null: a provider names it and nothing is stored; "opens": whether the keys that this command found decrypt it;
    "newest_key": the id of the one that encrypts what is stored from now on.
    """
    settings, vault = _open_vault()
    rows = query_database(settings.database_url, lambda url: store.list_credentials(url, vault))
    if as_json:
        print_json({"credentials": rows, "newest_key": vault.newest_key_id})
    elif not rows:
        click.echo("Nothing is stored; `narthex credentials set NAME` stores a secret for a provider.")
    else:
        cells = [
            (
                row.name,
                row.key or "",
                _credential_state(row),
                format_time(row.updated_at) if row.updated_at else "",
                ", ".join(row.providers),
            )
            for row in rows
        ]
        print_table(("NAME", "KEY", "STATE", "STORED", "USED BY"), cells)


@credentials.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete_credential(name: str, yes: bool, as_json: bool) -> None:
    """Delete what is stored under NAME.

    Providers that name it are asked without one no more: their requests fail (502) until another is stored.

    \b
    Example:
      narthex credentials delete old-key --yes

    With --json (which needs --yes): {"name", "version", "message"}.
    """
    if as_json and not yes:
        raise click.UsageError("--json asks nothing, so it needs --yes.")
    settings, vault = _open_vault()
    if not yes:
        rows = query_database(settings.database_url, lambda url: store.list_credentials(url, vault))
        used_by = next((row.providers for row in rows if row.name == name), ())
        click.confirm(f"Delete {name}" + (f", which {', '.join(used_by)} needs?" if used_by else "?"), abort=True, err=True)
    version = query_database(settings.database_url, lambda url: store.delete_credential(url, name))
    if version is None:
        raise OperatorError(f"Nothing is stored under the name {name!r}.")
    _report_applied(settings, name, version, f"{name} is deleted", as_json)


@credentials.command("rotate")
@json_option
def rotate(as_json: bool) -> None:
    """Encrypt everything that is stored with the newest key.

    After a new key was put first in NARTHEX_SECRET_KEY (or HOME/secret-key) of all gateways and of this command, and the gateways were
    started anew. Then the old key may go. Exit status 1 if something could not be decrypted.

    \b
    Example:
      narthex credentials rotate

    With --json: {"sealed": [names], "unopened": [names], "version": number or null}.
    """
    settings, vault = _open_vault()
    rotation = _query_credentials(settings, lambda url: store.reencrypt(url, vault))
    if as_json:
        print_json(rotation)
    else:
        click.echo(f"{pluralize(len(rotation.sealed), 'credential')} encrypted anew, with the key {vault.newest_key_id}.")
        for name in rotation.unopened:
            click.echo(f"{name} cannot be decrypted with the keys that are given: add the key that it was encrypted with.", err=True)
    if rotation.unopened:
        raise click.exceptions.Exit(1)


@credentials.command("new-key")
def new_key() -> None:
    """Print a new random key for NARTHEX_SECRET_KEY.

    It is kept nowhere. docs/credentials.md tells step by step how to change keys.

    \b
    Example:
      narthex credentials new-key
    """
    click.echo(secret_key.generate())


def _open_vault() -> tuple[Settings, Vault]:
    settings = secret_key.resolve(server_addresses.resolve(Settings.read()))
    return settings, secret_key.open_vault(settings)


def _query_credentials(settings: Settings, query: Callable[[str], Awaitable[T]]) -> T:
    try:
        return query_database(settings.database_url, query)
    except CredentialError as fault:
        raise OperatorError(str(fault)) from None


def _report_applied(settings: Settings, name: str, version: int, change: str, as_json: bool) -> None:
    with progress("Waiting until every gateway process knows"):
        worker_status = query_database(settings.database_url, lambda url: configuration.wait_for_workers(url, version, _APPLY_TIMEOUT_S))
    message = f"{change}, with version {version}; {worker_status}"
    if as_json:
        print_json({"name": name, "version": version, "message": message})
    else:
        click.echo(message)


def _credential_state(row: store.CredentialRow) -> str:
    if row.key is None:
        return "not stored"
    return "opens" if row.opens else "does not open"
