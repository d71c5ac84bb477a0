"""`reasoning_details`: what chat has no place for, told beside a message so that its client gives it back: seals, blocks of other dialects.

Each entry tells its place among the parts (`index`) and in the content (`at`, in characters), so that the parts can be put together again
as they were. Entries without a place are an engine's own (OpenRouter): they come before the content, and go back as they came. Of one
that says more than a signature (a format, an id), all but its text is the seal, so that callers of every dialect give back all of it.
Source: https://openrouter.ai/docs/use-cases/reasoning-tokens, read 2026-11.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from providers.carrier import carried, carry
from providers.chat import Opaque, Part, Reasoning, Refusal, Seal, Text, ToolCall
from providers.wire import NULL, UNREADABLE

_NAME = "openai_chat"
_OURS = frozenset({"type", "text", "signature", "data", "index", "at"})
# Where each type of reasoning that can be read has its text.
TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary"}

_read_list = msgspec.json.Decoder(list[dict[str, Any]]).decode
_read_entry = msgspec.json.Decoder(dict[str, Any]).decode


def write_details(parts: Iterable[tuple[Part, int]]) -> list[dict[str, Any]]:
    """`parts` each with the number of characters that it adds to the content. Empty if nothing needs it."""
    entries: list[dict[str, Any]] = []
    index = at = since = 0
    sealed = False
    for part, length in parts:
        match part:
            case Reasoning() | Opaque():
                # Texts without an entry between them are one to whoever puts the parts together.
                index += at > since
                since = at
                sealed = sealed or isinstance(part, Opaque) or part.seal is not None
                entry = _entry(part)
                entries.append(entry if _is_own(entry) else {**entry, "index": index, "at": at})
                index += 1
            case Text():
                at += length
            case Refusal() | ToolCall():
                index += 1
    return entries if sealed else []


def _entry(part: Reasoning | Opaque) -> dict[str, Any]:
    if isinstance(part, Opaque):
        if part.origin == _NAME:
            return msgspec.json.decode(part.raw)
        seal = Seal(part.origin, bytes(part.raw).decode())
        return {"type": "reasoning.encrypted", "data": carry(seal, through=_NAME), "format": part.origin}
    seal = part.seal
    own = None if seal is None or seal.origin != _NAME else _own_entry(seal.data)
    if own is not None:
        return {**own, TEXTS[own["type"]]: part.text}
    entry: dict[str, Any] = {**part.extra}
    if seal is not None and seal.origin != _NAME:
        entry["format"] = seal.origin
    if seal is None:
        return {**entry, "type": "reasoning.text", "text": part.text}
    if part.text:
        return {**entry, "type": "reasoning.text", "text": part.text, "signature": carry(seal, through=_NAME)}
    return {**entry, "type": "reasoning.encrypted", "data": carry(seal, through=_NAME)}


def _own_entry(data: str) -> dict[str, Any] | None:
    """An engine's own entry, which a seal holds; None for a mere signature."""
    if not data.startswith("{"):
        return None
    try:
        entry = _read_entry(data)
    except UNREADABLE:
        return None
    kind = entry.get("type")
    return entry if isinstance(kind, str) and kind in TEXTS else None


def _is_own(entry: dict[str, Any]) -> bool:
    """An engine's own counts its entries, and knows no places."""
    return "index" in entry and "at" not in entry


class Detail(msgspec.Struct, frozen=True):
    """`index` and `at` None: an engine's own."""

    part: Reasoning | Opaque
    index: int | None
    at: int | None


def read_details(raw: Raw) -> list[Detail]:
    """What is no list of details is passed over: it is no part of the documented API."""
    return [read_detail(entry) for entry in read_entries(raw)]


def read_entries(raw: Raw) -> list[dict[str, Any]]:
    if raw is NULL or raw == NULL:
        return []
    try:
        return _read_list(raw)
    except UNREADABLE:
        return []


def read_detail(entry: dict[str, Any]) -> Detail:
    return Detail(_part(entry), entry["index"], entry["at"]) if is_placed(entry) else Detail(_own_part(entry), None, None)


def _own_part(entry: dict[str, Any]) -> Reasoning | Opaque:
    """Of an engine's own entry. What it says beyond a signature cannot stand beside a seal through a caller of another dialect."""
    kind = text_kind(entry) or entry.get("type")
    sealed = entry.get("signature") or entry.get("data")
    if isinstance(sealed, str) and carried(sealed, through=_NAME).origin != _NAME:
        return _part(entry)
    if text_kind(entry):
        return Reasoning(text_of(entry), own_seal(entry))
    said = {key for key, value in entry.items() if value is not None}
    if kind == "reasoning.encrypted" and isinstance(sealed, str) and said == {"type", "data"}:
        return Reasoning("", Seal(_NAME, sealed))
    return Opaque(_NAME, Raw(msgspec.json.encode(entry)))


