"""Reads a caller's overrides, and refuses what they may not do."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import DECODE_ERRORS
from providers.request_overrides.headers import HEADER_NAME, HEADER_VALUE, is_refused_header
from providers.request_overrides.overrides import BodyOverride, HeaderOverride, ProviderTool, RequestOverrides, Scope
from providers.request_overrides.own_fields import check_names, check_value
from providers.request_overrides.refusal import refuse

MAX_ENTRIES = 32
MAX_POINTER_CHARS = 512
MAX_POINTER_DEPTH = 16
MAX_VALUE_BYTES = 100_000
MAX_HEADERS = 16
MAX_HEADER_CHARS = 1_024


class _Entry(Struct, forbid_unknown_fields=True):
    pointer: str | None = None
    name: str | None = None
    value: Raw = msgspec.field(default_factory=lambda: Raw())
    delete: bool = False
    model_name: str | None = None
    provider_name: str | None = None
    variant_name: str | None = None

    @property
    def has_value(self) -> bool:
        return len(memoryview(self.value)) > 0


class _ToolScope(Struct, forbid_unknown_fields=True):
    model_name: str
    provider_name: str | None = None


class _ToolEntry(Struct, forbid_unknown_fields=True):
    tool: dict[str, Raw]
    scope: _ToolScope | None = None


_entries = msgspec.json.Decoder(list[_Entry])
_tool_entries = msgspec.json.Decoder(list[_ToolEntry])
_text = msgspec.json.Decoder(str)


def read_overrides(
    extra_body: Raw | None, extra_headers: Raw | None, provider_tools: Raw | None, prefix: str = ""
) -> RequestOverrides | None:
    """Returns the overrides, or None if there are none. Raises InvalidRequest.

    `prefix` is what the caller's names of these fields begin with.
    """
    body: tuple[BodyOverride, ...] = ()
    headers: tuple[HeaderOverride, ...] = ()
    tools: tuple[ProviderTool, ...] = ()
    if extra_body is not None:
        field = f"{prefix}extra_body"
        body = tuple(_read_body_overrides(_decode(_entries, extra_body, field), field))
    if extra_headers is not None:
        field = f"{prefix}extra_headers"
        headers = tuple(_read_headers(_decode(_entries, extra_headers, field), field))
    if provider_tools is not None:
        field = f"{prefix}provider_tools"
        tools = tuple(_read_tools(_decode(_tool_entries, provider_tools, field), field))
    return RequestOverrides(body, headers, tools) if body or headers or tools else None


def _decode(decoder: msgspec.json.Decoder[list[Any]], raw: Raw, field: str) -> list[Any]:
    try:
        return decoder.decode(raw)
    except DECODE_ERRORS as fault:
        problem, _, path = str(fault).partition(" - at `$")
        where = f"{field}{path.removesuffix('`')}"
        raise InvalidRequest(f"{problem} at `{where}`.", param=where) from None


def _read_body_overrides(entries: Sequence[_Entry], field: str) -> Iterator[BodyOverride]:
    _check_count(entries, field, MAX_ENTRIES)
    size = 0
    for index, entry in enumerate(entries):
        path = f"{field}[{index}]"
        if entry.pointer is None or entry.name is not None:
            refuse(path, "an entry has `pointer`, and `value` or `delete: true`")
        _check_action(entry, path)
        size += len(memoryview(entry.value))
        if size > MAX_VALUE_BYTES:
            refuse(path, f"the values may have {MAX_VALUE_BYTES} bytes together")
        tokens = _read_pointer(entry.pointer, f"{path}.pointer")
        check_names(tokens, msgspec.json.decode(entry.value) if entry.has_value else None, path)
        yield BodyOverride(_read_scope(entry, path), tokens, Raw(entry.value) if entry.has_value else None, f"{path}.pointer")


def _read_pointer(pointer: str, path: str) -> tuple[str, ...]:
    if len(pointer) > MAX_POINTER_CHARS or pointer.count("/") > MAX_POINTER_DEPTH:
        refuse(path, f"a JSON Pointer may have {MAX_POINTER_CHARS} characters and lead {MAX_POINTER_DEPTH} levels deep")
    if not pointer.startswith("/") or pointer == "/":
        refuse(path, "it must be a JSON Pointer to a field of the body, such as /field or /object/field")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))


def _read_headers(entries: Sequence[_Entry], field: str) -> Iterator[HeaderOverride]:
    _check_count(entries, field, MAX_HEADERS)
    for index, entry in enumerate(entries):
        path = f"{field}[{index}]"
        if entry.name is None or entry.pointer is not None:
            refuse(path, "an entry has `name`, and `value` or `delete: true`")
        _check_action(entry, path)
        name = entry.name.lower()
        if HEADER_NAME.fullmatch(name) is None:
            refuse(f"{path}.name", "it is no name of a header")
        if is_refused_header(name):
            refuse(
                f"{path}.name",
                f"the header {name!r} is the gateway's own: it may carry an identity, choose where the request goes, or belongs to the"
                " connection",
            )
        value = None
        if not entry.delete:
            try:
                value = _text.decode(entry.value)
            except DECODE_ERRORS:
                refuse(f"{path}.value", "it must be a string")
            if len(value) > MAX_HEADER_CHARS or HEADER_VALUE.fullmatch(value) is None:
                refuse(f"{path}.value", f"a value has at most {MAX_HEADER_CHARS} visible characters of ASCII and spaces between them")
        yield HeaderOverride(_read_scope(entry, path), name, value)


def _read_tools(entries: Sequence[_ToolEntry], field: str) -> Iterator[ProviderTool]:
    _check_count(entries, field, MAX_ENTRIES)
    for index, entry in enumerate(entries):
        tool = msgspec.json.encode(entry.tool)
        if len(tool) > MAX_VALUE_BYTES:
            refuse(f"{field}[{index}].tool", f"a tool may have {MAX_VALUE_BYTES} bytes")
        check_value(msgspec.json.decode(tool), f"{field}[{index}].tool")
        scope = Scope() if entry.scope is None else Scope(entry.scope.model_name, entry.scope.provider_name)
        yield ProviderTool(scope, Raw(tool))


def _read_scope(entry: _Entry, path: str) -> Scope:
    if entry.provider_name is not None and entry.model_name is None:
        refuse(path, "`provider_name` needs `model_name` beside it")
    if entry.variant_name is not None and entry.model_name is not None:
        refuse(path, "`variant_name` and `model_name` exclude each other")
    return Scope(entry.model_name, entry.provider_name, entry.variant_name)


def _check_count(entries: Sequence[object], field: str, maximum: int) -> None:
    if len(entries) > maximum:
        refuse(field, f"it may have {maximum} entries, not {len(entries)}")


def _check_action(entry: _Entry, path: str) -> None:
    if entry.delete == entry.has_value:
        refuse(path, "an entry has `value` or `delete: true`, one of them")
