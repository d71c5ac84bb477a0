"""Arguments and options of a command, made from the path and from the JSON Schemas of the query and the body of its operation."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.api.openapi.property_descriptions import SHARED_NAMES
from app.api.openapi.schemas import REFERENCE, Schema, schemas_of
from app.api.rest.command import Command, Option
from app.api.rest.operation import NoBody, NoQuery, Operation
from app.cli.operations.manifest import Kind, Parameter

_JSON_KINDS: Mapping[str, Kind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "switch"}
_METAVARS: Mapping[Kind, str] = {
    **{"text": "TEXT", "key": "PREFIX", "texts": "TEXT", "networks": "NETWORK", "integers": "NUMBER", "json": "JSON"},
    **{"pairs": "NAME=VALUE", "edits": "NAME=VALUE", "number_pairs": "NAME=NUMBER", "share": "SHARE", "conditions": "CONDITION"},
    **{"moment": "TIME", "past_moment": "TIME", "duration": "DURATION"},
}
_PAIR_KINDS: Mapping[str, Kind] = {"string": "pairs", "number": "number_pairs"}
_LIST_KINDS: Mapping[str, Kind] = {"string": "texts", "integer": "integers"}
_SENTENCE = r"`{}`(?:,? [^.:`]*)?: ([^.]*\.)"
# Of times whose description says no more than how REST has them.
_TIMES = {"since": "From then on: 7d (ago), 2026-11-01 or 2026-11-01T08:00Z.", "until": "Until before then."}
_FIRST_SENTENCE = re.compile(r"[^`{]+?\.(?= |$)")
_PATH_SEGMENT = re.compile(r"\{(\w+)\}")
# What a command that changes something takes by itself, and the options that every command of an operation has.
RESERVED_FLAGS = frozenset({"--json", "--url", "--yes", "--quiet", "--dry-run", "--if-match", "--file", "--unset", "--help"})


def make_parameters(operation: Operation[Any, Any], command: Command) -> Iterator[Parameter]:
    """The arguments, then the options that stand for fields, in the order of the path, the query and the body."""
    yield from sorted(_all_parameters(operation, command), key=lambda each: bool(each.flags))


def _all_parameters(operation: Operation[Any, Any], command: Command) -> Iterator[Parameter]:
    for field in _PATH_SEGMENT.findall(operation.path):
        option = command.options.get(f"{{{field}}}", Option())
        yield Parameter(
            field=field,
            place="path",
            kind=option.kind or ("key" if field == "prefix" else "text"),  # pyright: ignore[reportArgumentType]
            flags=(option.flag,) if option.flag else (),
            metavar=option.metavar or field.upper(),
            help=option.help,
            is_required=not option.flag,
            minimum=1 if option.kind == "integer" else None,
            maximum=2**31 - 1 if option.kind == "integer" else None,
            sent=option.default,
        )
    for place, sent in (("query", operation.query), ("body", operation.body)):
        if sent is bytes:
            yield Parameter(field="", place="body", kind="file", metavar="FILE", is_required=True)
        elif sent not in (NoQuery, NoBody) and hasattr(sent, "__struct_fields__"):
            yield from _make_options(sent, place, command)  # pyright: ignore[reportArgumentType]


def unsettable_fields(operation: Operation[Any, Any], command: Command) -> list[str]:
    """The fields of a merge patch that null sets back to their default."""
    if operation.method != "PATCH" or operation.body is NoBody:
        return []
    schema, _ = _schema_of(operation.body)
    fields = _settable(schema, command)
    return [name for name, field in fields.items() if any(each.get("type") == "null" for each in field.get("anyOf", ()))]


def response_fields(response: Any) -> tuple[Schema, Schema | None]:
    """The schemas of the fields of a response and, if it has a list `data`, of the fields of its entries."""
    if response in (None, str, bytes):
        return {}, None
    schema, components = _schema_of(response)
    fields: Schema = schema.get("properties", {})
    items = _resolve(fields["data"].get("items", {}), components).get("properties") if "data" in fields else None
    return {name: _resolve(field, components) for name, field in fields.items()}, items


def is_nested(schema: Schema) -> bool:
    """Whether a field is an object, or a list of objects."""
    return any("$ref" in each or each.get("type") == "object" or "$ref" in each.get("items", {}) for each in _choices(schema))


def _choices(schema: Schema) -> list[Schema]:
    """The schemas that a value may have, but for null."""
    found = [choice for each in schema["anyOf"] for choice in _choices(each)] if "anyOf" in schema else [schema]
    return [each for index, each in enumerate(found) if each.get("type") != "null" and each not in found[:index]]


def _make_options(kind: type[Any], place: Any, command: Command) -> Iterator[Parameter]:
    schema, components = _schema_of(kind)
    for field in command.inline:
        [record] = [_resolve(each, components) for each in _choices(schema["properties"][field])]
        item, mark = (_resolve(record["items"], components), ".") if "items" in record else (record, "/")
        for each in _options_of(item, components, place, command, above=f"{field}."):
            yield replace(each, field=f"{field}{mark}{each.field}", is_required=False)
    yield from _options_of(schema, components, place, command)


def _options_of(schema: Schema, components: Mapping[str, Schema], place: Any, command: Command, *, above: str = "") -> Iterator[Parameter]:
    required, text = schema.get("required", ()), schema.get("description", "")
    fields = _settable(schema, command)
    for field, property_schema in fields.items():
        option = command.options.get(f"{above}{field}", Option())
        choices = _choices(property_schema)
        described = {**(_resolve(choices[0], components) if len(choices) == 1 else {}), **property_schema}
        description = _description(property_schema)
        value_kind: Any = "secret" if option.is_secret else "stdin" if option.is_stdin else option.kind
        value_kind = value_kind or _kind_of(field, choices, components, fields, is_query=place == "query")
        value_kind = "key" if value_kind == "text" and place == "query" and "key with this public part" in description else value_kind
        value_kind = "texts" if option.parse and described.get("type") == "array" else value_kind
        is_argument = option.is_argument or (field == "name" and field in required and not option.flag)
        default = option.default or ("" if option.decides else property_schema.get("default"))
        enumerated = (_resolve(described.get("items", {}), components) if value_kind == "texts" else described).get("enum", ())
        words = option.words or (_words_for_lists(choices) if value_kind == "texts" else {})
        yield Parameter(
            field=field,
            place=place,
            kind=value_kind,
            flags=() if is_argument else [*_flags(option.flag or _flag_of(field, value_kind), value_kind), *option.aliases],
            metavar=option.metavar or ("" if enumerated else _metavar(field, value_kind, is_argument=is_argument)),
            help=option.help or _help_of(field, property_schema, described, text, is_query=place == "query"),
            is_required=field in required,
            choices=[str(each) for each in (*enumerated, option.null) if each],
            minimum=next((described[each] for each in ("minimum", "exclusiveMinimum", "minLength") if each in described), None),
            maximum=described.get("maximum", described.get("exclusiveMaximum")),
            excludes_minimum="exclusiveMinimum" in described,
            excludes_maximum="exclusiveMaximum" in described,
            default=str(default) if isinstance(default, str | int | float) and default not in ("", False) else "",
            sent=option.default,
            null=option.null,
            words=words,
            parse=option.parse,
            decides=option.decides,
        )
        for flag, (value, flag_help) in option.constants.items():
            yield Parameter(field=field, place=place, kind="constant", flags=[flag], help=flag_help, value=value)


def _settable(schema: Schema, command: Command) -> dict[str, Schema]:
    fields: dict[str, Schema] = schema.get("properties", {})
    return {name: field for name, field in fields.items() if name not in (*command.fixed, *command.inline) and not field.get("readOnly")}


def _words_for_lists(choices: Sequence[Schema]) -> Mapping[str, Any]:
    """The words that a field takes in the place of a list, and `none` for an empty one."""
    words = [word for each in choices for word in each.get("enum", ())]
    return {**{each: each for each in words}, "none": []} if words else {}


def _kind_of(
    field: str, choices: Sequence[Schema], components: Mapping[str, Schema], siblings: Mapping[str, Any], *, is_query: bool
) -> Kind:
    if field.endswith("_s") and {each.get("type") for each in choices} <= {"number", "integer"}:
        return "duration"
    if field == "networks":
        return "networks"
    if len(choices) == 2 and _words_for_lists(choices) and any(each.get("items", {}).get("type") == "string" for each in choices):
        return "texts"
    if len(choices) != 1:
        return "json"
    schema = _resolve(choices[0], components)
    if "enum" in schema and schema.get("type") == "string":
        return "choice"
    if schema.get("format") == "date-time" or field.endswith("_at"):
        is_future = field.startswith("expires") or (not is_query and "since" not in siblings)
        return "moment" if is_future else "past_moment"
    if schema.get("type") == "array":
        return _LIST_KINDS.get(str(_resolve(schema.get("items", {}), components).get("type")), "json")
    if schema.get("type") == "boolean" and is_query and "default" in schema | choices[0]:
        return "flag" if not schema.get("default") else "switch"
    if len(values := _choices(schema.get("additionalProperties") or {"anyOf": []})) == 1:
        kind = _PAIR_KINDS.get(_resolve(values[0], components).get("type", ""), "json")
        return "edits" if kind == "pairs" and "anyOf" in schema["additionalProperties"] else kind
    if schema.get("type") == "number" and (schema.get("minimum"), schema.get("maximum")) == (0, 1):
        return "share"
    return _JSON_KINDS.get(str(schema.get("type")), "json")


def _help_of(field: str, schema: Schema, referred: Schema, text: str, *, is_query: bool) -> str:
    """The field's description; or the sentence about it in that of its record, the first one of what it holds, or what its name says."""
    own = _description(schema)
    if own.startswith("ISO 8601") and field in _TIMES:
        return _TIMES[field]
    if own:
        return own
    if found := re.search(_SENTENCE.format(field), text):
        return found[1][:1].upper() + found[1][1:]
    if field == "sort":
        return "How to sort."
    words = field.replace("_", " ")
    first = _FIRST_SENTENCE.match(" ".join(_description(referred).split()))
    return first[0] if first else f"Only with this {words}." if is_query else f"Its {words}."


