"""What constrains the answer to an ask, wherever the caller's dialect says it: an output, and the schemas of strict tools."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.errors import Malformed, Unsupported
from providers.guided.formats import place_of, read_format
from providers.guided.output import JsonObject, JsonSchema, Output, kind_of
from providers.guided.patterns import is_spacing
from providers.guided.reading import WORDS, read_output, read_spacing, read_structured
from providers.guided.regexes import unrolled
from providers.rest import as_raw
from providers.wire import NULL, UNREADABLE, Body


class Constraint(Struct, frozen=True):
    """`field`: the caller's path of `output`; `place`: of the schema, the pattern ... within. `plain`: it stands in response_format, in the
    form that OpenAI gave that.

    `tools`: the paths and schemas of the parameters of tools that are to be strict. `spacing`: the white space that the JSON of `output`
    may hold, as a regex, and the caller's path for it; None: whatever JSON allows. `loose`: of `field` and the paths of `tools` those whose
    schemas say what engines' grammars are not known to hold to (heeded.py). `slow`: to say it otherwise may take some milliseconds.
    """

    output: Output | None
    field: str
    plain: bool = False
    tools: tuple[tuple[str, Raw], ...] = ()
    spacing: tuple[str, str] | None = None
    loose: frozenset[str] = frozenset()
    place: str = ""
    slow: bool = False


_LONGEST_SPACING = 1_000
_SLOW_FROM_BYTES = 10_000
_EVERYWHERE = WORDS | {"guided_whitespace_pattern"}

# Where each dialect may say one, at the top level of its asks; beside them the words of engines, which all may send.
PLACES: Mapping[str, frozenset[str]] = {
    "openai_chat": _EVERYWHERE | {"response_format"},
    "openai_completions": _EVERYWHERE | {"response_format"},
    "openai_responses": _EVERYWHERE | {"text"},
    "anthropic_messages": _EVERYWHERE | {"output_config", "output_format"},
    "vllm_generate": frozenset({"sampling_params"}),
}

_object = msgspec.json.Decoder(dict[str, Raw]).decode
_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def read_constraint(dialect: str, body: Body) -> Constraint | None:
    """None: nothing constrains the answer. Raises Malformed for two constraints at once, or one that cannot be read."""
    tools = tuple(_strict_tools(body)) if dialect != "vllm_generate" else ()
    said = _said(dialect, body)
    if said is None:
        return Constraint(None, "tools", tools=tools) if tools else None
    output, field, plain = said
    spacing = None if dialect == "vllm_generate" or not isinstance(output, JsonSchema | JsonObject) else _spacing(body)
    slow = spacing is not None or sum(len(bytes(as_raw(body[key]))) for key in PLACES[dialect] & body.keys()) > _SLOW_FROM_BYTES
    return Constraint(output, field, plain, tools, spacing, place=_place(output, field, body), slow=slow)


def _place(output: Output, field: str, body: Body) -> str:
    match field:
        case "response_format":
            return place_of(body[field])
        case "structured_outputs":
            kind = kind_of(output)
            return f"{field}.{'json' if kind == 'json_schema' else kind}"
        case "text.format" | "output_config.format" | "output_format" if isinstance(output, JsonSchema):
            return f"{field}.schema"
        case _:
            return field


def _spacing(body: Body) -> tuple[str, str] | None:
    spacing = read_spacing(body)
    if spacing is None:
        return None
    place, pattern = spacing
    if len(pattern) > _LONGEST_SPACING or unrolled(pattern) > _LONGEST_SPACING:
        raise Malformed(f"`{place}` stands for more than {_LONGEST_SPACING} characters of white space in one place.", param=place)
    try:
        if is_spacing(pattern):
            return spacing
    except Unsupported as reason:
        raise Malformed(f"`{place}` cannot be obeyed: {reason.message}", param=place) from None
    raise Malformed(f"`{place}` must be a regex of spaces, tabs and line ends alone, for nothing else may stand within JSON.", param=place)


def _said(dialect: str, body: Body) -> tuple[Output, str, bool] | None:
    if dialect == "vllm_generate":
        params = _object(as_raw(body.get("sampling_params", Raw(b"{}"))))
        inner = params.get("structured_outputs", NULL)
        told = [] if inner == NULL else read_structured(msgspec.json.decode(inner), "sampling_params.structured_outputs")
        if len(told) > 1:
            raise _two(told[0][0], told[1][0])
        return (told[0][1], told[0][0], False) if told else None
    output = read_output(body)
    word = next((word for word in sorted(WORDS & body.keys()) if body.said(word)), "")
    own = _of_own(dialect, body)
    if own is None:
        return None if output is None else (output, word, False)
    if output is not None:
        raise _two(own[1], word)
    return own


def _two(one: str, other: str) -> Malformed:
    return Malformed(f"`{one}` and `{other}` both constrain the answer: send one of them.", param=other)


def _of_own(dialect: str, body: Body) -> tuple[Output, str, bool] | None:
    """In the words that the dialect itself has for it."""
    match dialect:
        case "openai_responses":
            text: dict[str, Any] = body.value("text") or {}
            return _flat(text.get("format"), "text.format")
        case "anthropic_messages":
            config: dict[str, Any] = body.value("output_config") or {}
            if config.get("format") is None:
                return _flat(body.value("output_format"), "output_format")
            if body.said("output_format"):
                raise _two("output_config.format", "output_format")
            return _flat(config["format"], "output_config.format")
        case _:
            if not body.said("response_format"):
                return None
            output = read_format(body["response_format"], {})
            if output is None and _object(as_raw(body["response_format"]))["type"] != Raw(b'"text"'):
                raise Malformed("`response_format` is of no form that is known here.", param="response_format")
            return None if output is None else (output, "response_format", _is_plain(output, body["response_format"]))


def _flat(said: Any, field: str) -> tuple[Output, str, bool] | None:
    """A schema beside its type, as Responses and Messages say it."""
    match said:
        case {"type": "json_schema", "schema": {} | bool() as schema}:
            name, strict = said.get("name"), said.get("strict")
            return JsonSchema(Raw(msgspec.json.encode(schema)), name, said.get("description"), strict), field, False
        case {"type": "json_object"}:
            return JsonObject(), field, False
        case {"type": "json_schema"}:
            raise Malformed(f"`{field}.schema` is missing.", param=f"{field}.schema")
        case _:
            return None


def _is_plain(output: Output, said: Any) -> bool:
    told = _object(as_raw(said))
    match output:
        case JsonSchema():
            return "json_schema" in told
        case JsonObject():
            return told.get("type") == Raw(b'"json_object"')
        case _:
            return False


def _strict_tools(body: Body) -> list[tuple[str, Raw]]:
    """Tools of chat, of Responses and of Messages; what is none of these is passed over here, and told by its dialect."""
    raw = body.get("tools", NULL)
    if raw == NULL:
        return []
    found: list[tuple[str, Raw]] = []
    try:
        for at, tool in enumerate(_tools(as_raw(raw))):
            path = f"tools[{at}]"
            if "function" in tool:
                tool, path = _object(tool["function"]), f"{path}.function"
            if tool.get("strict") == Raw(b"true"):
                name = "input_schema" if "input_schema" in tool else "parameters"
                if tool.get(name, NULL) != NULL:
                    found.append((f"{path}.{name}", tool[name]))
    except UNREADABLE:
        return []
    return found
