"""Reading a regex: the part of the syntax that means the same to every engine, as a tree. The rest is refused, and never guessed at.

Engines match a regex against the whole answer, so anchors at its ends say nothing, and lazy repetition accepts what greedy does.
"""

import re

from msgspec import Struct

from providers.canonical.errors import Unsupported

Ranges = tuple[tuple[int, int], ...]
"""Characters by their code points, from and to, in order and apart."""

_MAX_CODE_POINT = 0x10FFFF
# Half of a surrogate pair is no character.
_SURROGATES = (0xD800, 0xDFFF)
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


class Characters(Struct, frozen=True):
    """One character out of these."""

    ranges: Ranges


class Sequence(Struct, frozen=True):
    parts: tuple["Node", ...]


class Alternatives(Struct, frozen=True):
    options: tuple["Node", ...]


class Repeat(Struct, frozen=True):
    """`most` None: any number."""

    part: "Node"
    min_count: int
    max_count: int | None


class Anchor(Struct, frozen=True):
    symbol: str


Node = Characters | Sequence | Alternatives | Repeat | Anchor

EMPTY = Sequence(())


def parse_regex(pattern: str) -> Node:
    """The tree without anchors. Raises Unsupported for what not every engine can do, or understands otherwise."""
    return strip_anchors(parse_anchored_regex(pattern))


def parse_anchored_regex(pattern: str) -> Node:
    """The tree with its anchors. Raises Unsupported."""
    if len(pattern) > _MAX_CHARACTERS:
        raise Unsupported(f"the regex has {len(pattern)} characters; {_MAX_CHARACTERS} can be converted.")
    parser = _Parser(pattern)
    node = parser.parse_alternatives(0)
    if parser.position < len(pattern):
        raise parser.error("a `)` that closes nothing")
    return node


def strip_anchors(node: Node, at_start: bool = True, at_end: bool = True) -> Node:
    """Without the anchors at the ends, which say nothing. Raises Unsupported for those elsewhere."""
    match node:
        case Anchor():
            if at_start if node.symbol == "^" else at_end:
                return EMPTY
            raise Unsupported(f"the regex has `{node.symbol}` in its middle.")
        case Sequence():
            last = len(node.parts) - 1
            while last > 0 and isinstance(node.parts[last], Anchor):
                last -= 1
            first = next((index for index, part in enumerate(node.parts) if not isinstance(part, Anchor)), 0)
            parts = (strip_anchors(part, at_start and at <= first, at_end and at >= last) for at, part in enumerate(node.parts))
            return sequence(*parts)
        case Alternatives():
            return Alternatives(tuple(strip_anchors(option, at_start, at_end) for option in node.options))
        case Repeat():
            return Repeat(strip_anchors(node.part, at_start=False, at_end=False), node.min_count, node.max_count)
        case Characters():
            return node


def sequence(*parts: Node) -> Node:
    """Flat, and a single part is itself."""
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Sequence) else (part,))
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def literal(value: str) -> Node:
    return sequence(*(Characters(((ord(character), ord(character)),)) for character in value))


def merge_ranges(*ranges: tuple[int, int]) -> Ranges:
    result: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], high))
        else:
            result.append((low, high))
    return tuple(result)


def complement(ranges: Ranges) -> Ranges:
    """All characters but these."""
    gaps: list[tuple[int, int]] = []
    begin = 0
    for low, high in merge_ranges(*ranges, _SURROGATES):
        if begin < low:
            gaps.append((begin, low - 1))
        begin = high + 1
    return (*gaps, (begin, _MAX_CODE_POINT)) if begin <= _MAX_CODE_POINT else tuple(gaps)


def can_be_empty(node: Node) -> bool:
    """Whether it may stand for no character at all."""
    match node:
        case Characters():
            return False
        case Sequence():
            return all(map(can_be_empty, node.parts))
        case Alternatives():
            return any(map(can_be_empty, node.options))
        case Repeat():
            return node.min_count == 0 or can_be_empty(node.part)
        case Anchor():
            return True


def is_json_whitespace(pattern: str) -> bool:
    """Whether it stands for JSON's white space alone. Raises Unsupported."""
    return _uses_only(parse_regex(pattern), frozenset(map(ord, " \t\n\r")))


def _uses_only(node: Node, code_points: frozenset[int]) -> bool:
    match node:
        case Characters():
            return all(high - low < len(code_points) and code_points.issuperset(range(low, high + 1)) for low, high in node.ranges)
        case Sequence():
            return all(_uses_only(part, code_points) for part in node.parts)
        case Alternatives():
            return all(_uses_only(option, code_points) for option in node.options)
        case Repeat():
            return _uses_only(node.part, code_points)
        case Anchor():
            return False


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.position = 0

    def error(self, problem: str) -> Unsupported:
        return Unsupported(f"the regex has {problem} (at character {self.position}): no two engines need understand that alike.")

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
                raise self.error("a repetition whose most is less than its least")
        else:
            return part
        if isinstance(part, Anchor):
            raise self.error("a repeated anchor")
        self._take_if("?")  # lazy: which of several answers is tried first, and not which there are
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
                raise self.error("look-around, flags, or another group that is more than a group")
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
            raise self.error("a class that no character is in")
        return Characters(result)

    def _parse_class_member(self) -> Ranges:
        character = self._take_next()
        return self._parse_escape() if character == "\\" else ((ord(character), ord(character)),)

    def _single_code_point(self, member: Ranges) -> int:
        """Of one character; a set such as \\d begins and ends no range."""
        for low, high in member:
            if low == high and len(member) == 1:
                return low
        raise self.error("a range between sets")

    def _parse_escape(self) -> Ranges:
        """Of \\d, \\w and \\s the ASCII characters: of the others engines have different lists, or none."""
        found = _CODE.match(self._pattern, self.position)
        if found is not None:
            self.position = found.end()
            code_point = int(next(filter(None, found.groups())), 16)
            if code_point > _MAX_CODE_POINT or _SURROGATES[0] <= code_point <= _SURROGATES[1]:
                raise self.error("a code that stands for no character")
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
            raise self.error("an end too early")
        self.position += 1
        return self._pattern[self.position - 1]
