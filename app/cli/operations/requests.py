"""A request of a command to an operation, and what comes of it: the same whether it runs in this process or over REST."""

import re
from collections.abc import Mapping, Sequence
from typing import IO, Any, Protocol, cast

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.api.rest.command import Parts
from app.api.rest.merge_patch import merge
from app.cli.errors import CommandError
from app.cli.operations.manifest import MadeCommand, Parameter, load_manifest

_ROUTE = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE) /admin/v1(/[^\s,;:?`]*[^\s,;:.?`])")
_FIELD = re.compile(r"`([\w.\[\]]+)`")


class OperationRequest(Struct, frozen=True):
    """A request of an operation, wherever that runs."""

    command: MadeCommand
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes | None = None
    if_match: str | None = None  # None: the resource in any state
    dry_run: bool = False
    file: str = ""  # for a text, in the place of standard output


def open_output(request: OperationRequest) -> IO[bytes]:
    """Opens where a text goes. A file is complete, or not there."""
    return click.open_file(request.file or "-", "wb", atomic=bool(request.file))


class OperationResponse(Struct, frozen=True):
    """The response to one."""

    document: Any  # the body, decoded if it is JSON; None: it was a text, which is printed already
    warning: str = ""  # who does not serve the change yet
    applied: str = ""  # who does, as the end of a sentence; empty: there was nothing to serve


class OperationRunner(Protocol):
    def run(self, request: OperationRequest, if_match: str | None) -> OperationResponse:
        """Raises OperationRefused, and OperatorError if there is nobody who could do it."""
        ...


class OperationRefused(CommandError):
    """A refusal of the operation, in the words of the command line."""

    def __init__(self, message: str, status: int, command: MadeCommand) -> None:
        super().__init__(in_words(message, command.parameters, load_manifest().routes), status=status)
        self.status = status


class InvalidOptions(OperationRefused):
    """A refusal of the query or the body: a wrong command line."""

    exit_code = 2


def refusal(message: str, status: int, command: MadeCommand) -> OperationRefused:
    """A refusal by the operation. All that a read may be refused for with a 400 is its command line."""
    return (InvalidOptions if command.method == "GET" and status == 400 else OperationRefused)(message, status, command)


def perform(runner: OperationRunner, request: OperationRequest) -> OperationResponse:
    """Runs an operation, on a resource in any state unless the request names one, or creates it. Raises as OperationRunner.run()."""
    if not request.command.is_conditional or request.if_match is not None:
        return runner.run(_replacing(runner, request), request.if_match)
    try:
        return runner.run(_replacing(runner, request), "*")
    except OperationRefused as fault:
        if fault.status == 404 and request.command.creates:
            request = _creation(request, fault)
        elif request.command.method != "PUT" or fault.status != 412:  # 412: it does not exist yet, and PUT creates it
            raise
    return runner.run(request, None)


def perform_parts(runner: OperationRunner, request: OperationRequest, parts: Parts) -> OperationResponse:
    """Runs an operation until all of its work is done. The document is that of the last part, with what all of them have found."""
    response = perform(runner, request)
    found = response.document
    while (following := response.document[parts.again]) is not None:
        body = msgspec.json.decode(request.body or b"{}") | {parts.sent_as: following}
        response = perform(runner, replace(request, body=encode_body(body)))
        found = response.document | {name: _add(found[name], response.document[name]) for name in parts.added}
    return OperationResponse(found, response.warning)


def perform_beside(runner: OperationRunner, request: OperationRequest) -> Mapping[str, Any]:
    """The documents that are shown beside that of the request's own operation."""
    found: dict[str, Any] = {}
    manifest = load_manifest()
    for name, beside in request.command.beside.items():
        [command] = [each for each in (*manifest.commands, *manifest.reads) if each.id == beside.id]
        path = {segment: value for segment, value in request.path.items() if f"{{{segment}}}" in command.path}
        query = {**{field: request.query[field] for field in beside.fields if field in request.query}, **beside.fixed}
        found[name] = None if beside.unless in request.query else runner.run(OperationRequest(command, path, query), None).document
    return found


def _add(one: Any, other: Any) -> Any:
    if not isinstance(one, dict):
        return one + other
    counts, others = cast("dict[str, int]", one), cast("dict[str, int]", other)
    return {name: counts.get(name, 0) + others.get(name, 0) for name in counts | others}


def _replacing(runner: OperationRunner, request: OperationRequest) -> OperationRequest:
    """The request, whose merge patch also removes what the fields that it replaces have now."""
    command = request.command
    patch: dict[str, Any] = msgspec.json.decode(request.body or b"{}") if command.replaces else {}
    replaced = [name for name in command.replaces if name in patch]
    if not replaced:
        return request
    [show] = [each for each in load_manifest().commands if (each.method, each.path) == ("GET", command.path)]
    shown = runner.run(OperationRequest(show, request.path, {}), None).document
    return replace(request, body=encode_body(patch | {name: dict.fromkeys(shown[name]) | patch[name] for name in replaced}))


def _creation(request: OperationRequest, absent: OperationRefused) -> OperationRequest:
    """A request to create what a merge patch would have changed. Raises OperationRefused if too little is said of it."""
    command = request.command
    patch = msgspec.json.decode(request.body or b"{}")
    if not patch.keys() >= set(command.creation_needs):
        flags = [each.flags[0] for name in command.creation_needs for each in command.parameters if each.field == name]
        raise OperationRefused(f"{absent.message} A new one needs {' and '.join(flags)}.", absent.status, command) from absent
    created = replace(command, id=command.creates, method="POST", path=command.path.rpartition("/")[0])
    body = {**request.path, **merge({}, patch)}
    return replace(request, command=created, path={}, body=encode_body(body))


def in_words(text: str, parameters: Sequence[Parameter], routes: Mapping[str, str]) -> str:
    """A text about the admin API in the words of the command line: commands in the place of routes, options in that of fields."""
    flags = {each.field.replace("/", "."): each.flags[0].partition("/")[0] for each in parameters if each.flags and each.kind != "constant"}
    arguments = {each.field: each.metavar for each in parameters if not each.flags}

    def name_option(found: re.Match[str]) -> str:
        field = found[1].replace("[0]", "")  # of a list, a command gives the first entry
        return flags.get(field) or arguments.get(field) or found[0]

    def name_command(found: re.Match[str]) -> str:
        name = _command_of_route(found[1], found[2], routes)
        return found[0] if name is None else f"`narthex {name}`"

    return _ROUTE.sub(name_command, _FIELD.sub(name_option, text))


def _command_of_route(method: str, path: str, routes: Mapping[str, str]) -> str | None:
    segments = path.split("/")
    for route, name in routes.items():
        route_method, _, route_path = route.partition(" ")
        declared = route_path.split("/")
        if route_method == method and len(declared) == len(segments):
            values = [given for given, each in zip(segments, declared, strict=True) if each.startswith("{") and given != each]
            if all(each.startswith("{") or each == given for given, each in zip(segments, declared, strict=True)):
                return " ".join([name, *values])
    return None


def encode_body(fields: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(fields)
