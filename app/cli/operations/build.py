"""python -m app.cli.operations.build writes commands.json from the declared operations; a test compares it."""

import asyncio
import importlib
import pkgutil
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from app.api.admin.routes import operations
from app.api.openapi.schemas import Schema
from app.api.rest.command import Column, Command
from app.api.rest.operation import NoBody, Operation
from app.cli import main
from app.cli.errors import RootGroup
from app.cli.operations.groups import paragraphs_of
from app.cli.operations.local_operations import PACKAGE, operations_of
from app.cli.operations.manifest import MANIFEST, Kind, MadeCommand, Manifest, Outline, Parameter
from app.cli.operations.parameters import is_nested, make_parameters, response_fields, unsettable_fields
from app.cli.operations.requests import in_words
from app.main import create_applications
from app.settings import Settings
from providers.transport.loop_turns import LoopTurns
from providers.transport.write_batcher import WriteBatcher

_VERBS = {"list": "list", "get": "show", "create": "create", "put": "put", "patch": "change", "delete": "delete"}
_WIDTH = 110
_MAX_COLUMNS = 8
_MAX_WITHOUT_FILE = 5  # fields of a body that nobody would rather write into a file
# What examples show in the place of an argument, where no example of the operation has it.
_EXAMPLE_VALUES = {
    "id": "019a2c3d-0000-7000-8000-000000000000",
    "prefix": "nx-0123456789ab",
    "hash": "3f9a1c0e5b7d",
    "number": "1",
    "row": "17",
    "since": "2026-11-01",
}
_EXAMPLE_NAMES = {
    "budgets": "monthly",
    "credentials": "openai",
    "datasets": "helpful",
    "experiments": "answer-length",
    "functions": "assistant",
    "limits": "per-team",
    "metrics": "helpful",
    "models": "fast",
    "prices": "openai",
    "providers": "openai",
    "service-accounts": "terraform",
    "teams": "search",
    "webhooks": "finance",
}


async def declared_operations() -> list[Operation[Any, Any]]:
    """Every operation, as a gateway serves it that is never started."""
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(home=Path(home), database_url="postgresql://nobody@127.0.0.1:9/none", redis_url="redis://127.0.0.1:9")
        return operations(create_applications(settings, WriteBatcher(), LoopTurns(), name="commands").gateway)


def build_manifest(declared: Sequence[Operation[Any, Any]]) -> Manifest:
    by_hand = dict(_hand_written())
    local = _local_subjects()
    routes: dict[str, str] = {}
    commands: list[MadeCommand] = []
    created_by = {each.path: each.id for each in declared if each.only_creates}
    for operation in declared:
        for command in operation.commands:
            name = command.name or command_name(operation)
            routes.setdefault(f"{operation.method} {operation.path}", name)
            if name not in by_hand:
                creates = created_by.get(operation.path.rpartition("/")[0], "") if command.creates else ""
                commands.append(replace(_make(operation, command, name, local.get(operation.id, "")), creates=creates))
    commands = [_in_words(each, routes) for each in commands]
    beside = {each.id for command in commands for each in command.beside.values()} - {each.id for each in commands}
    reads = [_make(each, Command(), "", local.get(each.id, "")) for each in declared if each.id in beside]
    texts = {name: command.help or "" for name, command in by_hand.items()} | {each.name: each.help for each in reversed(commands)}
    nouns = {*(each.partition(" ")[0] for each in by_hand), *(each.name.partition(" ")[0] for each in commands)}
    summaries = {name: (texts.get(name) or paragraphs_of(name)[0]).partition("\n")[0] for name in sorted(nouns)}
    return Manifest(summaries, routes, [_outline(name, command) for name, command in by_hand.items()], commands, reads)


def write_manifest(manifest: Manifest) -> bytes:
    """A line for each command and route, so that changes of two branches merge."""
    mappings, lists = ("summaries", "routes"), ("outlines", "commands", "reads")
    parts = [f'"{name}":{{\n{_lines(_pairs(getattr(manifest, name)))}}}' for name in mappings]
    parts += [f'"{name}":[\n{_lines(map(_json, getattr(manifest, name)))}]' for name in lists]
    return f"{{{','.join(parts)}}}\n".encode()


