"""Commands that say what there is to speak to: apply, export, models."""

import contextlib
import sys
import tomllib
from collections.abc import Generator
from typing import TextIO

import click
import msgspec

from app.cli.output import json_option, print_json, print_table, progress
from app.domain import ModelConfig
from app.settings import Settings
from app.store import configuration
from app.store.config_file import ConfigFile, parse_config_file
from app.supervisor import server_addresses
from app.supervisor.database_query import query_database
from app.supervisor.errors import OperatorError

_APPLY_TIMEOUT_S = 30.0


class _Confirmation:
    """Shows the difference, and asks where somebody is to decide. Then something moves while gateways take the change up."""

    def __init__(self, stack: contextlib.ExitStack, *, interactive: bool, show: bool, approve: bool) -> None:
        self.difference = ""
        self._stack = stack
        self._interactive, self._show, self._approve = interactive, show, approve

    def __call__(self, difference: str) -> bool:
        self.difference = difference
        if self._show:
            click.echo(difference)
        if self._approve and self._interactive and not _confirm():
            return False
        if self._approve:
            self._stack.enter_context(progress("Waiting until every gateway process serves it"))
        return self._approve


@click.command()
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--prune", is_flag=True, help="Also remove, in the sections that the file has, what is not in it.")
@click.option("--dry-run", is_flag=True, help="Check the file and show the difference; change nothing.")
@json_option
def apply(file: TextIO, yes: bool, prune: bool, dry_run: bool, as_json: bool) -> None:
    """Make the configuration say what FILE says (- is standard input).

    Shows the difference to what is in force, with warnings of what is probably not meant, and asks. The whole file is checked before
    anything changes; what it does not name stays as it is. Returns once every gateway process serves the new configuration.
    docs/configuration.md tells what a file may say.

    \b
    Examples:
      narthex apply engines.toml
      narthex apply --dry-run engines.toml
      narthex export | sed s/10.0.0.5/10.0.0.7/ | narthex apply --yes -

    With --json (which needs --yes or --dry-run): {"applied": true or false, "difference": text, "message": text}.
    """
    if as_json and not yes and not dry_run:
        raise click.UsageError("--json asks nothing, so it needs --yes (or --dry-run).")
    try:
        text = file.read()
    except UnicodeDecodeError:
        raise OperatorError(f"{file.name} is no text in UTF-8, as TOML must be.") from None
    settings = server_addresses.resolve(Settings.read())
    interactive = not yes and not dry_run
    with contextlib.ExitStack() as stack:
        if file.name == "<stdin>" and interactive:
            stack.enter_context(_stdin_from_terminal())
        confirm = _Confirmation(stack, interactive=interactive, show=not as_json, approve=not dry_run)
        outcome = query_database(
            settings.database_url,
            lambda url: configuration.apply(
                url, text, prune=prune, confirm=confirm, wait_s=_APPLY_TIMEOUT_S, output_tokens=settings.limits_output_tokens
            ),
        )
    if as_json:
        print_json({"applied": bool(confirm.difference) and not dry_run, "difference": confirm.difference, "message": outcome})
    else:
        click.echo(outcome)


@click.command()
@json_option
def export(as_json: bool) -> None:
    """Print the configuration as a file that `apply` takes.

    \b
    Examples:
      narthex export > all.toml
      narthex apply --prune all.toml        brings that state back

    With --json: the same sections as one object.
    """
    text = query_database(server_addresses.resolve(Settings.read()).database_url, configuration.export)
    if as_json:
        print_json(tomllib.loads(text))
    else:
        click.echo(text, nl=False)


@click.command()
@json_option
def models(as_json: bool) -> None:
    """List the names that callers may use, and what serves them.

    \b
    Example:
      narthex models

    With --json: {"models": [{"name", "targets": [{"provider", "model", ...}], "fallbacks", ...}]}, as in a configuration file.
    """
    configured = _read_configuration().models or {}
    if as_json:
        print_json({"models": [{"name": name, **_with_defaults(model)} for name, model in configured.items()]})
    elif not configured:
        click.echo("There is no model yet: `narthex apply` takes a file that names some; docs/configuration.md has an example.")
    else:
        print_table(
            ("MODEL", "SERVED BY", "FALLS BACK TO"),
            [(name, _format_targets(each), ", ".join(each.fallbacks)) for name, each in configured.items()],
        )


def _read_configuration() -> ConfigFile:
    return parse_config_file(query_database(server_addresses.resolve(Settings.read()).database_url, configuration.export))


def _with_defaults(model: ModelConfig) -> dict[str, object]:
    """With the fields that a file would leave out: a program need not know our defaults."""
    return {**msgspec.structs.asdict(model), "targets": [msgspec.structs.asdict(each) for each in model.targets]}


def _format_targets(model: ModelConfig) -> str:
    return ", ".join(
        f"{each.provider}/{each.model}" + (f" (weight {each.weight:g})" if each.weight is not None else "") for each in model.targets
    )


def _confirm() -> bool:
    try:
        return click.confirm("Apply this?")
    except click.Abort:
        click.echo()  # ends the line of the question
        raise OperatorError("Nothing was changed: nobody answered. `--yes` applies without asking.") from None


@contextlib.contextmanager
def _stdin_from_terminal() -> Generator[None]:
    """The file came by standard input, so the answer cannot; the terminal is asked itself."""
    try:
        terminal = open("/dev/tty")  # noqa: SIM115
    except OSError:
        raise OperatorError("There is no terminal to ask on; add --yes to apply without a question.") from None
    previous_stdin, sys.stdin = sys.stdin, terminal
    try:
        yield
    finally:
        sys.stdin = previous_stdin
        terminal.close()
