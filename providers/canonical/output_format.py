"""What shape an answer must have. One of these, whichever words asked for it."""

from typing import Literal

from msgspec import Raw, Struct


class JsonObject(Struct, frozen=True):
    """Any JSON object."""


class JsonSchema(Struct, frozen=True):
    """`name`, `description` and `strict`: as OpenAI lets callers say them of a schema."""

    schema: Raw
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class Regex(Struct, frozen=True):
    pattern: str


class Choice(Struct, frozen=True):
    options: tuple[str, ...]


class Grammar(Struct, frozen=True):
    """Lark, EBNF or GBNF, as the engine takes it."""

    text: str


class StructuralTag(Struct, frozen=True):
    """The tag's JSON as text."""

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
    return _KINDS[type(output)]
