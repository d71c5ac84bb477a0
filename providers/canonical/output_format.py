"""OutputFormat: the format that a response must have, whichever field requests it."""

from typing import Literal

from msgspec import Raw, Struct


class JsonObject(Struct, frozen=True):
    """Any JSON object."""


class JsonSchema(Struct, frozen=True):
    """The response is JSON of a schema. `name`, `description` and `strict` are those of OpenAI's `json_schema` response format."""

    schema: Raw
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class Regex(Struct, frozen=True):
    pattern: str


class Choice(Struct, frozen=True):
    options: tuple[str, ...]


class Grammar(Struct, frozen=True):
    """The response is a text of a grammar."""

    text: str  # Lark, EBNF or GBNF, whichever the engine accepts


class StructuralTag(Struct, frozen=True):
    """The response has JSON between tags, as a structural tag says."""

    text: str  # the tag's JSON


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
