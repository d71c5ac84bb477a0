"""Constraints: from the many words that callers have for guided decoding to one grammar that llguidance can walk."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, assert_never

import msgspec
from llguidance import LLMatcher, grammar_from

from app.local.sandbox.bodies import Generation, ResponseFormat, StructuredOutputs
from app.local.sandbox.errors import Malformed, Unfit
from app.local.sandbox.hints import endings_of, quoted_in
from providers.guided.tags import read_tags

LONGEST_SOURCE = 262_144
"""Characters of a schema, regex or grammar. GBNF is translated in Python, in time that grows with its length."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What an answer must obey: one of some texts, or a grammar.

    `openers` and `closers` are hints for a random walk: what begins and what ends the parts that it would not stumble into or out of.
    """

    field: str
    choices: tuple[str, ...] = ()
    grammar: str = ""
    is_json: bool = False
    openers: tuple[str, ...] = ()
    closers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """A constraint as the caller put it, in the field that he put it in."""

    field: str
    kind: Literal["json", "regex", "choice", "grammar", "tags"]
    source: Any
    whitespace: str | None = None

    def compile(self) -> Constraint:
        """Takes time, so not for the event loop. Raises Unfit; what only llguidance can tell is told when a walk begins."""
        match self.kind:
            case "json":
                return compile_schema(self)
            case "regex":
                return Constraint(
                    self.field, grammar=LLMatcher.grammar_from_regex(checked(self, self.source)), closers=endings_of(self.source)
                )
            case "choice":
                if not self.source:
                    raise Unfit(f"{self.field}: there is nothing to choose from.", self.field)
                return Constraint(self.field, choices=tuple(self.source))
            case "grammar":
                return compile_grammar(self)
            case "tags":
                return compile_tags(self)
            case _:
                assert_never(self.kind)


def read_constraint(body: Generation) -> Recipe | None:
    """The one constraint of a request, or None. Raises Unfit if two are given: an engine that picked one would hide the other."""
    nested = body.structured_outputs or StructuredOutputs()
    said = [*from_format(body.response_format), *from_guided(body), *from_structured(nested)]
    if len(said) > 1:
        names = ", ".join(recipe.field for recipe in said)
        raise Unfit(f"Only one constraint can hold, and this request has {len(said)}: {names}.", said[1].field)
    for field, pattern in (
        ("guided_whitespace_pattern", body.guided_whitespace_pattern),
        ("structured_outputs.whitespace_pattern", nested.whitespace_pattern),
    ):
        if pattern is not None and not any(recipe.kind == "json" for recipe in said):
            raise Unfit(f"{field} says how JSON may be spaced, and no JSON is asked for.", field)
    return said[0] if said else None


def from_format(wanted: ResponseFormat | None) -> Iterator[Recipe]:
    if wanted is None or wanted.type == "text":
        return
    if wanted.type == "json_object":
        yield Recipe("response_format", "json", {"type": "object"})
    elif wanted.type == "structural_tag":
        tag = {"format": wanted.format, "structures": wanted.structures, "triggers": wanted.triggers}
        yield Recipe("response_format", "tags", {key: part for key, part in tag.items() if part is not None})
    elif wanted.json_schema is None or wanted.json_schema.schema is None:
        field = "response_format.json_schema.schema"
        raise Malformed(f"{field}: is missing, and the type json_schema needs it", field)
    else:
        yield Recipe("response_format.json_schema.schema", "json", wanted.json_schema.schema)


def from_guided(body: Generation) -> Iterator[Recipe]:
    if body.guided_json is not None:
        yield Recipe("guided_json", "json", body.guided_json, body.guided_whitespace_pattern)
    if body.guided_regex is not None:
        yield Recipe("guided_regex", "regex", body.guided_regex)
    if body.guided_choice is not None:
        yield Recipe("guided_choice", "choice", body.guided_choice)
    if body.guided_grammar is not None:
        yield Recipe("guided_grammar", "grammar", body.guided_grammar)
    if body.structural_tag is not None:
        yield Recipe("structural_tag", "tags", body.structural_tag)


def from_structured(wanted: StructuredOutputs) -> Iterator[Recipe]:
    if wanted.json is not None:
        yield Recipe("structured_outputs.json", "json", wanted.json, wanted.whitespace_pattern)
    if wanted.json_object:
        yield Recipe("structured_outputs.json_object", "json", {"type": "object"}, wanted.whitespace_pattern)
    if wanted.regex is not None:
        yield Recipe("structured_outputs.regex", "regex", wanted.regex)
    if wanted.choice is not None:
        yield Recipe("structured_outputs.choice", "choice", wanted.choice)
    if wanted.grammar is not None:
        yield Recipe("structured_outputs.grammar", "grammar", wanted.grammar)
    if wanted.structural_tag is not None:
        yield Recipe("structured_outputs.structural_tag", "tags", wanted.structural_tag)


def compile_schema(recipe: Recipe) -> Constraint:
    """A schema as an object or as its text. Without a pattern of the caller's there is no whitespace: a random walk would revel in it."""
    schema: Any = {} if recipe.source is True else recipe.source
    text = checked(recipe, schema if isinstance(schema, str) else msgspec.json.encode(schema).decode())
    try:
        if recipe.whitespace is None:
            grammar = LLMatcher.grammar_from_json_schema(text, overrides={"whitespace_flexible": False})
        else:
            grammar = LLMatcher.grammar_from_json_schema(text, overrides={"whitespace_pattern": recipe.whitespace})
    except ValueError as fault:
        raise Unfit(f"{recipe.field}: not a JSON schema: {fault}", recipe.field) from fault
    patterns = "|".join(quoted_in(text, after='"pattern":')).replace("\\\\", "\\")
    return Constraint(recipe.field, grammar=grammar, is_json=recipe.whitespace is None, closers=endings_of(patterns))


def compile_grammar(recipe: Recipe) -> Constraint:
    """Lark if it has a `start:` rule or says %llguidance, else GBNF."""
    text = checked(recipe, recipe.source)
    try:
        return Constraint(recipe.field, grammar=grammar_from("grammar", text), closers=quoted_in(text))
    except ValueError as fault:
        raise Unfit(f"{recipe.field}: {fault}", recipe.field) from fault


def compile_tags(recipe: Recipe) -> Constraint:
    if isinstance(recipe.source, str):
        checked(recipe, recipe.source)
    try:
        tags = read_tags(recipe.source)
    except (ValueError, RecursionError) as fault:
        raise Unfit(f"{recipe.field}: {fault}", recipe.field) from fault
    lark = checked(recipe, tags.lark)
    return Constraint(recipe.field, grammar=LLMatcher.grammar_from_lark(lark), openers=tags.openers, closers=tags.closers)


def checked(recipe: Recipe, text: str) -> str:
    if not text:
        raise Unfit(f"{recipe.field}: is empty.", recipe.field)
    if len(text) > LONGEST_SOURCE:
        raise Unfit(f"{recipe.field}: has {len(text)} characters; the sandbox takes {LONGEST_SOURCE}.", recipe.field)
    return text
