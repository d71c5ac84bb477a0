"""Structural tags: text with structured parts, in the two forms of engines, converted to one Lark grammar.

The older form lists `structures` and `triggers`; the newer one is a tree under `format`. A tag without an exact grammar is refused.
"""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from llguidance import regex_to_lark
from msgspec import Meta, Struct

ANY_TEXT_REGEX = r"/(.|\n)*/"


@dataclass(frozen=True, slots=True)
class TagGrammar:
    """The grammar, and the texts that begin and end its tags."""

    lark: str
    openers: tuple[str, ...]
    closers: tuple[str, ...]


class ConstString(Struct, tag="const_string", tag_field="type"):
    value: Annotated[str, Meta(min_length=1)]


class Schema(Struct, tag="json_schema", tag_field="type"):
    json_schema: dict[str, Any]


class Pattern(Struct, tag="regex", tag_field="type"):
    pattern: str


class AnyText(Struct, tag="any_text", tag_field="type"):
    pass


class Sequence(Struct, tag="sequence", tag_field="type"):
    elements: "Annotated[list[Node], Meta(min_length=1)]"


class Or(Struct, tag="or", tag_field="type"):
    elements: "Annotated[list[Node], Meta(min_length=1)]"


class Tag(Struct, tag="tag", tag_field="type"):
    begin: Annotated[str, Meta(min_length=1)]
    content: "Node"
    end: str


class BareTag(Struct):
    begin: Annotated[str, Meta(min_length=1)]
    content: "Node"
    end: str
    type: Literal["tag"] = "tag"


class TriggeredTags(Struct, tag="triggered_tags", tag_field="type"):
    triggers: Annotated[list[str], Meta(min_length=1)]
    tags: Annotated[list[BareTag], Meta(min_length=1)]
    at_least_one: bool = False
    stop_after_first: bool = False


class SeparatedTags(Struct, tag="tags_with_separator", tag_field="type"):
    tags: Annotated[list[BareTag], Meta(min_length=1)]
    separator: str
    at_least_one: bool = False
    stop_after_first: bool = False


Node = ConstString | Schema | Pattern | AnyText | Sequence | Or | Tag | TriggeredTags | SeparatedTags


class Structure(Struct):
    begin: Annotated[str, Meta(min_length=1)]
    end: str
    schema: dict[str, Any] = {}


class StructuralTag(Struct):
    format: Node | None = None
    structures: list[Structure] | None = None
    triggers: list[str] | None = None


def tags_to_lark(tag: str | dict[str, Any], *, allows_whitespace: bool = False) -> TagGrammar:
    """Writes a grammar for a structural tag. Raises ValueError (as msgspec's errors are) for a tag that is invalid or cannot be expressed.

    With `allows_whitespace`, JSON in the tags may contain white space.
    """
    parsed = msgspec.json.decode(tag, type=StructuralTag) if isinstance(tag, str) else msgspec.convert(tag, StructuralTag)
    if parsed.format is not None:
        node = parsed.format
    elif parsed.structures and parsed.triggers:
        tags = [BareTag(structure.begin, Schema(structure.schema), structure.end) for structure in parsed.structures]
        node = TriggeredTags(parsed.triggers, tags)
    else:
        raise ValueError("a structural tag has either a `format`, or `structures` and `triggers`")
    writer = _LarkWriter(allows_whitespace)
    start = writer.write(node, is_last=True)
    rules = "\n".join(writer.rules)
    return TagGrammar(
        f"%llguidance {{}}\nstart: {start}\nTAG_TEXT: {ANY_TEXT_REGEX}\n{rules}\n", tuple(writer.openers), tuple(writer.closers)
    )


class _LarkWriter:
    """Writes each node as one Lark expression; additional rules go into `rules`."""

    def __init__(self, allows_whitespace: bool) -> None:
        self._allows_whitespace = allows_whitespace
        self.rules: list[str] = []
        self.openers: list[str] = []
        self.closers: list[str] = []

    def write(self, node: Node, *, is_last: bool) -> str:
        match node:
            case ConstString():
                return literal(node.value)
            case Schema():
                return inline_schema(node.json_schema, self._allows_whitespace)
            case Pattern():
                return f"/{regex_to_lark(node.pattern)}/"
            case AnyText():
                if not is_last:
                    raise ValueError(
                        "any_text must be the content of a tag with an end, or come last: here it is ambiguous with what follows"
                    )
                return "TAG_TEXT"
            case Sequence():
                last = len(node.elements) - 1
                return " ".join(self.write(each, is_last=is_last and index == last) for index, each in enumerate(node.elements))
            case Or():
                return "(" + " | ".join(self.write(each, is_last=is_last) for each in node.elements) + ")"
            case Tag():
                return f"{literal(node.begin)} {self.write_content(node.content, node.end, is_last=is_last)}"
            case TriggeredTags():
                return self.write_triggered_tags(node, is_last=is_last)
            case SeparatedTags():
                return self.write_separated_tags(node, is_last=is_last)

    def write_content(self, content: Node, end: str, *, is_last: bool) -> str:
        """The content and the end. Text before an end is lazy: it stops at the first end."""
        if isinstance(content, AnyText) and end:
            self.closers.append(end)
            return self.add_rule(f"TAG_TEXT {literal(end)}", lazy=True)
        return f"{self.write(content, is_last=is_last and not end)} {literal(end)}".rstrip()

    def write_triggered_tags(self, node: TriggeredTags, *, is_last: bool) -> str:
        if not is_last:
            raise ValueError("triggered_tags must come last: text may follow them")
        tags: list[str] = []
        for tag in node.tags:
            trigger = next((each for each in node.triggers if each and tag.begin.startswith(each)), None)
            if trigger is None:
                raise ValueError(f"no trigger begins {tag.begin!r}; there are {node.triggers}")
            opening = self.add_rule(f"TAG_TEXT {literal(trigger)}", lazy=True)
            remainder = tag.begin[len(trigger) :]
            tags.append(self.add_rule(f"{opening} {literal(remainder)} {self.write_content(tag.content, tag.end, is_last=False)}"))
            self.openers.append(tag.begin)
        any_tag = "(" + " | ".join(tags) + ")"
        if node.stop_after_first:
            return any_tag if node.at_least_one else f"({any_tag} | TAG_TEXT)"
        return f"{any_tag}{'+' if node.at_least_one else '*'} TAG_TEXT"

    def write_separated_tags(self, node: SeparatedTags, *, is_last: bool) -> str:
        bodies = [f"{literal(tag.begin)} {self.write_content(tag.content, tag.end, is_last=False)}" for tag in node.tags]
        any_tag = "(" + " | ".join(self.add_rule(body) for body in bodies) + ")"
        repeated = any_tag if node.stop_after_first else f"{any_tag} ({literal(node.separator)} {any_tag})*"
        return repeated if node.at_least_one else f"({repeated})?"

    def add_rule(self, expression: str, *, lazy: bool = False) -> str:
        name = f"part_{len(self.rules)}"
        self.rules.append(f"{name}{'[lazy]' if lazy else ''}: {expression}")
        return name


def literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text else ""


def inline_schema(schema: dict[str, Any], allows_whitespace: bool) -> str:
    return "%json " + json.dumps({**schema, "x-guidance": {"whitespace_flexible": allows_whitespace}}, ensure_ascii=False)
