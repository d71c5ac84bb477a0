"""Constraint: what a request demands of its answer in any dialect, an output format and the schemas of strict tools."""

import msgspec
from msgspec import Raw, Struct

from providers.canonical.extra_fields import as_raw
from providers.canonical.output_format import JsonObject, JsonSchema, OutputFormat
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.structured_output.locate_format import CONSTRAINT_FIELDS_BY_DIALECT, locate_format, value_path
from providers.structured_output.whitespace import read_whitespace


class Constraint(Struct, frozen=True):
    """`field`: the caller's path of `output`; `value_path`: of the schema, the pattern, ... in it.

    `is_openai_format`: `output` is a `response_format` in OpenAI's own form. `strict_tools`: the paths and schemas of the parameters of
    strict tools. `whitespace`: the caller's path and the regex of the white space that the JSON of `output` may contain; None: any that
    JSON allows. `uncovered_paths`: `field` and paths of `strict_tools` whose schemas go beyond what grammars are known to enforce
    (grammar_coverage.py). `is_slow_to_convert`: converting it may take milliseconds. `whitespace_regex`: the regex of `output` and
    `whitespace` together, where the checking process wrote it.
    """

    output: OutputFormat | None
    field: str
    is_openai_format: bool = False
    strict_tools: tuple[tuple[str, Raw], ...] = ()
    whitespace: tuple[str, str] | None = None
    uncovered_paths: frozenset[str] = frozenset()
    value_path: str = ""
    is_slow_to_convert: bool = False
    whitespace_regex: str | None = None


SLOW_MIN_BYTES = 10_000
"""Of a constraint, from which converting it may take milliseconds."""

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def read_constraint(dialect: str, body: Body) -> Constraint | None:
    """None: nothing constrains the answer. Raises InvalidRequest for two output formats, or an invalid one."""
    strict_tools = tuple(_read_strict_tools(body)) if dialect != "vllm_generate" else ()
    located = locate_format(dialect, body)
    if located is None:
        return Constraint(None, "tools", strict_tools=strict_tools) if strict_tools else None
    may_set_whitespace = dialect != "vllm_generate" and isinstance(located.output, JsonSchema | JsonObject)
    whitespace = read_whitespace(body) if may_set_whitespace else None
    constraint_bytes = sum(len(bytes(as_raw(body[key]))) for key in CONSTRAINT_FIELDS_BY_DIALECT[dialect] & body.keys())
    return Constraint(
        located.output,
        located.path,
        located.is_openai_format,
        strict_tools,
        whitespace,
        value_path=value_path(located, body),
        is_slow_to_convert=whitespace is not None or constraint_bytes > SLOW_MIN_BYTES,
    )


def _read_strict_tools(body: Body) -> list[tuple[str, Raw]]:
    """Paths and schemas of strict tools of chat, Responses and Messages. Invalid tools are skipped: their dialect refuses them."""
    raw = body.get("tools", NULL)
    if raw == NULL:
        return []
    found: list[tuple[str, Raw]] = []
    try:
        for index, tool in enumerate(_decode_tools(as_raw(raw))):
            path = f"tools[{index}]"
            if "function" in tool:
                tool, path = _decode_object(tool["function"]), f"{path}.function"
            if tool.get("strict") == Raw(b"true"):
                name = "input_schema" if "input_schema" in tool else "parameters"
                if tool.get(name, NULL) != NULL:
                    found.append((f"{path}.{name}", tool[name]))
    except DECODE_ERRORS:
        return []
    return found
