"""The prompt of commands that end or delete what no other command brings back: asked on a terminal, skipped by --yes."""

import sys

import click

from app.supervisor.machine.errors import OperatorError


def refuse_unconfirmed(*, yes: bool, as_json: bool = False) -> None:
    """Refuses to go on where nobody can be asked: before anything is looked up. Raises UsageError, OperatorError."""
    if yes:
        return
    if as_json:
        raise click.UsageError("--json does not prompt, so it needs --yes.")
    if not sys.stdin.isatty():
        raise OperatorError("Nothing was changed: there is no terminal for the prompt. `--yes` goes on without one.")


def confirm(question: str, *, yes: bool, as_json: bool = False) -> None:
    """Asks, unless `yes`. Raises click.Abort if the answer is no, and as refuse_unconfirmed()."""
    refuse_unconfirmed(yes=yes, as_json=as_json)
    if not yes:
        click.confirm(question, abort=True, err=True)
