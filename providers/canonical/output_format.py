"""OutputFormat: the format that a response must have, whichever field requests it."""

from typing import Literal

from msgspec import Raw, Struct


class JsonObject(Struct, frozen=True):
    """Any JSON object."""


class JsonSchema(Struct, frozen=True):
    """`name`, `description` and `strict`: those of OpenAI's `json_schema` response format."""

    schema: Raw
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class Regex(Struct, frozen=True):
    pattern: str


class Choice(Struct, frozen=True):
    options: tuple[str, ...]


class Grammar(Struct, frozen=True):
    """`text`: Lark, EBNF or GBNF, whichever the engine accepts."""

    text: str


class StructuralTag(Struct, frozen=True):
    """`text`: the tag's JSON."""

    text: str


OutputFormat = JsonObject | JsonSchema | Regex | Choice | Grammar | StructuralTag

OutputKind = Literal["json_object", "json_schema", "regex", "choice", "grammar", "structural_tag"]

_KINDS: dict[type, OutputKind] = {
    JsonObject: "json_object",
    JsonSchema: "json_schema",
    Regex: "regex",
    Choice: "choice",
    Grammar: "grammar",
    StructuralTag: "structural_tag",
}


def output_kind(output: OutputFormat) -> OutputKind:
    """The kind by which providers list what they support."""
    return _KINDS[type(output)]
