"""Commands of click, made from the manifest: groups by the words of their names, arguments and options by their parameters."""

import copy
import importlib
import string
import sys
import time
from collections.abc import Mapping
from typing import Any

import click
from msgspec.structs import replace

from app.api.rest.command import Wait
from app.cli.confirmation import confirm, refuse_unconfirmed
from app.cli.errors import OrderedGroup
from app.cli.operations.groups import paragraphs_of
from app.cli.operations.manifest import MadeCommand, Parameter, load_manifest
from app.cli.operations.request_fields import check_alternatives, defaults_of, make_body, make_query, value_name
from app.cli.operations.requests import OperationRequest, OperationResponse, OperationRunner, perform, perform_beside, perform_parts
from app.cli.operations.show import rendering, show_dry_run, show_json, show_text
from app.cli.operations.values import param_type, read_secret
from app.cli.output import print_json
from app.settings import Settings
from app.supervisor.machine import server_addresses
from app.supervisor.machine.errors import OperatorError

_POLL_S = 0.5
_REPEATED = ("texts", "networks", "integers", "pairs", "edits", "number_pairs", "conditions")


def add_made_commands(noun: str, by_hand: click.Command | None) -> click.Command | None:
    """The command of a noun at the root: the one that is written by hand, with those that are made; or made alone."""
    root = _copy(by_hand)
    variants: dict[str, list[MadeCommand]] = {}
    for command in load_manifest().commands:
        if command.name.partition(" ")[0] == noun:
            variants.setdefault(command.name, []).append(command)
    for name, same in variants.items():
        words = name.split(" ")
        if len(words) == 1:
            return make_command(*same)
        if root is None:
            root = _make_group(noun)
        group = root
        for depth, word in enumerate(words[1:-1], 2):
            if not isinstance(group, click.Group):
                break
            group.commands[word] = _copy(group.commands.get(word)) or _make_group(" ".join(words[:depth]))
            group = group.commands[word]
        if isinstance(group, click.Group) and words[-1] not in group.commands:
            group.add_command(make_command(*same), words[-1])
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


def make_command(first: MadeCommand, *others: MadeCommand) -> click.Command:
    """Makes the command of an operation, or of several with one name: `others` have more in their path. Help is that of the first."""
    fields = {each.id: [_param(one) for one in each.parameters if one.kind != "secret"] for each in (first, *others)}
    params = {each.id: [*fields[each.id], *_common_options(each)] for each in (first, *others)}
    merged = {str(param.name): param for each in (*fields.values(), *params.values()) for param in each}
    for name, param in merged.items():
        if isinstance(param, click.Argument) and not all(name in [each.name for each in of_one] for of_one in fields.values()):
            param.required, param.metavar = False, f"[{param.metavar}]"

    def run(**values: Any) -> None:
        given = {name for name, value in values.items() if value not in (None, False, ())}
        found = max((each for each in (first, *others) if _deciding_names(each) <= given), key=lambda each: len(_deciding_names(each)))
        names = [str(param.name) for param in params[found.id]]
        if foreign := [merged[name].opts[0] for name in merged if name in given and name not in names]:
            raise click.UsageError(f"{', '.join(foreign)} cannot be given together with the other options.")
        _run(found, {name: values[name] for name in names})

    return click.Command(first.name.rpartition(" ")[2], params=list(merged.values()), callback=run, help=first.help)


def _deciding_names(command: MadeCommand) -> set[str]:
    """The values that its operation needs in its path, or which distinguish it from others of its name."""
    return {value_name(each) for each in command.parameters if each.decides or (each.place == "path" and not each.sent)}


def _make_group(name: str) -> click.Group:
    return OrderedGroup(name.rpartition(" ")[2], help="\n\n".join(paragraphs_of(name)))


def _param(parameter: Parameter) -> click.Parameter:
    kind, name = param_type(parameter), value_name(parameter)
    if not parameter.flags:
        metavar = parameter.metavar or f"{{{'|'.join(parameter.choices)}}}"
        metavar = metavar if parameter.is_required else f"[{metavar}]"
        many = -1 if parameter.kind in _REPEATED else 1
        return click.Argument([name], type=kind, required=parameter.is_required, metavar=metavar, nargs=many)
    given: dict[str, Any] = {"help": parameter.help + (f"  [default: {parameter.default}]" if parameter.default else "")}
    if parameter.kind in ("flag", "switch", "stdin", "constant"):
        given |= {"default": None, "is_flag": True}
    else:
        given |= {"type": kind, "multiple": parameter.kind in _REPEATED}
        given |= {"metavar": parameter.metavar} if parameter.metavar else {}
    # Fields of a body may also come from a file: _body() looks for them.
    return click.Option([*parameter.flags, name], required=parameter.is_required and parameter.place == "query", **given)


