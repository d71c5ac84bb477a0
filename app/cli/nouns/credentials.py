"""narthex credentials: the keys that encrypt stored secrets."""

import click

from app.cli.errors import OrderedGroup
from app.cli.output import json_option, pluralize, print_json
from app.cli.store_query import wait_until_all_serve
from app.settings import Settings
from app.store.postgres.audit_log import command_author
from app.store.teams import credentials as store
from app.supervisor.database_query import query_database
from app.supervisor.machine import secret_key, server_addresses
from app.supervisor.machine.errors import OperatorError
from providers.credentials import CredentialError


@click.group(cls=OrderedGroup)
def credentials() -> None:
    """Store secrets for providers, encrypted.

    A provider names one as `credential = "store:NAME"`. The key that encrypts them is NARTHEX_SECRET_KEY, or HOME/secret-key, which
    `narthex up` creates; it is never in Postgres. docs/credentials.md describes other places for secrets, and how to change them.
    """


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
    settings = secret_key.resolve(server_addresses.resolve(Settings.read()))
    vault = secret_key.open_vault(settings)
    try:
        rotation = query_database(settings.database_url, lambda url: store.reencrypt(url, vault, author=command_author()))
    except CredentialError as fault:
        raise OperatorError(str(fault)) from None
    applied = wait_until_all_serve(settings)
    if not applied.is_everywhere:
        click.echo(f"Warning: the change is stored, but {applied.in_words(settings.apply_wait_s)}", err=True)
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
