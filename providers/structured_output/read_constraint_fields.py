"""Reads the output format from the constraint fields of engines."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag
from providers.canonical.raw_json import DECODE_ERRORS, Body

# Constraint fields apart from response_format, which every OpenAI-compatible engine reads as it is: vLLM's old and new ones, then those of
# SGLang's chat (regex, ebnf) and of llama.cpp's (grammar, json_schema).
CONSTRAINT_FIELDS = frozenset(
    {
        *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structural_tag", "structured_outputs"),
        *("regex", "ebnf", "grammar", "json_schema"),
    }
)


def read_output_format(body: Body) -> OutputFormat | None:
    """The output format in CONSTRAINT_FIELDS; None: there is none. Raises InvalidRequest for two at once, response_format included."""
    found: list[tuple[str, OutputFormat]] = []
    for field in sorted(CONSTRAINT_FIELDS & body.keys()):
        if body.has_value(field):
            found.extend(_READERS[field](body.value(field)))
    response_format = body.value("response_format")
    if isinstance(response_format, dict) and response_format.get("type", "text") != "text" and found:  # pyright: ignore[reportUnknownMemberType]
        raise InvalidRequest(f"`response_format` and `{found[0][0]}` both constrain the answer: send one of them.", param=found[0][0])
    if len(found) > 1:
        conflicting = " and ".join(f"`{path}`" for path, _ in found)
        raise InvalidRequest(f"{conflicting} both constrain the answer: send one of them.", param=found[1][0])
    return found[0][1] if found else None


def _read_schema(field: str, value: Any) -> OutputFormat:
    """A schema as an object or as a JSON string: vLLM accepts both."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except DECODE_ERRORS as error:
            raise InvalidRequest(f"`{field}` is a string that is not JSON: {error}.", param=field) from None
    if not isinstance(value, dict | bool):
        raise InvalidRequest(f"`{field}` must be a JSON schema: an object, not {value!r:.40}.", param=field)
    return JsonSchema(Raw(msgspec.json.encode(value)))


def require_string(field: str, value: Any) -> str:
    """Raises InvalidRequest for any other type."""
    if not isinstance(value, str):
        raise InvalidRequest(f"`{field}` must be a string.", param=field)
    return value


def _require_strings(field: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):  # pyright: ignore[reportUnknownVariableType]
        raise InvalidRequest(f"`{field}` must be a list of strings.", param=field)
    return tuple(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def read_structured_outputs(structured_outputs: Any, parent: str = "structured_outputs") -> list[tuple[str, OutputFormat]]:
    """The output formats in vLLM's `structured_outputs`, by path. whitespace.py reads its switches for white space."""
    found: list[tuple[str, OutputFormat]] = []
    whitespace_path: str | None = None
    try:
        fields = msgspec.convert(structured_outputs, dict[str, Any])
    except msgspec.ValidationError:
        raise InvalidRequest(f"`{parent}` must be an object.", param=parent) from None
    for key, value in fields.items():
        path = f"{parent}.{key}"
        if value is None or (value is False and key != "json"):
            continue
        match key, value:
            case "json", _:
                found.append((path, _read_schema(path, value)))
            case "json_object", True:
                found.append((path, JsonObject()))
            case "regex", str():
                found.append((path, Regex(value)))
            case "choice", list():
                options = _require_strings(path, value)
                if not options:
                    raise InvalidRequest(f"`{path}` cannot be empty.", param=path)
                found.append((path, Choice(options)))
            case "grammar", str():
                found.append((path, Grammar(value)))
            case "structural_tag", _:
                found.append((path, StructuralTag(_to_text(value))))
            case "json_object" | "regex" | "choice" | "grammar", _:
                raise InvalidRequest(f"`{path}` cannot be {value!r:.40}.", param=path)
            case ("whitespace_pattern", str()) | ("disable_any_whitespace", True) if not parent.startswith("sampling"):
                whitespace_path = path
            case "whitespace_pattern" | "disable_any_whitespace" | "disable_additional_properties" | "disable_fallback", _:
                # vLLM accepts these and ignores them: they are settings of its server.
                raise Unsupported(f"`{path}` has no effect on any engine: leave it out, or set it where the engine is started.", param=path)
            case _:
                raise InvalidRequest(f"`{path}` is unknown: use json, json_object, regex, choice, grammar or structural_tag.", param=path)
    if whitespace_path is not None and not found:
        raise InvalidRequest(
            f"`{whitespace_path}` sets the white space of JSON, but `{parent}` has no JSON constraint.", param=whitespace_path
        )
    return found


_READERS: Mapping[str, Callable[[Any], list[tuple[str, OutputFormat]]]] = {
    "guided_json": lambda value: [("guided_json", _read_schema("guided_json", value))],
    "guided_regex": lambda value: [("guided_regex", Regex(require_string("guided_regex", value)))],
    "guided_choice": lambda value: [("guided_choice", Choice(_require_strings("guided_choice", value)))],
    "guided_grammar": lambda value: [("guided_grammar", Grammar(require_string("guided_grammar", value)))],
    "structural_tag": lambda value: [("structural_tag", StructuralTag(_to_text(value)))],
    "structured_outputs": read_structured_outputs,
    "regex": lambda value: [("regex", Regex(require_string("regex", value)))],
    "ebnf": lambda value: [("ebnf", Grammar(require_string("ebnf", value)))],
    "grammar": lambda value: [("grammar", Grammar(require_string("grammar", value)))],
    "json_schema": lambda value: [("json_schema", _read_schema("json_schema", value))],
}