def text_kind(entry: dict[str, Any]) -> str:
    """The type of an entry that tells reasoning in words, or its signature; "" for any other."""
    kind = entry.get("type")
    return kind if isinstance(kind, str) and kind in TEXTS and isinstance(entry.get(TEXTS[kind]) or entry.get("signature"), str) else ""


def text_of(entry: dict[str, Any]) -> str:
    text = entry.get(TEXTS[entry["type"]])
    return text if isinstance(text, str) else ""


def is_placed(entry: dict[str, Any]) -> bool:
    """Whether a gateway like ours wrote it, and not an engine."""
    return isinstance(entry.get("at"), int) and isinstance(entry.get("index"), int)


def own_seal(entry: dict[str, Any]) -> Seal | None:
    """Of an engine's own entry, all but its text; its mere signature, where it says no more."""
    kind = entry["type"]
    rest = {key: value for key, value in entry.items() if key != TEXTS[kind] and value is not None}
    if kind == "reasoning.text" and rest.keys() <= {"type", "signature", "index"}:
        signature = rest.get("signature")
        return Seal(_NAME, signature) if isinstance(signature, str) else None
    return Seal(_NAME, msgspec.json.encode(rest).decode())


def _part(entry: dict[str, Any]) -> Reasoning | Opaque:
    kind, text, signature, data = (entry.get(key) for key in ("type", "text", "signature", "data"))
    if kind == "reasoning.encrypted" and isinstance(data, str):
        seal = carried(data, through=_NAME)
        return _opaque(seal) or Reasoning("", seal, _extra(entry, seal))
    if kind == "reasoning.text" and (isinstance(text, str) or isinstance(signature, str)):
        seal = carried(signature, through=_NAME) if isinstance(signature, str) else None
        return Reasoning(text if isinstance(text, str) else "", seal, _extra(entry, seal))
    kept = {key: value for key, value in entry.items() if key not in ("index", "at")}
    return Opaque(_NAME, Raw(msgspec.json.encode(kept)))


def _opaque(seal: Seal) -> Opaque | None:
    """A block of another dialect is a JSON object with a type; what is merely sealed is not."""
    if not seal.data.startswith("{"):
        return None
    try:
        block = msgspec.json.decode(seal.data)
    except UNREADABLE:
        return None
    return Opaque(seal.origin, Raw(seal.data.encode())) if "type" in block else None


def _extra(entry: dict[str, Any], seal: Seal | None) -> dict[str, Raw]:
    ours = _OURS if seal is None or seal.origin == _NAME else _OURS | {"format"}
    return {key: Raw(msgspec.json.encode(value)) for key, value in entry.items() if key not in ours and value is not None}


def put_together(details: Sequence[Detail], texts: Sequence[Text], rest: Sequence[Refusal | ToolCall]) -> list[Part]:
    """The parts in their order: reasoning and opaque ones at their places in the content, refusal and calls where indexes leave room."""
    if all(not detail.at for detail in details) and all(not detail.index or detail.index < len(details) for detail in details):
        return [*(detail.part for detail in sorted(details, key=_place)), *texts, *rest]
    content = Text("".join(text.text for text in texts), tuple(citation for text in texts for citation in text.citations))
    waiting = deque(rest)
    parts: list[Part] = []
    told = 0
    for detail in sorted(details, key=_place):
        at = min(detail.at or 0, len(content.text))
        if at > told:
            parts.append(_cut(content, told, at))
            told = at
        while waiting and len(parts) < (detail.index or 0):
            parts.append(waiting.popleft())
        parts.append(detail.part)
    if told < len(content.text):
        parts.append(_cut(content, told, len(content.text)))
    return [*parts, *waiting]


def _place(detail: Detail) -> int:
    return -1 if detail.index is None else detail.index


def _cut(content: Text, start: int, end: int) -> Text:
    """A piece of the text, with what is cited for it; citations without a place go with the last."""
    last = end == len(content.text)
    cited = [
        each for each in content.citations if (last if each.start is None else start <= each.start < end or (last and each.start >= end))
    ]
    return Text(
        content.text[start:end],
        tuple(
            each if each.start is None or each.end is None else replace(each, start=each.start - start, end=each.end - start)
            for each in cited
        ),
    )
