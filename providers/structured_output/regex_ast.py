"""The tree of a regex, and what can be derived from it without knowing its syntax."""

from msgspec import Struct

from providers.canonical.errors import Unsupported

Ranges = tuple[tuple[int, int], ...]
"""Inclusive ranges of code points, sorted and disjoint."""

MAX_CODE_POINT = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)
"""Code points that are not characters."""


class Characters(Struct, frozen=True):
    """One character out of the ranges."""

    ranges: Ranges


class Sequence(Struct, frozen=True):
    parts: tuple["Node", ...]


class Alternatives(Struct, frozen=True):
    options: tuple["Node", ...]


class Repeat(Struct, frozen=True):
    """A part that is repeated."""

    part: "Node"
    min_count: int
    max_count: int | None  # None: unlimited


class Anchor(Struct, frozen=True):
    symbol: str


Node = Characters | Sequence | Alternatives | Repeat | Anchor

EMPTY = Sequence(())


def strip_anchors(node: Node, at_start: bool = True, at_end: bool = True) -> Node:
    """The tree without the redundant anchors at its ends. Raises Unsupported for anchors elsewhere."""
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
            parts = (strip_anchors(part, at_start and index <= first, at_end and index >= last) for index, part in enumerate(node.parts))
            return sequence(*parts)
        case Alternatives():
            return Alternatives(tuple(strip_anchors(option, at_start, at_end) for option in node.options))
        case Repeat():
            return Repeat(strip_anchors(node.part, at_start=False, at_end=False), node.min_count, node.max_count)
        case Characters():
            return node


def sequence(*parts: Node) -> Node:
    """A sequence without nested sequences; a single part is returned as it is."""
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Sequence) else (part,))
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def merge_ranges(*ranges: tuple[int, int]) -> Ranges:
    result: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], high))
        else:
            result.append((low, high))
    return tuple(result)


def complement(ranges: Ranges) -> Ranges:
    """All other characters."""
    gaps: list[tuple[int, int]] = []
    begin = 0
    for low, high in merge_ranges(*ranges, SURROGATES):
        if begin < low:
            gaps.append((begin, low - 1))
        begin = high + 1
    return (*gaps, (begin, MAX_CODE_POINT)) if begin <= MAX_CODE_POINT else tuple(gaps)


def can_be_empty(node: Node) -> bool:
    """Whether it matches the empty text."""
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