def _common_options(command: MadeCommand) -> list[click.Parameter]:
    """The options that do not stand for a field."""
    options: list[click.Parameter] = []
    options += [click.Option([flag, _shown_name(flag)], is_flag=True, help=help) for flag, help in command.shows.items()]
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
    if command.media_type != "application/json":
        kind = click.Path(dir_okay=False, writable=True)
        flags = ["--file", "--output", "-o"]
        options.append(click.Option(flags, type=kind, metavar="FILE", help="Write there, not to standard output."))
    if command.wait:
        options.append(click.Option(["--wait/--no-wait", "wait"], default=True, help="Wait until it is done (the default)."))
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
    segments = [each for each in command.parameters if each.place == "path"]
    path = {each.field: str(values[value_name(each)] or each.sent) for each in segments}
    given = [(each, _value(each, values, path)) for each in command.parameters]
    given = [(each, value) for each, value in given if value not in (None, ())]
    check_alternatives(command, {each.field for each, _ in given})
    defaults = defaults_of(command)
    # The path decides where the body has the same name.
    arguments = {each.field: value for each, value in [*defaults, *reversed(given)]}
    arguments |= {_shown_name(flag): True for flag in command.shows if values[_shown_name(flag)]}
    request = OperationRequest(
        command,
        path,
        make_query(command, given),
        make_body(command, given, defaults, values),
        values.get("if_match"),
        dry_run,
        "" if command.media_type == "application/json" else values["file"] or "",
    )
    if request.query.get("format") == "parquet" and not request.file and sys.stdout.isatty():
        raise click.UsageError("Parquet is no text for a terminal: give --file.")
    if command.confirm and not dry_run:
        refuse_unconfirmed(yes=values["yes"], as_json=as_json)
    runner = _runner(command, values["url"])
    if command.confirm and not dry_run:
        if (preview := rendering(command.preview)) and not values["yes"]:
            preview(perform(runner, replace(request, dry_run=True)).document, arguments)
        confirm(_question(command, arguments), yes=values["yes"], as_json=as_json)
    response, is_failed = perform(runner, request) if command.parts is None else perform_parts(runner, request, command.parts), False
    if command.wait and not dry_run:
        response, is_failed = _follow(runner, command.wait, response, is_patient=values["wait"])
    if command.beside and not dry_run:
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
    fails = rendering(command.fails)
    if is_failed or (fails is not None and fails(response.document, arguments)):
        raise click.exceptions.Exit(1)


def _value(parameter: Parameter, values: Mapping[str, Any], path: Mapping[str, str]) -> Any:
    return read_secret(parameter.help.format_map(path)) if parameter.kind == "secret" else values[value_name(parameter)]


def _shown_name(flag: str) -> str:
    return f"shows_{flag.removeprefix('--').replace('-', '_')}"


def _question(command: MadeCommand, arguments: Mapping[str, Any]) -> str:
    """The first question about what was given."""

    def is_about_given(question: str) -> bool:
        return all(field is None or field in arguments for _, field, _, _ in string.Formatter().parse(question))

    return next(filter(is_about_given, command.confirm)).format_map(arguments)


def _follow(runner: OperationRunner, wait: Wait, begun: OperationResponse, *, is_patient: bool) -> tuple[OperationResponse, bool]:
    """Waits for what was begun. Returns what shows it, and whether it failed. If the command is interrupted, it goes on."""
    [command] = [each for each in load_manifest().commands if each.id == wait.id]
    request = OperationRequest(command, {segment: str(begun.document[field]) for segment, field in wait.path.items()}, {})
    shown = perform(runner, request)
    while is_patient and shown.document[wait.field] == wait.until_not:
        time.sleep(_POLL_S)
        shown = perform(runner, request)
    return OperationResponse(shown.document, begun.warning), shown.document[wait.field] == wait.failure


def _runner(command: MadeCommand, url: str | None) -> OperationRunner:
    """Runs in this process where there is a database, else at the gateway where somebody has signed in. Either is heavy to import."""
    settings = Settings.read()
    if url is None and command.is_local and (not command.needs_database or _has_database(settings) or not _has_session()):
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
