"""The audit log, as people read it."""

from collections.abc import Mapping
from typing import Any

import click

from app.cli.changes import format_changes
from app.cli.output import print_table, printable
from app.cli.times import format_time

_SHOWN_CHARACTERS = 60


def events(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if not document["data"]:
        click.echo("No change matches.")
        return
    print_table(("AT", "WHO", "VIA", "ACTION", "WHAT", "CHANGE"), [_cells(each) for each in document["data"]])
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows the next ones, --export prints all.", err=True)


def event(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    for name, value in document.items():
        if value is not None and name not in ("before", "after", "actor"):
            click.echo(f"{name}: {printable(str(value))}")
    click.echo(f"actor: {printable(_actor(document))}")
    for change in format_changes(document["before"], document["after"]):
        click.echo(f"  {change}")


def _cells(event: Mapping[str, Any]) -> tuple[str, ...]:
    changes = "; ".join(format_changes(event["before"], event["after"]))
    summary = changes if len(changes) <= _SHOWN_CHARACTERS else changes[: _SHOWN_CHARACTERS - 1] + "\u2026"
    what = f"{event['resource']} {event['name']}"
    return format_time(event["at"]), _actor(event), event["via"], event["action"], what, summary


def _actor(event: Mapping[str, Any]) -> str:
    return f"{event['actor']['kind'].replace('_', ' ')} {event['actor']['name']}"
