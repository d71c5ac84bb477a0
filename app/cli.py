"""The narthex command."""

import contextlib
import os
import sys
from collections.abc import Generator
from typing import Any, TextIO, cast

import click

from app.domain import ContentPolicy
from app.local import run_writer, servers, status
from app.local import up as machine
from app.local.asking import ask
from app.local.trouble import Trouble
from app.settings import BadSetting, Settings
from app.store import configuration
from app.store import keys as key_store
from app.store.configuration import BadConfiguration
from app.store.migrate import migrate as migrate_database
from providers.catalogue import ADAPTERS

_APPLY_PATIENCE_S = 30.0


class Sentences(click.Group):
    """Expected trouble is told in a sentence on standard error, with status 1; a bad setting, like a bad command line, with 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BadSetting as fault:
            raise click.UsageError(str(fault)) from fault
        except (Trouble, BadConfiguration, OSError) as fault:  # OSError: a full disk, a missing right; it names the file
            raise click.ClickException(str(fault)) from fault


@click.group(cls=Sentences, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="narthex")
def main() -> None:
    """Narthex: one gateway to every language model a company uses.

    Settings are environment variables (NARTHEX_HOME, NARTHEX_PORT, DATABASE_URL ...); docs/settings.md lists them all.
    """


@main.command()
def up() -> None:
    """Start everything on this machine; Ctrl-C ends it."""
    machine.up(Settings.read(), _say)


@main.command()
def serve() -> None:
    """Start the gateway alone, with the servers of DATABASE_URL and REDIS_URL."""
    machine.serve(servers.found(Settings.read()), _say)


@main.command()
def writer() -> None:
    """Carry this machine's spool into the database, until SIGTERM."""
    run_writer.main(servers.found(Settings.read()))


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8788, show_default=True)
def sandbox(host: str, port: int) -> None:
    """Run the sandbox engine alone: it speaks OpenAI's API without a model behind it."""
    # Another program in this process's place: the engine needs nothing of the gateway's, not even in memory.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "app.local.run_sandbox", host, str(port)])


@main.command()
def migrate() -> None:
    """Bring the database to this version's tables."""
    ask(_database_url(), migrate_database)
    click.echo("The database is up to date.")


@main.command()
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--prune", is_flag=True, help="Also remove, in the sections that the file has, what is not in it.")
def apply(file: TextIO, yes: bool, prune: bool) -> None:
    """Make the configuration say what FILE says (- for standard input), after showing the difference."""
    text = file.read()
    confirm = _show if yes else _ask
    with _answers_from_terminal() if file.name == "<stdin>" and not yes else contextlib.nullcontext():
        outcome = ask(_database_url(), lambda url: configuration.apply(url, text, prune=prune, confirm=confirm, wait_s=_APPLY_PATIENCE_S))
    click.echo(outcome)


@main.command()
def export() -> None:
    """Print the configuration as a file that `apply` takes."""
    click.echo(ask(_database_url(), configuration.export), nl=False)


@main.command()
def providers() -> None:
    """List the adapters that a [providers.NAME] may name, with their options."""
    for name, adapter in sorted(ADAPTERS.items()):
        click.echo(name)
        for option, meaning in adapter.known_options.items():
            click.echo(f"    {option}: {meaning}")


@main.command("status")
def show_status() -> None:
    """Show what runs in this home; the exit status is 0 if the gateway answers."""
    settings = Settings.read()
    for line in status.processes(settings.home):
        click.echo(line)
    told, answers = status.gateway(settings)
    click.echo(told)
    if not answers:
        raise click.exceptions.Exit(1)


@main.group()
def keys() -> None:
    """Make, list and revoke keys."""


@keys.command("create")
@click.option("--team", required=True, help="Whose key it is; the team is made if it is new.")
@click.option("--name", default="", help="What it is for, for people.")
@click.option("--admin", is_flag=True, help="A key for the admin API.")
@click.option("--content", type=click.Choice(["full", "redacted", "none"]), help="What is kept of the team's asks and replies.")
@click.option("--quiet", is_flag=True, help="Print the key and nothing else.")
def create_key(team: str, name: str, admin: bool, content: str | None, quiet: bool) -> None:
    """Make a key. It is shown this once and stored nowhere."""
    if not team.strip():
        raise click.BadParameter("a team needs a name", param_hint="--team")
    policy = cast(ContentPolicy | None, content)
    key = ask(_database_url(), lambda url: key_store.create_key(url, team.strip(), name=name, admin=admin, content=policy))
    if not quiet:
        click.echo(f"A key for {team}; it is shown this once:", err=True)
    click.echo(key)


@keys.command("list")
def list_keys() -> None:
    """List keys by their public part."""
    for row in ask(_database_url(), key_store.list_keys):
        marks = ", ".join(filter(None, [row.name, "admin" if row.admin else "", f"revoked {row.revoked_at}" if row.revoked_at else ""]))
        click.echo(f"nx-{row.prefix}  {row.team}  made {row.created_at}" + (f"  ({marks})" if marks else ""))


@keys.command("revoke")
@click.argument("prefix")
def revoke_key(prefix: str) -> None:
    """Revoke the key whose public part is PREFIX; it stops working within a second or two."""
    if not ask(_database_url(), lambda url: key_store.revoke_key(url, prefix)):
        raise Trouble(f"No valid key begins with {prefix!r}; `narthex keys list` shows those there are.")
    click.echo("Revoked.")


def _database_url() -> str:
    return servers.found(Settings.read()).database_url


def _say(text: str) -> None:
    # Whoever listened may have gone (a closed terminal, a broken pipe): no reason for the gateway to go too.
    with contextlib.suppress(OSError):
        click.echo(text)
        sys.stdout.flush()  # whoever reads this through a pipe is to see it now


def _show(difference: str) -> bool:
    click.echo(difference)
    return True


def _ask(difference: str) -> bool:
    click.echo(difference)
    try:
        return click.confirm("Apply this?")
    except click.Abort:
        raise Trouble("Nothing was changed: nobody answered. `--yes` applies without asking.") from None


@contextlib.contextmanager
def _answers_from_terminal() -> Generator[None]:
    """The file came by standard input, so the answer cannot; the terminal is asked itself."""
    try:
        terminal = open("/dev/tty")  # noqa: SIM115
    except OSError:
        raise Trouble("There is no terminal to ask on; add --yes to apply without a question.") from None
    before, sys.stdin = sys.stdin, terminal
    try:
        yield
    finally:
        sys.stdin = before
        terminal.close()


if __name__ == "__main__":
    main()
