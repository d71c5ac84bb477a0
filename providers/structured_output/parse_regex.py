"""Parses a regex: only the syntax that means the same to every engine, the rest is refused.

Engines match a regex against the complete answer, so anchors at its ends are redundant, and lazy repetition matches the same as greedy.
"""

import re

from providers.canonical.errors import Unsupported
from providers.structured_output.regex_ast import (
    MAX_CODE_POINT,
    SURROGATES,
    Alternatives,
    Anchor,
    Characters,
    Node,
    Ranges,
    Repeat,
    complement,
    merge_ranges,
    sequence,
    strip_anchors,
)

_MAX_CHARACTERS = 65_536
_MAX_DEPTH = 100
_ESCAPES = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}
_DIGITS: Ranges = ((48, 57),)
_WORD_CHARACTERS: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_WHITESPACE: Ranges = ((9, 13), (32, 32))
_CLASSES = {"d": _DIGITS, "w": _WORD_CHARACTERS, "s": _WHITESPACE}
_COUNT = re.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}", re.ASCII)
_GROUP = re.compile(r"\?(:|P?<[A-Za-z_]\w*>)", re.ASCII)
_CODE = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|[xu]\{([0-9a-fA-F]{1,6})\}")
_PUNCTUATION = frozenset("\\.+*?()|[]{}^$-#&~/ \"'`!@%=:;,<>_")


def parse_regex(pattern: str) -> Node:
    """The tree without anchors. Raises Unsupported for syntax that some engine lacks or interprets differently."""
    return strip_anchors(parse_anchored_regex(pattern))


def parse_anchored_regex(pattern: str) -> Node:
    """The tree with its anchors. Raises Unsupported."""
    if len(pattern) > _MAX_CHARACTERS:
        raise Unsupported(f"the regex has {len(pattern)} characters; at most {_MAX_CHARACTERS} can be converted.")
    parser = _Parser(pattern)
    node = parser.parse_alternatives(0)
    if parser.position < len(pattern):
        raise parser.error("an unmatched `)`")
    return node


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.position = 0

    def error(self, problem: str) -> Unsupported:
        return Unsupported(f"the regex has {problem} (at character {self.position}), which engines interpret differently.")

    def parse_alternatives(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise self.error(f"groups more than {_MAX_DEPTH} deep")
        options = [self._parse_sequence(depth)]
        while self._take_if("|"):
            options.append(self._parse_sequence(depth))
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _parse_sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.position < len(self._pattern) and self._pattern[self.position] not in "|)":
            parts.append(self._parse_repetition(self._parse_atom(depth)))
        return sequence(*parts)

    def _parse_repetition(self, part: Node) -> Node:
        min_count, max_count = 1, 1
        if self._take_if("*"):
            min_count, max_count = 0, None
        elif self._take_if("+"):
            max_count = None
        elif self._take_if("?"):
            min_count = 0
        elif found := _COUNT.match(self._pattern, self.position):
            self.position = found.end()
            min_count = int(found[1])
            max_count = min_count if found[2] is None else int(found[3]) if found[3] else None
            if max_count is not None and max_count < min_count:
                raise self.error("a repetition whose maximum is below its minimum")
        else:
            return part
        if isinstance(part, Anchor):
            raise self.error("a repeated anchor")
        self._take_if("?")  # lazy: changes the order of the matches, not the set
        if self.position < len(self._pattern) and self._pattern[self.position] in "*+?{":
            raise self.error("a repetition of a repetition, or a possessive one")
        return Repeat(part, min_count, max_count)

    def _parse_atom(self, depth: int) -> Node:
        character = self._take_next()
        match character:
            case "(":
                return self._parse_group(depth)
            case "[":
                return self._parse_class()
            case ".":
                return Characters(complement(((10, 10),)))
            case "^" | "$":
                return Anchor(character)
            case "\\":
                return Characters(self._parse_escape())
            case "*" | "+" | "?" | "{":
                raise self.error(f"a `{character}` with nothing before it")
            case _:
                return Characters(((ord(character), ord(character)),))

    def _parse_group(self, depth: int) -> Node:
        if self._pattern.startswith("?", self.position):
            found = _GROUP.match(self._pattern, self.position)
            if found is None:
                raise self.error("look-around, flags, or another special group")
            self.position = found.end()
        node = self.parse_alternatives(depth + 1)
        if not self._take_if(")"):
            raise self.error("a group that is not closed")
        return node

    def _parse_class(self) -> Node:
        negated = self._take_if("^")
        ranges: list[tuple[int, int]] = []
        while not self._take_if("]"):
            for operator in ("&&", "--", "~~", "["):
                if self._pattern.startswith(operator, self.position):
                    raise self.error(f"`{operator}` within a class")
            low = self._parse_class_member()
            if self._pattern.startswith("-", self.position) and not self._pattern.startswith("-]", self.position):
                self.position += 1
                begin, end = self._single_code_point(low), self._single_code_point(self._parse_class_member())
                if begin > end:
                    raise self.error("a range that ends before it begins")
                low = ((begin, end),)
            ranges.extend(low)
        result = complement(tuple(ranges)) if negated else merge_ranges(*ranges)
        if not result or not ranges:
            raise self.error("an empty class")
        return Characters(result)

    def _parse_class_member(self) -> Ranges:
        character = self._take_next()
        return self._parse_escape() if character == "\\" else ((ord(character), ord(character)),)

    def _single_code_point(self, member: Ranges) -> int:
        """The code point of a single character; a set such as \\d cannot be the end of a range."""
        for low, high in member:
            if low == high and len(member) == 1:
                return low
        raise self.error("a range between sets")

    def _parse_escape(self) -> Ranges:
        """The characters of an escape. \\d, \\w and \\s are ASCII: for other characters engines differ."""
        found = _CODE.match(self._pattern, self.position)
        if found is not None:
            self.position = found.end()
            code_point = int(next(filter(None, found.groups())), 16)
            if code_point > MAX_CODE_POINT or SURROGATES[0] <= code_point <= SURROGATES[1]:
                raise self.error("an invalid code point")
            return ((code_point, code_point),)
        character = self._take_next()
        if character in _ESCAPES:
            return ((_ESCAPES[character], _ESCAPES[character]),)
        if character.lower() in _CLASSES:
            ranges = _CLASSES[character.lower()]
            return ranges if character.islower() else complement(ranges)
        if character in _PUNCTUATION:
            return ((ord(character), ord(character)),)
        raise self.error(f"`\\{character}`")

    def _take_if(self, wanted: str) -> bool:
        if self._pattern.startswith(wanted, self.position):
            self.position += len(wanted)
            return True
        return False

    def _take_next(self) -> str:
        if self.position >= len(self._pattern):
            raise self.error("an unexpected end")
        self.position += 1
        return self._pattern[self.position - 1]
