"""narthex credentials: secrets for providers, kept encrypted in Postgres."""

import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from app.cli.sentences import Ordered
from app.cli.telling import count, json_option, tell_json, tell_table, working
from app.cli.times import short
from app.local import secret_key, servers
from app.local.asking import ask
from app.local.trouble import Trouble
from app.settings import Settings
from app.store import configuration
from app.store import credentials as store
from app.store.vault import Vault
from providers.credentials import NoCredential

T = TypeVar("T")

_WAIT_S = 30.0


@click.group(cls=Ordered)
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
    settings, vault = _opened()
    secret = click.prompt(f"Secret for {name}", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    version = _asked(settings, lambda url: store.set_credential(url, vault, name, secret))
    _tell_served(settings, name, version, f"{name} is stored", as_json)


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
    settings, vault = _opened()
    rows = ask(settings.database_url, lambda url: store.list_credentials(url, vault))
    if as_json:
        tell_json({"credentials": rows, "newest_key": vault.newest})
    elif not rows:
        click.echo("Nothing is stored; `narthex credentials set NAME` stores a secret for a provider.")
    else:
        told = [
            (row.name, row.key or "", _state(row), short(row.updated_at) if row.updated_at else "", ", ".join(row.providers))
            for row in rows
        ]
        tell_table(("NAME", "KEY", "STATE", "STORED", "USED BY"), told)


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
    settings, vault = _opened()
    if not yes:
        rows = ask(settings.database_url, lambda url: store.list_credentials(url, vault))
        used = next((row.providers for row in rows if row.name == name), ())
        click.confirm(f"Delete {name}" + (f", which {', '.join(used)} needs?" if used else "?"), abort=True, err=True)
    version = ask(settings.database_url, lambda url: store.delete_credential(url, name))
    if version is None:
        raise Trouble(f"Nothing is stored under the name {name!r}.")
    _tell_served(settings, name, version, f"{name} is deleted", as_json)


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
    settings, vault = _opened()
    done = _asked(settings, lambda url: store.reseal(url, vault))
    if as_json:
        tell_json(done)
    else:
        click.echo(f"{count(len(done.sealed), 'credential')} encrypted anew, with the key {vault.newest}.")
        for name in done.unopened:
            click.echo(f"{name} cannot be decrypted with the keys that are given: add the key that it was encrypted with.", err=True)
    if done.unopened:
        raise click.exceptions.Exit(1)


@credentials.command("new-key")
def new_key() -> None:
    """Print a new random key for NARTHEX_SECRET_KEY.

    It is kept nowhere. docs/credentials.md tells step by step how to change keys.

    \b
    Example:
      narthex credentials new-key
    """
    click.echo(secret_key.new())


def _opened() -> tuple[Settings, Vault]:
    settings = secret_key.found(servers.found(Settings.read()))
    return settings, secret_key.vault(settings)


def _asked(settings: Settings, question: Callable[[str], Awaitable[T]]) -> T:
    try:
        return ask(settings.database_url, question)
    except NoCredential as fault:
        raise Trouble(str(fault)) from None


def _tell_served(settings: Settings, name: str, version: int, done: str, as_json: bool) -> None:
    with working("Waiting until every gateway process knows"):
        served = ask(settings.database_url, lambda url: configuration.wait_for_workers(url, version, _WAIT_S))
    message = f"{done}, with version {version}; {served}"
    if as_json:
        tell_json({"name": name, "version": version, "message": message})
    else:
        click.echo(message)


def _state(row: store.CredentialRow) -> str:
    if row.key is None:
        return "not stored"
    return "opens" if row.opens else "does not open"
