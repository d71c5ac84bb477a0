"""Commands of click, made from the manifest: groups by the words of their names, arguments and options by their parameters."""

import copy
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

import click
from msgspec.structs import replace

from app.cli.confirmation import confirm, refuse_unconfirmed
from app.cli.errors import OrderedGroup
from app.cli.operations.groups import paragraphs_of
from app.cli.operations.manifest import MadeCommand, Parameter, load_manifest
from app.cli.operations.requests import OperationRequest, OperationRunner, encode_body, perform, perform_beside, perform_parts
from app.cli.operations.show import rendering, show_dry_run, show_json, show_text
from app.cli.operations.values import body_value, param_type, query_value, read_secret
from app.cli.output import print_json
from app.settings import Settings
from app.supervisor.machine import server_addresses
from app.supervisor.machine.errors import OperatorError

_SEPARATORS = str.maketrans("./", "__")
_SEVERAL = ("texts", "networks", "integers", "pairs", "edits")


def add_made_commands(noun: str, by_hand: click.Command | None) -> click.Command | None:
    """The command of a noun at the root: the one that is written by hand, with those that are made; or made alone."""
    root = _copy(by_hand)
    for command in load_manifest().commands:
        words = command.name.split(" ")
        if words[0] != noun:
            continue
        if len(words) == 1:
            return make_command(command)
        if root is None:
            root = _make_group(noun)
        group = root
        for depth, word in enumerate(words[1:-1], 2):
            if not isinstance(group, click.Group):
                break
            group.commands[word] = _copy(group.commands.get(word)) or _make_group(" ".join(words[:depth]))
            group = group.commands[word]
        if isinstance(group, click.Group) and words[-1] not in group.commands:
            group.add_command(make_command(command), words[-1])
    return root


def outline(noun: str) -> click.Command | None:
    """The command of a noun as it is written by hand, with names and flags alone: a TAB needs no more."""
    commands: dict[str, click.Command] = {}
    for each in load_manifest().outlines:
        if each.name.partition(" ")[0] != noun:
            continue
        above, _, name = each.name.rpartition(" ")
        kind = OrderedGroup if each.is_group else click.Command
        commands[each.name] = kind(name, params=[_param(parameter) for parameter in each.parameters], help=each.summary)
        if isinstance(group := commands.get(above), click.Group):
            group.add_command(commands[each.name])
    return commands.get(noun)


def _copy(command: click.Command | None) -> click.Command | None:
    """A group to add commands to; the one that is written by hand stays as it is."""
    copied = copy.copy(command)
    if isinstance(copied, click.Group):
        copied.commands = dict(copied.commands)
    return copied


def make_command(command: MadeCommand) -> click.Command:
    def run(**values: Any) -> None:
        _run(command, values)

    params = [*(_param(each) for each in command.parameters if each.kind != "secret"), *_common_options(command)]
    return click.Command(command.name.rpartition(" ")[2], params=params, callback=run, help=command.help)


def _make_group(name: str) -> click.Group:
    return OrderedGroup(name.rpartition(" ")[2], help="\n\n".join(paragraphs_of(name)))


def _param(parameter: Parameter) -> click.Parameter:
    kind, name = param_type(parameter), _value_name(parameter)
    if not parameter.flags:
        metavar = parameter.metavar if parameter.is_required else f"[{parameter.metavar}]"
        return click.Argument([name], type=kind, required=parameter.is_required, metavar=metavar)
    given: dict[str, Any] = {"help": parameter.help + (f"  [default: {parameter.default}]" if parameter.default else "")}
    if parameter.kind in ("flag", "switch", "stdin", "constant"):
        given |= {"default": None, "is_flag": True}
    else:
        given |= {"type": kind, "multiple": parameter.kind in _SEVERAL}
        given |= {"metavar": parameter.metavar} if parameter.metavar else {}
    # Fields of a body may also come from a file: _body() looks for them.
    return click.Option([*parameter.flags, name], required=parameter.is_required and parameter.place == "query", **given)


