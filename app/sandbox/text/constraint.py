"""Constraints: reads every field for structured output, and compiles it to a grammar for llguidance."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, assert_never

import msgspec
from llguidance import LLMatcher, grammar_from

from app.sandbox.protocol.errors import InvalidConstraint, InvalidRequest
from app.sandbox.protocol.request_schema import GenerationBody, ResponseFormat, StructuredOutputs
from app.sandbox.text.grammar_hints import example_endings, quoted_strings
from app.sandbox.text.schema_rewrite import build_check, rewrite_schema
from providers.structured_output.structural_tags import tags_to_lark

MAX_SOURCE_CHARS = 262_144
"""Maximum of a schema, regex or grammar, or of all choices together. GBNF is translated in Python, in time that grows with its length."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint that a response must match: one of `choices`, or a grammar. `field` is where the caller gave it.

    `openers` and `closers` are hints for a random walk: texts that start and end parts which it would hardly
    enter or leave by chance. `approximate` returns, for a grammar that llguidance does not take, another
    grammar that leads to such texts, and their check. It returns None if there is no such grammar.
    """

    field: str
    choices: tuple[str, ...] = ()
    grammar: str = ""
    is_json: bool = False
    openers: tuple[str, ...] = ()
    closers: tuple[str, ...] = ()
    approximate: "Callable[[], Approximation | None]" = lambda: None


@dataclass(frozen=True, slots=True)
class Approximation:
    grammar: str
    check: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class ConstraintSource:
    """A constraint as the caller wrote it, and the field that it is from."""

    field: str
    kind: Literal["json", "regex", "choice", "grammar", "tags"]
    source: Any
    whitespace: str | None = None

    def compile(self) -> Constraint:
        """Compiles it; too slow for the event loop. Raises InvalidConstraint, except for errors that llguidance finds in a walk."""
        match self.kind:
            case "json":
                return compile_schema(self)
            case "regex":
                return Constraint(
                    self.field, grammar=LLMatcher.grammar_from_regex(check_source(self, self.source)), closers=example_endings(self.source)
                )
            case "choice":
                if not self.source:
                    raise InvalidConstraint(f"{self.field}: there is nothing to choose from.", self.field)
                check_length(self, sum(map(len, self.source)))
                return Constraint(self.field, choices=tuple(self.source))
            case "grammar":
                return compile_grammar(self)
            case "tags":
                return compile_tags(self)
            case _:
                assert_never(self.kind)


def read_constraint(body: GenerationBody) -> ConstraintSource | None:
    """The constraint of a request, or None. Raises InvalidConstraint if there are two, because only one could be obeyed."""
    nested = body.structured_outputs or StructuredOutputs()
    sources = [*read_response_format(body.response_format), *read_guided_fields(body), *read_structured_outputs(nested)]
    if len(sources) > 1:
        names = ", ".join(source.field for source in sources)
        raise InvalidConstraint(f"Only one constraint can hold, and this request has {len(sources)}: {names}.", sources[1].field)
    for field, pattern in (
        ("guided_whitespace_pattern", body.guided_whitespace_pattern),
        ("structured_outputs.whitespace_pattern", nested.whitespace_pattern),
    ):
        if pattern is not None and not any(source.kind == "json" for source in sources):
            raise InvalidConstraint(f"{field} sets the whitespace of JSON, but the request demands no JSON.", field)
    return sources[0] if sources else None


def read_response_format(response_format: ResponseFormat | None) -> Iterator[ConstraintSource]:
    if response_format is None or response_format.type == "text":
        return
    if response_format.type == "json_object":
        yield ConstraintSource("response_format", "json", {"type": "object"})
    elif response_format.type == "structural_tag":
        tag = {"format": response_format.format, "structures": response_format.structures, "triggers": response_format.triggers}
        yield ConstraintSource("response_format", "tags", {key: part for key, part in tag.items() if part is not None})
    elif response_format.json_schema is None or response_format.json_schema.schema is None:
        field = "response_format.json_schema.schema"
        raise InvalidRequest(f"{field}: is missing, and the type json_schema needs it", field)
    else:
        yield ConstraintSource("response_format.json_schema.schema", "json", response_format.json_schema.schema)


def read_guided_fields(body: GenerationBody) -> Iterator[ConstraintSource]:
    if body.guided_json is not None:
        yield ConstraintSource("guided_json", "json", body.guided_json, body.guided_whitespace_pattern)
    if body.guided_regex is not None:
        yield ConstraintSource("guided_regex", "regex", body.guided_regex)
    if body.guided_choice is not None:
        yield ConstraintSource("guided_choice", "choice", body.guided_choice)
    if body.guided_grammar is not None:
        yield ConstraintSource("guided_grammar", "grammar", body.guided_grammar)
    if body.structural_tag is not None:
        yield ConstraintSource("structural_tag", "tags", body.structural_tag)


def read_structured_outputs(outputs: StructuredOutputs) -> Iterator[ConstraintSource]:
    if outputs.json is not None:
        yield ConstraintSource("structured_outputs.json", "json", outputs.json, outputs.whitespace_pattern)
    if outputs.json_object:
        yield ConstraintSource("structured_outputs.json_object", "json", {"type": "object"}, outputs.whitespace_pattern)
    if outputs.regex is not None:
        yield ConstraintSource("structured_outputs.regex", "regex", outputs.regex)
    if outputs.choice is not None:
        yield ConstraintSource("structured_outputs.choice", "choice", outputs.choice)
    if outputs.grammar is not None:
        yield ConstraintSource("structured_outputs.grammar", "grammar", outputs.grammar)
    if outputs.structural_tag is not None:
        yield ConstraintSource("structured_outputs.structural_tag", "tags", outputs.structural_tag)


def compile_schema(source: ConstraintSource) -> Constraint:
    """Compiles a schema, which is an object or text.

    Without a whitespace pattern no whitespace is allowed: a random walk would write too much of it.
    """
    schema: Any = {} if source.source is True else source.source
    text = check_source(source, schema if isinstance(schema, str) else msgspec.json.encode(schema).decode())
    try:
        grammar = schema_grammar(text, source.whitespace)
    except ValueError as fault:
        raise InvalidConstraint(f"{source.field}: not a JSON schema: {fault}", source.field) from fault
    patterns = "|".join(quoted_strings(text, prefix='"pattern":')).replace("\\\\", "\\")
    return Constraint(
        source.field,
        grammar=grammar,
        is_json=source.whitespace is None,
        closers=example_endings(patterns),
        approximate=partial(approximate_schema, text, source.whitespace),
    )


def approximate_schema(text: str, whitespace: str | None) -> Approximation | None:
    try:
        check = build_check(text)
        grammar = schema_grammar(rewrite_schema(text), whitespace, is_approximate=True)
    except (msgspec.DecodeError, RecursionError):
        return None
    return Approximation(grammar, check) if check else None


def schema_grammar(text: str, whitespace: str | None, *, is_approximate: bool = False) -> str:
    """The grammar of a schema.

    Where it `is_approximate`, it is without the keywords that llguidance does not know, and has `oneOf` as `anyOf`.
    """
    if whitespace is None:
        return LLMatcher.grammar_from_json_schema(
            text, overrides={"whitespace_flexible": False, "lenient": is_approximate, "coerce_one_of": is_approximate}
        )
    return LLMatcher.grammar_from_json_schema(
        text, overrides={"whitespace_pattern": whitespace, "lenient": is_approximate, "coerce_one_of": is_approximate}
    )


def compile_grammar(source: ConstraintSource) -> Constraint:
    """Compiles a grammar, which is Lark if it has a `start:` rule or %llguidance, and GBNF otherwise."""
    text = check_source(source, source.source)
    try:
        return Constraint(source.field, grammar=grammar_from("grammar", text), closers=quoted_strings(text))
    except ValueError as fault:
        raise InvalidConstraint(f"{source.field}: {fault}", source.field) from fault


def compile_tags(source: ConstraintSource) -> Constraint:
    if isinstance(source.source, str):
        check_source(source, source.source)
    try:
        tags = tags_to_lark(source.source)
    except (ValueError, RecursionError) as fault:
        raise InvalidConstraint(f"{source.field}: {fault}", source.field) from fault
    lark = check_source(source, tags.lark)
    return Constraint(source.field, grammar=LLMatcher.grammar_from_lark(lark), openers=tags.openers, closers=tags.closers)


def check_source(source: ConstraintSource, text: str) -> str:
    if not text:
        raise InvalidConstraint(f"{source.field}: is empty.", source.field)
    check_length(source, len(text))
    return text


def check_length(source: ConstraintSource, characters: int) -> None:
    if characters > MAX_SOURCE_CHARS:
        raise InvalidConstraint(f"{source.field}: has {characters} characters; the sandbox takes {MAX_SOURCE_CHARS}.", source.field)