def _lines(items: Iterable[str]) -> str:
    return ",\n".join(items) + "\n"


def _pairs(found: Mapping[str, str]) -> Iterator[str]:
    return (f"{_json(key)}:{_json(value)}" for key, value in found.items())


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def command_name(operation: Operation[Any, Any]) -> str:
    """The name of an operation's command where none is declared: the nouns of its path, and the verb of its id."""
    segments = operation.path.strip("/").split("/")
    nouns = [each for each in segments if not each.startswith("{")]
    verb = operation.id.partition("_")[0]
    if segments[-1] == verb:
        nouns.pop()
    return " ".join([*nouns, _VERBS.get(verb, verb)])


def _local_subjects() -> dict[str, str]:
    """The subject that declares an operation, by its id, of all that need no gateway."""
    package = importlib.import_module(PACKAGE)
    names = [each.name.removeprefix(f"{PACKAGE}.") for each in pkgutil.walk_packages(package.__path__, f"{PACKAGE}.")]
    return {each.id: name for name in names if "." in name for each in operations_of(name, Settings())}


def _hand_written() -> Iterator[tuple[str, click.Command]]:
    """Every command that is written by hand, by its name; the manifest that there is may be of another branch, or broken by a merge."""
    assert isinstance(main, RootGroup), "it lists commands in sections"
    for commands in main.sections.values():
        for name in commands:
            if (command := main.hand_written(name)) is not None:
                yield from _walk(name, command)