def _common_options(command: MadeCommand) -> list[click.Parameter]:
    """The options that do not stand for a field."""
    options: list[click.Parameter] = []
    if command.takes_file:
        file_help = "Fields in a file, as JSON or TOML (- is standard input); options win."
        options.append(click.Option(["--file"], type=click.File(encoding="utf-8"), help=file_help))
    if command.unsettable:
        kind, unset_help = click.Choice(list(command.unsettable)), f"Set a field back to its default: {', '.join(command.unsettable)}."
        options.append(click.Option(["--unset"], type=kind, multiple=True, metavar="FIELD", help=unset_help))
    if command.is_change:
        options.append(click.Option(["--dry-run"], is_flag=True, help="Only say what would change."))
    if command.is_conditional:
        options.append(click.Option(["--if-match"], metavar="ETAG", help="Only if it is still in the state that has this ETag."))
    if command.confirm:
        options.append(click.Option(["--yes"], is_flag=True, help="Do not prompt."))
    if command.quiet:
        options.append(click.Option(["--quiet"], is_flag=True, help=f"Print the {command.quiet} and nothing else."))
    where = "the database" if command.is_local else "the gateway of this home"
    flag = "--gateway-url" if any("--url" in each.flags for each in command.parameters) else "--url"
    options.append(click.Option([flag, "url"], metavar="URL", help=f"Use the gateway at URL over its admin API, instead of {where}."))
    if command.media_type == "application/json":
        options.append(click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON document instead, for programs."))
    return options


def _run(command: MadeCommand, values: dict[str, Any]) -> None:
    as_json, dry_run = values.get("as_json", False), values.get("dry_run", False)
    path = {each.field: str(values[_value_name(each)]) for each in command.parameters if each.place == "path"}
    given = [(each, _value(each, values, path)) for each in command.parameters]
    given = [(each, value) for each, value in given if value not in (None, ())]
    _check_alternatives(command, {each.field for each, _ in given})
    sent = [each for each in command.parameters if each.place == "body" and each.sent]
    defaults = [(each, param_type(each).convert(each.sent, None, None)) for each in sent]
    # The path decides where the body has the same name.
    arguments = {each.field: value for each, value in [*defaults, *reversed(given)]}
    request = OperationRequest(
        command,
        path,
        _query(command, given),
        _body(command, given, {each.field: body_value(each, value) for each, value in defaults}, values),
        values.get("if_match"),
        dry_run,
    )
    if command.confirm and not dry_run:
        refuse_unconfirmed(yes=values["yes"], as_json=as_json)
    runner = _runner(command, values["url"])
    if command.confirm and not dry_run:
        if (preview := rendering(command.preview)) and not values["yes"]:
            preview(perform(runner, replace(request, dry_run=True)).document, arguments)
        confirm(command.confirm.format_map(arguments), yes=values["yes"], as_json=as_json)
    response = perform(runner, request) if command.parts is None else perform_parts(runner, request, command.parts)
    if command.beside:
        response = replace(response, document=response.document | perform_beside(runner, request))
    tells_applied = "{applied}" in command.done and not as_json
    if response.warning and not tells_applied:
        click.echo(f"Warning: {response.warning}", err=True)
    if response.document is None:
        return
    if dry_run and not as_json:
        show_dry_run(response.document)
    elif dry_run:
        print_json(response.document)
    elif values.get("quiet"):
        click.echo(response.document[command.quiet])
    elif as_json:
        show_json(command, response.document, arguments)
    else:
        show_text(command, response, arguments)
    if (fails := rendering(command.fails)) and fails(response.document, arguments):
        raise click.exceptions.Exit(1)


def _value(parameter: Parameter, values: Mapping[str, Any], path: Mapping[str, str]) -> Any:
    return read_secret(parameter.help.format_map(path)) if parameter.kind == "secret" else values[_value_name(parameter)]


def _query(command: MadeCommand, given: Sequence[tuple[Parameter, Any]]) -> Mapping[str, str]:
    """The parameters of the query: defaults of the command, and what was given. Null is left out."""
    sent = [each for each in command.parameters if each.place == "query" and each.sent]
    query = {each.field: query_value(param_type(each).convert(each.sent, None, None)) for each in sent}
    query |= {} if command.takes_body else {name: query_value(value) for name, value in command.fixed.items()}
    for each, value in _values([(each, value) for each, value in given if each.place == "query"]):
        if value is None:
            query.pop(each.field, None)
        else:
            query[each.field] = query_value(value)
    return query


def _body(
    command: MadeCommand, given: Sequence[tuple[Parameter, Any]], defaults: Mapping[str, Any], values: Mapping[str, Any]
) -> bytes | None:
    of_body = [(each, value) for each, value in given if each.place == "body"]
    if not command.takes_body:
        return of_body[0][1].read() if of_body else None
    file: TextIO | None = values.get("file")
    of_file: Mapping[str, Any] = {} if file is None else _read_body(file)
    fields: dict[str, Any] = {**defaults, **command.fixed, **of_file, **dict.fromkeys(values.get("unset", ()))}
    for each, value in _values(of_body):
        _put(fields, each.field, body_value(each, value))
    missing = [each for each in command.parameters if each.place == "body" and each.is_required and each.field not in fields]
    if missing:
        raise click.UsageError(f"Missing option {', '.join(repr(each.flags[0] if each.flags else each.metavar) for each in missing)}.")
    takes_fields = any(each.place == "body" for each in command.parameters)
    if takes_fields and fields.keys() <= command.fixed.keys() and command.method == "PATCH":
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
        yield each, sys.stdin.read().strip() if each.kind == "stdin" else each.value if each.kind == "constant" else value


def _check_alternatives(command: MadeCommand, given: set[str]) -> None:
    """Raises UsageError."""
    flags = [each.flags[0] for each in command.parameters if each.field in command.one_of]
    number = len(given.intersection(command.one_of))
    if number > 1 or (command.needs_one and not number):
        exactly = "exactly " if command.needs_one else ""
        raise click.UsageError(f"Give {exactly}one of {', '.join(flags[:-1])} and {flags[-1]}.")


def _runner(command: MadeCommand, url: str | None) -> OperationRunner:
    """Runs in this process where there is a database, else at the gateway where somebody has signed in. Either is heavy to import."""
    settings = Settings.read()
    if url is None and command.is_local and (_has_database(settings) or not _has_session()):
        return importlib.import_module("app.cli.operations.run_here").LocalRunner(settings)
    api = importlib.import_module("app.cli.admin_api")
    access = api.find_access(settings) if url is None else api.named_access(url)
    return importlib.import_module("app.cli.operations.run_remote").RemoteRunner(settings, access)


def _has_database(settings: Settings) -> bool:
    try:
        return bool(server_addresses.resolve(settings).database_url)
    except OperatorError:
        return False


def _has_session() -> bool:
    return importlib.import_module("app.cli.session_file").load_session() is not None


def _value_name(parameter: Parameter) -> str:
    """The name of its value among those of the command, which has names of its own."""
    name = f"{parameter.place}_{parameter.field.translate(_SEPARATORS) or 'content'}"
    return f"{name}_{parameter.flags[0].strip('-').replace('-', '_')}" if parameter.kind == "constant" else name
