"""Reading a regex: the part of the syntax that means the same to every engine, as a tree. The rest is refused, and never guessed at.

Engines match a regex against the whole answer, so anchors at its ends say nothing, and lazy repetition accepts what greedy does.
"""

import re

from msgspec import Struct

from providers.errors import Unsupported

Ranges = tuple[tuple[int, int], ...]
"""Characters by their code points, from and to, in order and apart."""

_LAST = 0x10FFFF
# Half of a surrogate pair is no character.
_HALVES = (0xD800, 0xDFFF)
_MOST_CHARACTERS = 65_536
_DEEPEST = 100
_ESCAPES = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}
_DIGITS: Ranges = ((48, 57),)
_WORDS: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACES: Ranges = ((9, 13), (32, 32))
_SETS = {"d": _DIGITS, "w": _WORDS, "s": _SPACES}
_COUNT = re.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}", re.ASCII)
_GROUP = re.compile(r"\?(:|P?<[A-Za-z_]\w*>)", re.ASCII)
_CODE = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|[xu]\{([0-9a-fA-F]{1,6})\}")
_PUNCTUATION = frozenset("\\.+*?()|[]{}^$-#&~/ \"'`!@%=:;,<>_")


class Characters(Struct, frozen=True):
    """One character out of these."""

    ranges: Ranges


class Sequence(Struct, frozen=True):
    parts: tuple["Node", ...]


class Either(Struct, frozen=True):
    options: tuple["Node", ...]


class Repeat(Struct, frozen=True):
    """`most` None: any number."""

    part: "Node"
    least: int
    most: int | None


class Anchor(Struct, frozen=True):
    sign: str


Node = Characters | Sequence | Either | Repeat | Anchor

NOTHING = Sequence(())


def read_pattern(pattern: str) -> Node:
    """The tree without anchors. Raises Unsupported for what not every engine can do, or understands otherwise."""
    return unanchored(read_anchored(pattern))


def read_anchored(pattern: str) -> Node:
    """The tree with its anchors. Raises Unsupported."""
    if len(pattern) > _MOST_CHARACTERS:
        raise Unsupported(f"the regex has {len(pattern)} characters; {_MOST_CHARACTERS} can be converted.")
    reader = _Reader(pattern)
    node = reader.either(0)
    if reader.at < len(pattern):
        raise reader.fault("a `)` that closes nothing")
    return node


def unanchored(node: Node, at_start: bool = True, at_end: bool = True) -> Node:
    """Without the anchors at the ends, which say nothing. Raises Unsupported for those elsewhere."""
    match node:
        case Anchor():
            if at_start if node.sign == "^" else at_end:
                return NOTHING
            raise Unsupported(f"the regex has `{node.sign}` in its middle.")
        case Sequence():
            last = len(node.parts) - 1
            while last > 0 and isinstance(node.parts[last], Anchor):
                last -= 1
            first = next((at for at, part in enumerate(node.parts) if not isinstance(part, Anchor)), 0)
            parts = (unanchored(part, at_start and at <= first, at_end and at >= last) for at, part in enumerate(node.parts))
            return sequence(*parts)
        case Either():
            return Either(tuple(unanchored(option, at_start, at_end) for option in node.options))
        case Repeat():
            return Repeat(unanchored(node.part, at_start=False, at_end=False), node.least, node.most)
        case Characters():
            return node


def sequence(*parts: Node) -> Node:
    """Flat, and a single part is itself."""
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Sequence) else (part,))
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def text(said: str) -> Node:
    return sequence(*(Characters(((ord(character), ord(character)),)) for character in said))


def merged(*ranges: tuple[int, int]) -> Ranges:
    told: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if told and low <= told[-1][1] + 1:
            told[-1] = (told[-1][0], max(told[-1][1], high))
        else:
            told.append((low, high))
    return tuple(told)


def others(ranges: Ranges) -> Ranges:
    """All characters but these."""
    left: list[tuple[int, int]] = []
    begin = 0
    for low, high in merged(*ranges, _HALVES):
        if begin < low:
            left.append((begin, low - 1))
        begin = high + 1
    return (*left, (begin, _LAST)) if begin <= _LAST else tuple(left)


def is_empty(node: Node) -> bool:
    """Whether it may stand for no character at all."""
    match node:
        case Characters():
            return False
        case Sequence():
            return all(map(is_empty, node.parts))
        case Either():
            return any(map(is_empty, node.options))
        case Repeat():
            return node.least == 0 or is_empty(node.part)
        case Anchor():
            return True


def is_spacing(pattern: str) -> bool:
    """Whether it stands for JSON's white space alone. Raises Unsupported."""
    return _is_of(read_pattern(pattern), frozenset(map(ord, " \t\n\r")))