def _description(schema: Schema) -> str:
    """The description of a schema, or of one of its choices, which goes before what all fields of a name mean."""
    choices = (_description(each) for each in schema.get("anyOf", ()))
    own = str(schema.get("description", ""))
    of_choice = next(filter(None, choices), "")
    return of_choice if of_choice and own in SHARED_NAMES.values() else own or of_choice


def _flag_of(field: str, kind: Kind) -> str:
    name = f"{field}_stdin" if kind == "stdin" else field.removesuffix("_s") if kind == "duration" else field
    flag = f"--{name.replace('_', '-')}"
    return f"--set-{flag[2:]}" if flag in RESERVED_FLAGS else flag


def _flags(flag: str, kind: Kind) -> list[str]:
    return [f"{flag}/--no-{flag[2:]}"] if kind == "switch" and "/" not in flag else [flag]


def _metavar(field: str, kind: Kind, *, is_argument: bool) -> str:
    if is_argument:
        return field.upper()
    return _METAVARS.get(kind, "")


def _schema_of(kind: Any) -> tuple[Schema, dict[str, Schema]]:
    [schema], components = schemas_of([kind])
    return _resolve(schema, components), components


def _resolve(schema: Schema, components: Mapping[str, Schema]) -> Schema:
    return components[schema["$ref"].removeprefix(REFERENCE)] if "$ref" in schema else schema
