"""Request size: caps on what the body of a large request consists of, counted before it is decoded.

Decoding and translating take time for each message, key and list, not for each byte. Small bodies cannot hold enough of them.
"""

import itertools
from dataclasses import fields
from typing import Any

import msgspec
from msgspec import Raw, Struct

from app.settings import Settings, environment_name
from providers.canonical.errors import InvalidRequest
from providers.canonical.outside_strings import SPLIT_BYTES, outside_strings
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.canonical.tags import MAX_TAGS, too_many_tags

# All bytes but those that make the structure of a JSON text.
_CONTENT = bytes(set(range(256)) - set(b'"{}[],:'))
_COLON = ord(":")
_LEVEL_CHANGES = {_COLON: 0, ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_SETTING_NAMES = {each.name: environment_name(each) for each in fields(Settings)}
_MESSAGE_FIELDS = ("messages", "input")
_TOOL_FIELDS = ("tools", "functions")
_TAG_FIELDS = ("metadata", "tensorzero::tags")
_MANY_KEYS = 10_000


class OverCap(InvalidRequest):
    """A refusal by a cap, which holds whatever API the body is of."""


class _Object(Struct):
    """Any object. Decoding stops at the first item that is none, however many follow."""


class _Message(Struct):
    content: Raw = Raw(b"null")


_messages_decoder = msgspec.json.Decoder(list[_Message])
_objects_decoder = msgspec.json.Decoder(list[_Object])


class RequestCaps(Struct, frozen=True):
    """The caps on a request, each of which is the setting of the same name."""

    max_messages: int
    max_content_parts: int
    max_tools: int
    max_fields: int
    max_keys: int
    max_values: int
    max_depth: int

    @classmethod
    def of(cls, settings: Settings) -> "RequestCaps":
        return cls(**{each: getattr(settings, each) for each in cls.__struct_fields__})

    def check(self, raw: bytes) -> None:
        """Raises OverCap, which names the cap. What is not JSON, or of wrong types, is left to the parser."""
        structure = self._check_values(raw)
        if len(structure) > min(self.max_depth, self.max_fields):
            self._check_levels(structure)
        has_many_objects = structure.count(b"{") > min(self.max_messages, self.max_content_parts, self.max_tools)
        has_many_keys = structure.count(b":") > _MANY_KEYS
        if has_many_objects or has_many_keys:
            try:
                body = Body.read(raw)
                _check_tags(body)
                if has_many_objects:
                    self._check_items(body)
            except DECODE_ERRORS:
                return

    def _check_values(self, raw: bytes) -> bytes:
        """Counts keys and values; returns the brackets and colons of the body."""
        pieces: list[bytes] = []
        keys = values = 0
        for piece in outside_strings(raw, _CONTENT):
            keys += piece.count(b":")
            values += piece.count(b",") + piece.count(b"[") + piece.count(b"{")
            if keys > self.max_keys:
                raise _over_cap("keys of objects", f"at least {keys}", "max_keys", self.max_keys)
            if values > self.max_values:
                raise _over_cap("values", f"at least {values}", "max_values", self.max_values)
            pieces.append(piece.translate(None, b","))
        return b"".join(pieces)

    def _check_levels(self, structure: bytes) -> None:
        level = fields = 0
        for position in range(0, len(structure), SPLIT_BYTES):
            step = structure[position : position + SPLIT_BYTES]
            levels = list(itertools.accumulate(map(_LEVEL_CHANGES.__getitem__, step), initial=level))
            if max(levels) > self.max_depth:
                raise _over_cap("levels of objects and lists", f"at least {max(levels)}", "max_depth", self.max_depth)
            if 1 in levels:
                fields += sum([mark == _COLON and at == 1 for mark, at in zip(step, levels, strict=False)])
                if fields > self.max_fields:
                    raise _over_cap("fields", f"at least {fields}", "max_fields", self.max_fields)
            level = levels[-1]

    def _check_items(self, body: Body) -> None:
        for field in _TOOL_FIELDS:
            if field in body:
                tools = len(_objects(body[field]))
                if tools > self.max_tools:
                    raise _over_cap(f"`{field}`", str(tools), "max_tools", self.max_tools, field)
        for field in _MESSAGE_FIELDS:
            if _is_list(body.get(field)):
                messages = _messages_decoder.decode(body[field])
                if len(messages) > self.max_messages:
                    raise _over_cap(f"`{field}`", str(len(messages)), "max_messages", self.max_messages, field)
                parts = sum([len(_objects(each.content)) for each in messages])
                if parts > self.max_content_parts:
                    raise _over_cap(f"content parts in `{field}`", str(parts), "max_content_parts", self.max_content_parts, field)


def _check_tags(body: Body) -> None:
    """More than are kept are refused in any case; but all are decoded before that, which takes 100 ms for 190,000."""
    for field in _TAG_FIELDS:
        value = bytes(body.get(field, b""))
        # Each tag is two strings, so it has four quotes besides those within.
        if value.count(b'"') - value.count(b'\\"') > 4 * MAX_TAGS:
            refusal = too_many_tags()
            raise OverCap(refusal.message, param=refusal.param)


def _objects(value: Any) -> list[_Object]:
    """The items of a list; empty for anything else. Raises msgspec.ValidationError if one of them is no object."""
    return _objects_decoder.decode(value) if _is_list(value) else []


def _is_list(value: Any) -> bool:
    return value is not None and bytes(memoryview(value)[:1]) == b"["


def _over_cap(what: str, found: str, setting: str, cap: int, param: str | None = None) -> OverCap:
    return OverCap(
        f"The request has {found} {what}; this gateway accepts at most {cap} in one request."
        f" Send fewer; its operator can set {_SETTING_NAMES[setting]}.",
        param=param,
    )