def _is_of(node: Node, points: frozenset[int]) -> bool:
    match node:
        case Characters():
            return all(high - low < len(points) and points.issuperset(range(low, high + 1)) for low, high in node.ranges)
        case Sequence():
            return all(_is_of(part, points) for part in node.parts)
        case Either():
            return all(_is_of(option, points) for option in node.options)
        case Repeat():
            return _is_of(node.part, points)
        case Anchor():
            return False


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0

    def fault(self, what: str) -> Unsupported:
        return Unsupported(f"the regex has {what} (at character {self.at}): no two engines need understand that alike.")

    def either(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise self.fault(f"groups more than {_DEEPEST} deep")
        options = [self._sequence(depth)]
        while self._take("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Either(tuple(options))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.at < len(self._pattern) and self._pattern[self.at] not in "|)":
            parts.append(self._repeated(self._one(depth)))
        return sequence(*parts)

    def _repeated(self, part: Node) -> Node:
        least, most = 1, 1
        if self._take("*"):
            least, most = 0, None
        elif self._take("+"):
            most = None
        elif self._take("?"):
            least = 0
        elif found := _COUNT.match(self._pattern, self.at):
            self.at = found.end()
            least = int(found[1])
            most = least if found[2] is None else int(found[3]) if found[3] else None
            if most is not None and most < least:
                raise self.fault("a repetition whose most is less than its least")
        else:
            return part
        if isinstance(part, Anchor):
            raise self.fault("a repeated anchor")
        self._take("?")  # lazy: which of several answers is tried first, and not which there are
        if self.at < len(self._pattern) and self._pattern[self.at] in "*+?{":
            raise self.fault("a repetition of a repetition, or a possessive one")
        return Repeat(part, least, most)

    def _one(self, depth: int) -> Node:
        character = self._next()
        match character:
            case "(":
                return self._group(depth)
            case "[":
                return self._class()
            case ".":
                return Characters(others(((10, 10),)))
            case "^" | "$":
                return Anchor(character)
            case "\\":
                return Characters(self._escape())
            case "*" | "+" | "?" | "{":
                raise self.fault(f"a `{character}` with nothing before it")
            case _:
                return Characters(((ord(character), ord(character)),))

    def _group(self, depth: int) -> Node:
        if self._pattern.startswith("?", self.at):
            found = _GROUP.match(self._pattern, self.at)
            if found is None:
                raise self.fault("look-around, flags, or another group that is more than a group")
            self.at = found.end()
        node = self.either(depth + 1)
        if not self._take(")"):
            raise self.fault("a group that is not closed")
        return node

    def _class(self) -> Node:
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        while not self._take("]"):
            for two in ("&&", "--", "~~", "["):
                if self._pattern.startswith(two, self.at):
                    raise self.fault(f"`{two}` within a class")
            low = self._member()
            if self._pattern.startswith("-", self.at) and not self._pattern.startswith("-]", self.at):
                self.at += 1
                begin, end = self._point(low), self._point(self._member())
                if begin > end:
                    raise self.fault("a range that ends before it begins")
                low = ((begin, end),)
            ranges.extend(low)
        told = others(tuple(ranges)) if negated else merged(*ranges)
        if not told or not ranges:
            raise self.fault("a class that no character is in")
        return Characters(told)

    def _member(self) -> Ranges:
        character = self._next()
        return self._escape() if character == "\\" else ((ord(character), ord(character)),)

    def _point(self, member: Ranges) -> int:
        """Of one character; a set such as \\d begins and ends no range."""
        for low, high in member:
            if low == high and len(member) == 1:
                return low
        raise self.fault("a range between sets")

    def _escape(self) -> Ranges:
        """Of \\d, \\w and \\s the ASCII characters: of the others engines have different lists, or none."""
        found = _CODE.match(self._pattern, self.at)
        if found is not None:
            self.at = found.end()
            point = int(next(filter(None, found.groups())), 16)
            if point > _LAST or _HALVES[0] <= point <= _HALVES[1]:
                raise self.fault("a code that stands for no character")
            return ((point, point),)
        character = self._next()
        if character in _ESCAPES:
            return ((_ESCAPES[character], _ESCAPES[character]),)
        if character.lower() in _SETS:
            ranges = _SETS[character.lower()]
            return ranges if character.islower() else others(ranges)
        if character in _PUNCTUATION:
            return ((ord(character), ord(character)),)
        raise self.fault(f"`\\{character}`")

    def _take(self, wanted: str) -> bool:
        if self._pattern.startswith(wanted, self.at):
            self.at += len(wanted)
            return True
        return False

    def _next(self) -> str:
        if self.at >= len(self._pattern):
            raise self.fault("an end too early")
        self.at += 1
        return self._pattern[self.at - 1]
