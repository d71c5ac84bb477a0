"""The query and the body of a request, made of what was typed as arguments and options."""

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

import click

from app.cli.operations.manifest import MadeCommand, Parameter
from app.cli.operations.requests import encode_body
from app.cli.operations.values import body_value, param_type, query_value

_SEPARATORS = str.maketrans("./", "__")


def value_name(parameter: Parameter) -> str:
    """The name of its value among those of the command, which has names of its own."""
    name = f"{parameter.place}_{parameter.field.translate(_SEPARATORS) or 'content'}"
    return f"{name}_{parameter.flags[0].strip('-').replace('-', '_')}" if parameter.kind == "constant" else name


def check_alternatives(command: MadeCommand, given: set[str]) -> None:
    """Raises UsageError."""
    flags = [each.flags[0] for each in command.parameters if each.field in command.one_of]
    number = len(given.intersection(command.one_of))
    if number > 1 or (command.needs_one and not number):
        exactly = "exactly " if command.needs_one else ""
        raise click.UsageError(f"Give {exactly}one of {', '.join(flags[:-1])} and {flags[-1]}.")


def defaults_of(command: MadeCommand, place: str = "body") -> Sequence[tuple[Parameter, Any]]:
    """The fields for which the command has a default of its own."""
    return [(each, param_type(each).convert(each.sent, None, None)) for each in command.parameters if each.place == place and each.sent]


def make_query(command: MadeCommand, given: Sequence[tuple[Parameter, Any]]) -> Mapping[str, str]:
    """The parameters of the query: defaults of the command, and what was given. Null is left out."""
    query = {each.field: query_value(value) for each, value in defaults_of(command, "query")}
    query |= {} if command.takes_body else {name: query_value(value) for name, value in command.fixed.items()}
    for each, value in _values([(each, value) for each, value in given if each.place == "query"]):
        if value is None:
            query.pop(each.field, None)
        else:
            query[each.field] = query_value(value)
    return query


def make_body(
    command: MadeCommand, given: Sequence[tuple[Parameter, Any]], defaults: Sequence[tuple[Parameter, Any]], values: Mapping[str, Any]
) -> bytes | None:
    of_body = [(each, value) for each, value in given if each.place == "body"]
    if not command.takes_body:
        return of_body[0][1].read() if of_body else None
    file: TextIO | None = values.get("file")
    own = {**{each.field: body_value(each, value) for each, value in defaults}, **command.fixed}
    fields: dict[str, Any] = {**own, **({} if file is None else _read_body(file)), **dict.fromkeys(values.get("unset", ()))}
    for each, value in _values(of_body):
        _put(fields, each.field, body_value(each, value))
    missing = [each for each in command.parameters if each.place == "body" and each.is_required and each.field not in fields]
    if missing:
        raise click.UsageError(f"Missing option {', '.join(repr(each.flags[0] if each.flags else each.metavar) for each in missing)}.")
    takes_fields = any(each.place == "body" for each in command.parameters)
    if takes_fields and fields.keys() <= own.keys() and command.method == "PATCH":
        raise click.UsageError(f"Nothing to {command.name.rpartition(' ')[2]}: give at least one of the options.")
    return encode_body(fields)


def _put(fields: dict[str, Any], field: str, value: Any) -> None:
    if "/" in field:  # RECORD/FIELD of a record whose fields are options
        record, name = field.split("/")
        fields[record] = {**fields.get(record, {}), name: value}
    elif "." in field:  # LIST.FIELD of a list whose first entry's fields are options
        entries, name = field.split(".")
        fields[entries] = [{**fields.get(entries, [{}])[0], name: value}]
    else:
        fields[field] = value


def _read_body(file: TextIO) -> Mapping[str, Any]:
    return importlib.import_module("app.cli.operations.body_file").read_body(file)


def _values(given: Sequence[tuple[Parameter, Any]]) -> Iterator[tuple[Parameter, Any]]:
    """The values, with what is read from standard input, and null for flags that say so. Raises UsageError for a field given twice."""
    found: dict[str, str] = {}
    for each, value in given:
        if each.field in found:
            raise click.UsageError(f"{found[each.field]} and {each.flags[0]} exclude each other.")
        found[each.field] = each.flags[0] if each.flags else each.metavar
        match each.kind:
            case "stdin":
                yield each, sys.stdin.read().strip()
            case "constant":
                yield each, each.value
            case _:
                yield each, None if each.null and value == each.null else value
