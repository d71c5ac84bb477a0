"""Masking: keeps a body as it is, but for what the rules of its team find in its texts.

The texts of a body are masked one by one, those of a stream as its reader puts them together: what is split across frames is found, too.
What has nothing to mask stays as it is, byte for byte.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from app.domain.callers import MaskConfig
from app.recording.content.detectors import FINDERS
from app.recording.content.redaction import STRUCTURE_KEYS, STRUCTURE_LIST_KEYS, VERBATIM_KEYS
from app.store.keys.mask_rules import Pattern

Path: TypeAlias = tuple[Any, ...]
# Gets each text of a document with its place; returns what to put there, the same object to leave it.
VisitText: TypeAlias = Callable[[str, Path], str]
# The same for the name of a field.
VisitName: TypeAlias = Callable[[str], str]

DECODING_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)

_LARGE_BYTES = 256 * 1024
_LIST_BYTES = 32 * 1024
_SHORTEST_MATCH = 6  # of the built-in detectors
# Most short texts are words and fields' names, in which no detector can find anything.
_SHORT_BYTES = 256
_may_match = re.compile(
    rb"[0-9@]|-----|[spr]k[-_]|gh[oprsu]_|github_pat_|glpat-|xox|AKIA|ASIA|AIza|hf_|gsk_|xai-|nx[scb]?-|SG\.|eyJ"
).search
_NUMBERS = frozenset({int, float})
_MIN_NUMBER = 1_000_000  # a smaller one is no phone number, and most are token ids
# What tells apart texts with the same path: of several choices, content blocks, calls.
_POSITIONS = ("type", "index", "output_index", "content_index", "summary_index")
_MAX_CLEAN_NAMES = 10_000
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.:/-]{1,100}")

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Found(NamedTuple):
    """A place in a text that must not be recorded, and the name of its rule."""

    begin: int
    end: int
    rule: str


class MaskRules:
    """The rules of a team. `config` holds them as JSON."""

    def __init__(self, config: MaskConfig) -> None:
        self.config = msgspec.json.encode(config)
        self._patterns = [(name, Pattern(pattern).find_all) for name, pattern in config.patterns.items()]
        self._detectors = [(name, find) for name, find in FINDERS.items() if name in config.detectors]
        self._clean_names: set[str] = set()  # most bodies have the same fields

    def find(self, text: bytes) -> list[Found]:
        """Returns what the rules find in a text in UTF-8, in the order of the text.

        Matches that overlap are one match, of the rule that begins first.
        """
        found = [Found(begin, end, name) for name, find in self._patterns for begin, end in find(text)] if self._patterns else []
        if len(text) >= _SHORTEST_MATCH and (len(text) > _SHORT_BYTES or _may_match(text)):
            found += [Found(begin, end, name) for name, find in self._detectors for begin, end in find(text)]
        return join_overlapping(found) if len(found) > 1 else found

    def mask(self, text: str) -> str:
        """Returns the text with a marker in place of each match, or the same object if nothing was found."""
        encoded = text.encode("utf-8", "surrogatepass")
        found = self.find(encoded)
        if not found:
            return text
        pieces: list[bytes] = []
        end = 0
        for each in found:
            pieces += (encoded[end : each.begin], marker(each.rule))
            end = each.end
        return b"".join((*pieces, encoded[end:])).decode("utf-8", "replace")

    def mask_name(self, name: str) -> str:
        """Returns the name of a field, masked as mask() does it."""
        if name in self._clean_names:
            return name
        masked = self.mask(name)
        if masked is name and len(name) <= _SHORT_BYTES and len(self._clean_names) < _MAX_CLEAN_NAMES:
            self._clean_names.add(name)
        return masked


@lru_cache(256)
def _compile(config: bytes) -> MaskRules:
    return MaskRules(msgspec.json.decode(config, type=MaskConfig))


def compile_rules(config: MaskConfig) -> MaskRules:
    """The rules of a team; compiled once."""
    return _compile(msgspec.json.encode(config))


def marker(rule: str) -> bytes:
    return b"[masked: %s]" % rule.encode()


def join_overlapping(found: list[Found]) -> list[Found]:
    joined: list[Found] = []
    for each in sorted(found, key=lambda each: (each.begin, -each.end)):
        if joined and each.begin < joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, each.end))
        else:
            joined.append(each)
    return joined


def mask_json(data: bytes, rules: MaskRules) -> bytes:
    """Returns a JSON body without what the rules find in it. One that is not JSON is withheld completely."""
    if not data:
        return data
    try:
        if len(data) > _LARGE_BYTES and data.lstrip()[:1] == b"{":
            return _mask_large_object(data, rules)
        return _mask_document(data, rules)
    except DECODING_ERRORS:
        return b"[withheld: %d bytes]" % len(data)


def rewrite(value: Any, visit: VisitText, visit_name: VisitName) -> Any:
    """Returns a document of a wire format with its texts and names as the visitors return them.

    Returns the same object if the visitors leave all of them. Identifiers of the wire format (VERBATIM_KEYS)
    are not visited, and neither are numbers, except large integers within content.
    """
    return _Rewriting(visit, visit_name).rewrite(value, (), True)


def rewrite_content(value: Any, rules: MaskRules) -> Any:
    """Returns a JSON value, all of which is content, without what the rules find in its texts, names and
    large integers.
    """

    def visit(text: str, _: Path) -> str:
        return rules.mask(text)

    return _Rewriting(visit, rules.mask_name).rewrite(value, (), False)


def _mask_large_object(data: bytes, rules: MaskRules) -> bytes:
    """Masks an object as any other, but member by member and some items of a list at a time.

    During one call into C, however long it takes, no other thread runs.
    """
    masked: dict[str, bytes] = {}
    for key, raw in _decode_object(data).items():
        text = bytes(raw)
        if text[:1] == b"[" and (key in STRUCTURE_KEYS or key in STRUCTURE_LIST_KEYS):
            masked[key] = b"[" + b",".join([_mask_document(items, rules)[1:-1] for items in _short_lists(_decode_list(text))]) + b"]"
        else:
            name, value = _mask_member(key, text, rules)
            masked[name] = value
    return b"{" + b",".join([msgspec.json.encode(key) + b":" + value for key, value in masked.items()]) + b"}"


def _short_lists(items: list[msgspec.Raw]) -> Iterator[bytes]:
    """Yields lists of as many items as fit into _LIST_BYTES, or of a single item that is larger."""
    short: list[bytes] = []
    size_bytes = 0
    for item in map(bytes, items):
        if short and size_bytes + len(item) > _LIST_BYTES:
            yield b"[" + b",".join(short) + b"]"
            short, size_bytes = [], 0
        short.append(item)
        size_bytes += len(item)
    if short:
        yield b"[" + b",".join(short) + b"]"


def _mask_document(data: bytes, rules: MaskRules) -> bytes:
    value = msgspec.json.decode(data)
    masked = rewrite(value, lambda text, _: rules.mask(text), rules.mask_name)
    return data if masked is value else msgspec.json.encode(masked)


def _mask_member(key: str, data: bytes, rules: MaskRules) -> tuple[str, bytes]:
    value = {key: msgspec.json.decode(data)}
    ((name, masked),) = rewrite(value, lambda text, _: rules.mask(text), rules.mask_name).items()
    return name, data if masked is value[key] else msgspec.json.encode(masked)


class _Rewriting(NamedTuple):
    visit: VisitText
    visit_name: VisitName

    def rewrite(self, value: Any, path: Path, is_structure: bool) -> Any:
        match value:
            case str():
                return self.visit(value, path)
            case dict():
                return self._rewrite_object(cast("dict[str, Any]", value), path, is_structure)
            case list():
                items = cast("list[Any]", value)
                # A table of numbers costs what it takes to look at their types.
                if _NUMBERS.issuperset(map(type, items)) and (is_structure or not items or max(items) < _MIN_NUMBER):
                    return items
                rewritten = [self.rewrite(each, path, is_structure) for each in items]
                return items if all(map(_is, items, rewritten)) else rewritten
            case int() if not is_structure and value >= _MIN_NUMBER:
                digits = str(value)
                visited = self.visit(digits, path)
                return value if visited is digits else visited
            case _:
                return value

    def _rewrite_object(self, fields: dict[str, Any], path: Path, is_structure: bool) -> dict[str, Any]:
        place = (*path, *[position for name in _POSITIONS if name in fields and _is_position(position := fields[name])])
        rewritten: dict[str, Any] = {}
        is_same = True
        for key, value in fields.items():
            if is_structure and (isinstance(value, (int, float)) or _is_identifier(key, value)):
                rewritten[key] = value
                continue
            is_inner_structure = is_structure and (key in STRUCTURE_KEYS or (key in STRUCTURE_LIST_KEYS and isinstance(value, list)))
            name, new_value = self.visit_name(key), self.rewrite(value, (*place, key), is_inner_structure)
            is_same = is_same and name is key and new_value is value
            rewritten[name] = new_value
        return fields if is_same else rewritten


def _is_position(value: Any) -> bool:
    return type(value) is str or (type(value) is int and value.bit_length() < 63)


def _is_identifier(key: str, value: Any) -> bool:
    return key in VERBATIM_KEYS and isinstance(value, str) and _IDENTIFIER.fullmatch(value) is not None


def _is(one: Any, other: Any) -> bool:
    return one is other
