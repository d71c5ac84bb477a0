"""Reading what callers ask for in the words that engines have had for guided decoding."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.errors import Malformed, Unsupported
from providers.guided.output import Choice, Grammar, JsonObject, JsonSchema, Output, Regex, StructuralTag
from providers.wire import UNREADABLE, Body

# The words in which callers ask, apart from response_format, which every OpenAI-shaped engine reads as it is: vLLM's, old and new, then
# those of SGLang's chat (regex, ebnf) and of llama.cpp's (grammar, json_schema).
WORDS = frozenset(
    {
        *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structural_tag", "structured_outputs"),
        *("regex", "ebnf", "grammar", "json_schema"),
    }
)


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
        except UNREADABLE as fault:
            raise Malformed(f"`{word}` is a string that is not JSON: {fault}.", param=word) from None
    if not isinstance(said, dict | bool):
        raise Malformed(f"`{word}` must be a JSON schema: an object, not {said!r:.40}.", param=word)
    return JsonSchema(Raw(msgspec.json.encode(said)))


def _string(word: str, said: Any) -> str:
    if not isinstance(said, str):
        raise Malformed(f"`{word}` must be a string.", param=word)
    return said


def _strings(word: str, said: Any) -> tuple[str, ...]:
    if not isinstance(said, list) or not all(isinstance(each, str) for each in said):  # pyright: ignore[reportUnknownVariableType]
        raise Malformed(f"`{word}` must be a list of strings.", param=word)
    return tuple(said)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _text(said: Any) -> str:
    return said if isinstance(said, str) else msgspec.json.encode(said).decode()


def read_structured(said: Any, within: str = "structured_outputs") -> list[tuple[str, Output]]:
    """vLLM's `structured_outputs`: one constraint under its own name, beside switches; read_spacing() reads those about white space."""
    told: list[tuple[str, Output]] = []
    spacing: str | None = None
    try:
        fields = msgspec.convert(said, dict[str, Any])
    except msgspec.ValidationError:
        raise Malformed(f"`{within}` must be an object.", param=within) from None
    for key, value in fields.items():
        word = f"{within}.{key}"
        if value is None or (value is False and key != "json"):
            continue
        match key, value:
            case "json", _:
                told.append((word, _json(word, value)))
            case "json_object", True:
                told.append((word, JsonObject()))
            case "regex", str():
                told.append((word, Regex(value)))
            case "choice", list():
                options = _strings(word, value)
                if not options:
                    raise Malformed(f"`{word}` cannot be empty.", param=word)
                told.append((word, Choice(options)))
            case "grammar", str():
                told.append((word, Grammar(value)))
            case "structural_tag", _:
                told.append((word, StructuralTag(_text(value))))
            case "json_object" | "regex" | "choice" | "grammar", _:
                raise Malformed(f"`{word}` cannot be {value!r:.40}.", param=word)
            case ("whitespace_pattern", str()) | ("disable_any_whitespace", True) if not within.startswith("sampling"):
                spacing = word
            case "whitespace_pattern" | "disable_any_whitespace" | "disable_additional_properties" | "disable_fallback", _:
                # vLLM accepts them and does not act on them: they are settings of its server.
                raise Unsupported(
                    f"`{word}` is not obeyed by any engine here: leave it out, or set it where the engine is started.", param=word
                )
            case _:
                raise Malformed(f"`{word}` is not known: json, json_object, regex, choice, grammar and structural_tag are.", param=word)
    if spacing is not None and not told:
        raise Malformed(f"`{spacing}` is about the white space of JSON, which `{within}` does not ask for.", param=spacing)
    return told


_READERS: Mapping[str, Callable[[Any], list[tuple[str, Output]]]] = {
    "guided_json": lambda said: [("guided_json", _json("guided_json", said))],
    "guided_regex": lambda said: [("guided_regex", Regex(_string("guided_regex", said)))],
    "guided_choice": lambda said: [("guided_choice", Choice(_strings("guided_choice", said)))],
    "guided_grammar": lambda said: [("guided_grammar", Grammar(_string("guided_grammar", said)))],
    "structural_tag": lambda said: [("structural_tag", StructuralTag(_text(said)))],
    "structured_outputs": read_structured,
    "regex": lambda said: [("regex", Regex(_string("regex", said)))],
    "ebnf": lambda said: [("ebnf", Grammar(_string("ebnf", said)))],
    "grammar": lambda said: [("grammar", Grammar(_string("grammar", said)))],
    "json_schema": lambda said: [("json_schema", _json("json_schema", said))],
}


def read_spacing(body: Body) -> tuple[str, str] | None:
    """The white space that JSON may hold, as a regex, and the caller's path for it. None: not said.

    vLLM accepts it and does not act on it, old or new (vllm#26362; seen on 0.32).
    """
    if body.said("guided_whitespace_pattern"):
        return "guided_whitespace_pattern", _string("guided_whitespace_pattern", body.value("guided_whitespace_pattern"))
    match body.value("structured_outputs"):
        case {"whitespace_pattern": pattern} if pattern is not None:
            return "structured_outputs.whitespace_pattern", _string("structured_outputs.whitespace_pattern", pattern)
        case {"disable_any_whitespace": True}:
            return "structured_outputs.disable_any_whitespace", ""
        case _:
            return None
