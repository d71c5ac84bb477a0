"""Constraint: what a request demands of its answer in any dialect, an output format and the schemas of strict tools."""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Raw, Struct

from providers.canonical.extra_fields import as_raw
from providers.canonical.output_format import JsonObject, JsonSchema, OutputFormat
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.structured_output.locate_format import CONSTRAINT_FIELDS_BY_DIALECT, locate_format, value_path
from providers.structured_output.whitespace import read_whitespace


class Constraint(Struct, frozen=True):
    """The form that a response must have, and where the caller demands it."""

    output: OutputFormat | None
    field: str  # the caller's path of `output`
    is_openai_format: bool = False  # whether `output` is a `response_format` in OpenAI's own form
    # the paths and schemas of the parameters of strict tools; of functions in namespaces the paths in the canonical chat
    strict_tools: tuple[tuple[str, Raw], ...] = ()
    # the caller's path and the regex of the white space that the JSON of `output` may contain; None: any that JSON allows
    whitespace: tuple[str, str] | None = None
    # `field` and paths of `strict_tools` whose schemas go beyond what grammars are known to enforce (grammar_coverage.py)
    uncovered_paths: frozenset[str] = frozenset()
    value_path: str = ""  # of the schema, the pattern, ... in `field`
    is_slow_to_convert: bool = False  # whether converting it may take milliseconds
    whitespace_regex: str | None = None  # the regex of `output` and `whitespace` together, where the checking process wrote it
    caller_paths: Mapping[str, str] = {}  # the caller's own paths of functions in namespaces, by those of `strict_tools`

    @property
    def demands_schema(self) -> bool:
        """Whether the answer, or the arguments of a call, must match a JSON schema."""
        return isinstance(self.output, JsonSchema) or bool(self.strict_tools)

    def caller_path(self, path: str) -> str:
        """The caller's own path of a strict tool, or of something in one."""
        tool, dot, rest = path.partition(".")
        return f"{self.caller_paths.get(tool, tool)}{dot}{rest}"


SLOW_MIN_BYTES = 10_000
"""Of a constraint, from which converting it may take milliseconds."""

_StrictTools = tuple[tuple[tuple[str, Raw], ...], Mapping[str, str]]
_NO_STRICT_TOOLS: _StrictTools = ((), {})
# A named group of functions in Responses.
_NAMESPACE = Raw(b'"namespace"')
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def read_constraint(dialect: str, body: Body) -> Constraint | None:
    """Returns what constrains the answer, or None if nothing does.

    Raises InvalidRequest for two output formats, or an invalid one.
    """
    strict_tools, caller_paths = _read_strict_tools(body) if dialect != "vllm_generate" else _NO_STRICT_TOOLS
    located = locate_format(dialect, body)
    if located is None:
        return Constraint(None, "tools", strict_tools=strict_tools, caller_paths=caller_paths) if strict_tools else None
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
        caller_paths=caller_paths,
    )


def _read_strict_tools(body: Body) -> _StrictTools:
    """Paths and schemas of strict tools of chat, Responses and Messages, and the caller's paths of those in namespaces.

    The canonical chat has the first function of a namespace in its place, and the others behind all tools. Invalid tools are skipped:
    their dialect refuses them.
    """
    raw = body.get("tools", NULL)
    if raw == NULL:
        return _NO_STRICT_TOOLS
    found: list[tuple[str, Raw]] = []
    caller_paths: dict[str, str] = {}
    try:
        tools = _decode_tools(as_raw(raw))
        further: list[tuple[dict[str, Raw], str]] = []
        for index, tool in enumerate(tools):
            path = f"tools[{index}]"
            if tool.get("type") == _NAMESPACE and tool.get("tools", NULL) != NULL:
                functions = [(function, f"{path}.tools[{at}]") for at, function in enumerate(_decode_tools(tool["tools"]))]
                for function, caller_path in functions[:1]:
                    caller_paths[path] = caller_path
                    found += _strict_parameters(function, path)
                further += functions[1:]
            else:
                found += _strict_parameters(tool, path)
        for index, (function, caller_path) in enumerate(further, len(tools)):
            caller_paths[f"tools[{index}]"] = caller_path
            found += _strict_parameters(function, f"tools[{index}]")
    except DECODE_ERRORS:
        return _NO_STRICT_TOOLS
    return tuple(found), caller_paths


def _strict_parameters(tool: dict[str, Raw], path: str) -> Iterator[tuple[str, Raw]]:
    if "function" in tool:
        tool, path = _decode_object(tool["function"]), f"{path}.function"
    if tool.get("strict") == Raw(b"true"):
        name = "input_schema" if "input_schema" in tool else "parameters"
        if tool.get(name, NULL) != NULL:
            yield f"{path}.{name}", tool[name]