def _walk(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from _walk(f"{name} {each.name}", each)


def _in_words(command: MadeCommand, routes: Mapping[str, str]) -> MadeCommand:
    """The command, whose texts name commands and options instead of routes and fields."""
    parameters = [replace(each, help=in_words(each.help, command.parameters, routes)) for each in command.parameters]
    return replace(command, help=in_words(command.help, command.parameters, routes), parameters=parameters)


def _outline(name: str, command: click.Command) -> Outline:
    parameters = [_outlined(each) for each in command.params]
    return Outline(name, command.get_short_help_str(100), parameters, isinstance(command, click.Group))


def _outlined(param: click.Parameter) -> Parameter:
    choices = [str(each) for each in param.type.choices] if isinstance(param.type, click.Choice) else []
    kind: Kind = "choice" if choices else "file" if isinstance(param.type, click.File | click.Path) else "text"
    field = str(param.name)
    if not isinstance(param, click.Option):
        return Parameter(field=field, place="body", kind=kind, choices=choices, metavar=field.upper())
    flags = ["/".join([each, *param.secondary_opts]) if each == param.opts[-1] else each for each in param.opts]
    return Parameter(field=field, place="body", kind="flag" if param.is_flag else kind, choices=choices, flags=flags, help=param.help or "")


def _make(operation: Operation[Any, Any], command: Command, name: str, subject: str) -> MadeCommand:
    parameters = list(make_parameters(operation, command))
    fields, items = response_fields(operation.response)
    is_delete = operation.method == "DELETE"
    arguments = [each for each in parameters if not each.flags]
    asks = is_delete if command.asks is None else command.asks
    shown = " ".join(f"{{{each.field}}}" for each in arguments if each.field)
    question = f"{operation.summary}: {shown}?" if shown else f"{operation.summary}?"
    return MadeCommand(
        name=name,
        id=operation.id,
        method=operation.method,
        path=operation.path,
        subject=subject,
        summary=command.summary or f"{operation.summary}.",
        help=_help(operation, command, name, parameters, command.json or _shape(command, fields, items), asks=asks),
        parameters=parameters,
        takes_body=operation.body not in (NoBody, bytes),
        takes_file=len([each for each in parameters if each.place == "body"]) > _MAX_WITHOUT_FILE,
        unsettable=unsettable_fields(operation, command),
        is_local=bool(subject),
        needs_database=command.needs_database,
        is_change=operation.access == "write",
        is_conditional=operation.conditional,
        media_type=operation.response_media_type,
        timeout_s=operation.timeout_s,
        fixed=command.fixed,
        columns=command.columns or _columns(fields if items is None else items),
        nothing=command.nothing or "There is none.",
        done=command.done or (_done(operation, shown) if is_delete and "deleted" in fields else ""),
        confirm=_several(command.confirm or question) if asks else (),
        preview=command.preview,
        parts=command.parts,
        beside=command.beside,
        fails=command.fails,
        quiet=command.quiet,
        data=command.data,
        only=command.only,
        one_of=command.one_of,
        replaces=command.replaces,
        creation_needs=command.creation_needs,
        needs_one=command.needs_one,
        shows=command.shows,
        render=command.render,
        shape=command.shape,
        wait=command.wait,
    )


def _several(text: str | Sequence[str]) -> Sequence[str]:
    return (text,) if isinstance(text, str) else text


def _done(operation: Operation[Any, Any], shown: str) -> str:
    return f"Deleted: {shown}."


def _columns(fields: Schema) -> list[Column]:
    names = [name for name, schema in fields.items() if not is_nested(schema) and name not in ("next", "deleted")]
    return [Column(name, form="time" if name.endswith("_at") else "text") for name in names[:_MAX_COLUMNS]]


def _shape(command: Command, fields: Schema, items: Schema | None) -> str:
    """The document of --json, as help shows it: its fields, and those of the entries of a list."""
    names = [name for name in fields if not command.only or name in command.only]
    parts = [f'"{command.data or name}": [{{{_quoted(items)}}}]' if name == "data" and items else f'"{name}"' for name in names]
    return f"{{{', '.join(parts)}}}" if parts else ""


def _quoted(fields: Mapping[str, Any]) -> str:
    return ", ".join(f'"{name}"' for name in fields)


def _help(operation: Operation[Any, Any], command: Command, name: str, parameters: Sequence[Parameter], shape: str, *, asks: bool) -> str:
    description = operation.description if command.help is None else command.help
    examples = [*command.examples] or [_example(operation, name, parameters)]
    if asks and not command.examples:
        examples = [f"{each} --yes" for each in examples]
    title = "Examples" if len(examples) > 1 else "Example"
    shown = "\b\n" + "\n".join([f"{title}:", *(f"  narthex {each}" for each in examples)])
    by_json = f"With --json{' (which needs --yes)' if asks else ''}: {shape}." if shape else ""
    return "\n\n".join(filter(None, [command.summary or f"{operation.summary}.", description, shown, by_json]))


def _example(operation: Operation[Any, Any], name: str, parameters: Sequence[Parameter]) -> str:
    """A command line with the values of the operation's example, as far as they fit on a line."""
    example = operation.example or {}
    words = [name, *(_example_value(operation, each) for each in parameters if each.place == "path")]
    line = " ".join(words)
    for each in parameters:
        if each.place == "path" or (each.field not in example and not each.is_required):
            continue
        value = example.get(each.field)
        flag = each.flags[0] if each.flags else ""
        written = _written(each, flag, value)
        if each.is_required or len(line) + len(written) < _WIDTH - 20:
            line += f" {written}"
    if operation.method == "PUT" and operation.body is not NoBody and line == " ".join(words):
        line += " --file -"
    return line


def _written(parameter: Parameter, flag: str, value: Any) -> str:
    if parameter.kind in ("flag", "switch"):
        yes, _, no = flag.partition("/")
        return yes if value is not False else no
    if parameter.kind == "texts" and isinstance(value, list):
        return " ".join(f"{flag} {each}" for each in value)  # pyright: ignore[reportUnknownVariableType]
    if value is None:
        text = parameter.choices[0] if parameter.choices else parameter.metavar or parameter.field.upper()
    else:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    quoted = f"'{text}'" if re.search(r"[^\w.:/@,+*-]", text) else text
    return f"{flag} {quoted}".strip()


def _example_value(operation: Operation[Any, Any], parameter: Parameter) -> str:
    noun = operation.path.strip("/").partition("/")[0]
    if parameter.field == "name":
        return _EXAMPLE_NAMES.get(noun, "NAME")
    return _EXAMPLE_VALUES.get(parameter.field, _EXAMPLE_NAMES.get(f"{parameter.field}s", parameter.metavar))


if __name__ == "__main__":
    MANIFEST.write_bytes(write_manifest(build_manifest(asyncio.run(declared_operations()))))
