"""narthex credentials: secrets for providers, kept encrypted in Postgres."""

import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from app.cli.confirmation import confirm, refuse_unconfirmed, yes_option
from app.cli.errors import OrderedGroup
from app.cli.output import json_option, pluralize, print_json, print_table, progress
from app.cli.store_query import warn_unless_served
from app.cli.times import format_time
from app.settings import Settings
from app.store.postgres.audit_log import command_author
from app.store.postgres.vault import Vault
from app.store.teams import credentials as store
from app.store.workers.applied_changes import wait_until_served
from app.supervisor.database_query import query_database
from app.supervisor.machine import secret_key, server_addresses
from app.supervisor.machine.errors import OperatorError
from providers.credentials import CredentialError

T = TypeVar("T")


@click.group(cls=OrderedGroup)
def credentials() -> None:
    """Store secrets for providers, encrypted.

    A provider names one as `credential = "store:NAME"`. The key that encrypts them is NARTHEX_SECRET_KEY, or HOME/secret-key, which
    `narthex up` creates; it is never in Postgres. docs/credentials.md describes other places for secrets, and how to change them.
    """


@credentials.command("set")
@click.argument("name")
@json_option
def set_credential(name: str, as_json: bool) -> None:
    """Store a secret under NAME, or replace it.

    The secret is read from standard input, or from a prompt on a terminal; never from the command line, which others may see. Returns
    once every gateway process uses it; no request fails because of the change.

    \b
    Examples:
      narthex credentials set openai
      narthex credentials set vertex < service-account.json

    With --json: {"name", "version", "message"}.
    """
    settings, vault = _open_vault()
    secret = click.prompt(f"Secret for {name}", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    version = _query_credentials(settings, lambda url: store.set_credential(url, vault, name, secret, author=command_author()))
    _report_applied(settings, name, version, f"{name} is stored", as_json)


@credentials.command("list")
@json_option
def list_credentials(as_json: bool) -> None:
    """List stored credentials by name; their values are never shown.

    \b
    Example:
      narthex credentials list

    With --json: {"credentials": [{"name", "key", "updated_at", "decryptable", "providers"}], "newest_key_id"}. "key": the id of the key
    that encrypts it, null if a provider names it but nothing is stored; "decryptable": whether the keys that this command found decrypt
    it; "newest_key_id": the id of the key that encrypts new credentials.
    """
    settings, vault = _open_vault()
    rows = query_database(settings.database_url, lambda url: store.list_credentials(url, vault))
    if as_json:
        print_json({"credentials": rows, "newest_key_id": vault.newest_key_id})
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
@yes_option
@json_option
def delete_credential(name: str, yes: bool, as_json: bool) -> None:
    """Delete the credential stored under NAME.

    Requests to providers that name it fail (502) until another is stored.

    \b
    Example:
      narthex credentials delete old-key --yes

    With --json (which needs --yes): {"name", "version", "message"}.
    """
    refuse_unconfirmed(yes=yes, as_json=as_json)
    settings, vault = _open_vault()
    if not yes:
        rows = query_database(settings.database_url, lambda url: store.list_credentials(url, vault))
        used_by = next((row.providers for row in rows if row.name == name), ())
        confirm(f"Delete {name}" + (f", which {', '.join(used_by)} uses?" if used_by else "?"), yes=yes)
    version = query_database(settings.database_url, lambda url: store.delete_credential(url, name, author=command_author()))
    if version is None:
        raise OperatorError(f"Nothing is stored under the name {name!r}.")
    _report_applied(settings, name, version, f"{name} is deleted", as_json)


@credentials.command("rotate")
@json_option
def rotate(as_json: bool) -> None:
    """Encrypt all stored credentials again, with the newest key.

    First put a new key before the others in NARTHEX_SECRET_KEY (or HOME/secret-key) of all gateways and of this command, and restart
    the gateways. After this command the old key can be removed. Exit status 1 if something could not be decrypted.

    \b
    Example:
      narthex credentials rotate

    With --json: {"reencrypted": [names], "undecryptable": [names], "version": number or null}.
    """
    settings, vault = _open_vault()
    rotation = _query_credentials(settings, lambda url: store.reencrypt(url, vault, author=command_author()))
    warn_unless_served(settings)
    if as_json:
        print_json(rotation)
    else:
        click.echo(f"{pluralize(len(rotation.reencrypted), 'credential')} encrypted again, with the key {vault.newest_key_id}.")
        for name in rotation.undecryptable:
            click.echo(f"{name} cannot be decrypted with the present keys: add the key that it was encrypted with.", err=True)
    if rotation.undecryptable:
        raise click.exceptions.Exit(1)


@credentials.command("new-key")
def new_key() -> None:
    """Print a new random key for NARTHEX_SECRET_KEY.

    It is not stored anywhere. docs/credentials.md says step by step how to change keys.

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
    with progress("Waiting until every gateway process uses it"):
        applied = query_database(settings.database_url, lambda url: wait_until_served(url, settings.apply_wait_s))
    message = f"{change}, with version {version}; {applied.in_words(settings.apply_wait_s)}"
    if as_json:
        print_json({"name": name, "version": version, "message": message})
    else:
        click.echo(message)


def _credential_state(row: store.CredentialRow) -> str:
    if row.key is None:
        return "not stored"
    return "decryptable" if row.decryptable else "not decryptable"
