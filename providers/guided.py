"""Guided decoding: what shape an answer must have, read from the words that callers use and written in those that engines obey."""

from collections.abc import Callable, Mapping
from typing import Any, assert_never

import msgspec
from msgspec import Raw, Struct

from providers.errors import Malformed, Unsupported
from providers.wire import Body


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


Output = JsonObject | JsonSchema | Regex | Choice | Grammar | StructuralTag

# The words in which callers ask, apart from response_format, which every OpenAI-shaped engine reads as it is.
WORDS = frozenset({"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structural_tag", "structured_outputs"})


def read_output(body: Body) -> Output | None:
    """What the body asks for in WORDS; None if nothing. Raises Malformed if it asks for two things at once, response_format included."""
    asked: list[tuple[str, Output]] = []
    for word in sorted(WORDS & body.keys()):
        if body.said(word):
            asked.extend(_READERS[word](body.value(word)))
    formatted = body.value("response_format")
    if isinstance(formatted, dict) and formatted.get("type", "text") != "text" and asked:  # pyright: ignore[reportUnknownMemberType]
        raise Malformed(f"`response_format` and `{asked[0][0]}` both constrain the answer: send one of them.", param=asked[0][0])
    if len(asked) > 1:
        words = " and ".join(f"`{word}`" for word, _ in asked)
        raise Malformed(f"{words} both constrain the answer: send one of them.", param=asked[1][0])
    return asked[0][1] if asked else None


def _json(word: str, said: Any) -> Output:
    """A schema as an object, or as a string of JSON, as vLLM takes either."""
    if isinstance(said, str):
        try:
            said = msgspec.json.decode(said)
        except msgspec.DecodeError as fault:
            raise Malformed(f"`{word}` is a string that is not JSON: {fault}.", param=word) from None
    if not isinstance(said, dict | bool):
        raise Malformed(f"`{word}` must be a JSON schema: an object, not {said!r:.40}.", param=word)
    return JsonSchema(Raw(msgspec.json.encode(said)))


def _text(said: Any) -> str:
    return said if isinstance(said, str) else msgspec.json.encode(said).decode()


def _structured(said: Any) -> list[tuple[str, Output]]:
    """vLLM's `structured_outputs`: one constraint under its own name, beside switches of which none would be obeyed."""
    told: list[tuple[str, Output]] = []
    for key, value in said.items():
        word = f"structured_outputs.{key}"
        if value is None or (value is False and key != "json"):
            continue
        match key, value:
            case "json", _:
                told.append((word, _json(word, value)))
            case "json_object", True:
                told.append((word, JsonObject()))
            case "regex", str():
                told.append((word, Regex(value)))
            case "choice", [*options] if options and all(isinstance(option, str) for option in options):
                told.append((word, Choice(tuple(options))))
            case "grammar", str():
                told.append((word, Grammar(value)))
            case "structural_tag", _:
                told.append((word, StructuralTag(_text(value))))
            case "json_object" | "regex" | "choice" | "grammar", _:
                raise Malformed(f"`{word}` cannot be {value!r:.40}.", param=word)
            case "whitespace_pattern" | "disable_any_whitespace" | "disable_additional_properties" | "disable_fallback", _:
                # vLLM accepts them and does not act on them (seen on 0.32 of the first two): they are settings of its server.
                raise Unsupported(
                    f"`{word}` is not obeyed by any engine here: leave it out, or set it where the engine is started.", param=word
                )
            case _:
                raise Malformed(f"`{word}` is not known: json, json_object, regex, choice, grammar and structural_tag are.", param=word)
    return told


_READERS: Mapping[str, Callable[[Any], list[tuple[str, Output]]]] = {
    "guided_json": lambda said: [("guided_json", _json("guided_json", said))],
    "guided_regex": lambda said: [("guided_regex", Regex(said))],
    "guided_choice": lambda said: [("guided_choice", Choice(tuple(said)))],
    "guided_grammar": lambda said: [("guided_grammar", Grammar(said))],
    "structural_tag": lambda said: [("structural_tag", StructuralTag(_text(said)))],
    "structured_outputs": _structured,
}


def as_structured_outputs(output: Output) -> dict[str, Any]:
    """vLLM since 0.12, where guided_* fields are ignored with 200. A structural tag must be a string (seen on 0.32)."""
    match output:
        case JsonObject():
            told: dict[str, Any] = {"json_object": True}
        case JsonSchema():
            told = {"json": output.schema}
        case Regex():
            told = {"regex": output.pattern}
        case Choice():
            told = {"choice": output.options}
        case Grammar():
            told = {"grammar": output.text}
        case StructuralTag():
            told = {"structural_tag": output.text}
        case _:
            assert_never(output)
    return {"structured_outputs": told}


def as_guided_fields(output: Output) -> dict[str, Any]:
    """vLLM before 0.12, and the sandbox."""
    match output:
        case JsonObject():
            return {"response_format": {"type": "json_object"}}
        case JsonSchema():
            return {"guided_json": output.schema}
        case Regex():
            return {"guided_regex": output.pattern}
        case Choice():
            return {"guided_choice": output.options}
        case Grammar():
            return {"guided_grammar": output.text}
        case StructuralTag():
            try:
                tag = msgspec.json.decode(output.text)
            except msgspec.DecodeError as fault:
                raise Malformed(f"`structural_tag` is not JSON: {fault}.", param="structural_tag") from None
            if not isinstance(tag, dict):
                raise Malformed("`structural_tag` must hold a JSON object.", param="structural_tag")
            return {"response_format": {**tag, "type": "structural_tag"}}  # pyright: ignore[reportUnknownArgumentType]
        case _:
            assert_never(output)


def as_response_format(output: Output) -> dict[str, Any]:
    """OpenAI's own words, which know JSON alone. Strict: without it OpenAI promises nothing."""
    match output:
        case JsonObject():
            return {"response_format": {"type": "json_object"}}
        case JsonSchema():
            return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": output.schema, "strict": True}}}
        case Regex() | Choice() | Grammar() | StructuralTag():
            what = type(output).__name__.lower().replace("structuraltag", "structural tag")
            raise Unsupported(f"A {what} cannot be asked for in OpenAI's dialect, which knows JSON schemas and JSON objects alone.")
        case _:
            assert_never(output)
