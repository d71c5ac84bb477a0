"""The output of made commands: a table, lines, a sentence, or one JSON document."""

import importlib
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import click
import msgspec

from app.api.rest.command import Column
from app.cli.changes import format_changes
from app.cli.operations.manifest import MadeCommand
from app.cli.operations.requests import OperationResponse
from app.cli.output import format_size, print_json, print_table, printable
from app.cli.times import format_time

_GAP = 3  # between the columns of a table
_WIDEST = 60


def show_json(command: MadeCommand, document: Any, arguments: Mapping[str, Any]) -> None:
    if shape := rendering(command.shape):
        document = shape(document, arguments)
    elif command.only:
        document = {name: document[name] for name in command.only}
    elif command.data:
        document = {command.data if name == "data" else name: value for name, value in document.items()}
    print_json(document)


def show_text(command: MadeCommand, response: OperationResponse, arguments: Mapping[str, Any]) -> None:
    document = response.document
    for warning in document.get("warnings") or ():
        click.echo(f"Warning: {warning}", err=True)
    if render := rendering(command.render):
        render(document, arguments)
    elif command.done:
        click.echo(printable(command.done.format_map({**arguments, **document, "applied": response.applied})))
    elif isinstance(document.get("data"), list):
        _show_list(command, document, arguments)
    else:
        _show_record(command, document)


def show_dry_run(document: Mapping[str, Any]) -> None:
    """The changes that would be made."""
    for change in document["changes"]:
        click.echo(printable(f"{change['action']} {change['resource']} {change['name']}"))
        for line in format_changes(change["before"], change["after"]):
            click.echo(f"  {line}")
    click.echo("Nothing was changed." if document["changes"] else "Nothing would change.")
    for warning in document["warnings"]:
        click.echo(f"Warning: {warning}", err=True)


def rendering(name: str) -> Callable[[Any, Mapping[str, Any]], Any] | None:
    """MODULE.FUNCTION of app.cli.renderers, imported where a command has one."""
    module, _, function = name.partition(".")
    return getattr(importlib.import_module(f"app.cli.renderers.{module}"), function) if name else None


def _show_list(command: MadeCommand, document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    rows: Sequence[Mapping[str, Any]] = document["data"]
    if not rows:
        click.echo("None matches." if arguments else command.nothing)
        return
    print_columns(command.columns, rows)
    if following := document.get("next"):
        click.echo(f"There are more: --after {following} shows the next ones.", err=True)
    if document.get("has_more"):
        click.echo("There are more: a filter or --limit shows others.", err=True)


def print_columns(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
    """A table; on a terminal, of those columns that fit, the first ones first."""
    cells = [[format_value(row.get(column.field), column) for column in columns] for row in rows]
    titles = [column.title or column.field.replace("_", " ").upper() for column in columns]
    shown = len(columns)
    if sys.stdout.isatty():
        widths = [min(max(len(line[index]) for line in [titles, *cells]), _WIDEST) + _GAP for index in range(shown)]
        while shown > 1 and sum(widths[:shown]) > shutil.get_terminal_size().columns:
            shown -= 1
    print_table(titles[:shown], [line[:shown] for line in cells])
    if shown < len(columns):
        click.echo(f"Not shown, as the terminal is narrow: {', '.join(titles[shown:])}. --json has all.", err=True)


def _show_record(command: MadeCommand, document: Mapping[str, Any]) -> None:
    forms = {column.field: column for column in command.columns}
    for name, value in document.items():
        if name not in ("warnings", "deleted"):
            click.echo(f"{name}: {format_value(value, forms.get(name, Column(name)))}")


def format_value(value: Any, column: Column) -> str:
    """A value as a cell or a line."""
    match column.form, value:
        case _, None:
            return column.null
        case "time", str():
            return format_time(value)
        case "count", int():
            return f"{value:,}"
        case "size", int():
            return format_size(value)
        case "percents", list():
            return ", ".join(f"{each} %" for each in cast("list[int]", value))
        case "pairs", dict():
            pairs = cast("dict[str, str]", value)
            return printable(", ".join("all" if name == "all" else f"{name}={each}" for name, each in pairs.items()) or "-")
        case "state", bool():
            return "disabled" if value else "enabled"
        case "roles", list():
            return printable(", ".join(dict.fromkeys(_role(each) for each in cast("list[Mapping[str, Any]]", value))))
        case _, bool():
            return "yes" if value else "no"
        case _, list() if all(isinstance(each, str) for each in cast("list[Any]", value)):
            return printable(", ".join(cast("list[str]", value))) or "-"
        case _, str() | int() | float():
            return printable(str(value)) or "-"
        case _:
            return printable(msgspec.json.encode(value).decode())


def _role(role: Mapping[str, Any]) -> str:
    return role["role"] if role["team"] is None else f"{role['role']} of {role['team']}"
