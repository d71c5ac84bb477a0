"""Drops or refuses the parts of a translated chat that the target dialect cannot express."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import ChatRequest, Extra, Opaque
from providers.canonical.opaque_parts import REASONING_KINDS, SEARCH_KINDS, opaque_kind
from providers.drop_policy import DropPolicy
from providers.fields import FIELDS

# The name under which opaque reasoning of another host is reported as dropped, unless the caller's dialect has its own.
REASONING_SIGNATURE = "reasoning.signature"

# Fields of ChatRequest that do not change what a response says, in the order in which they are reported.
CHAT_HINT_FIELDS = ("user", "safety_identifier", "metadata", "service_tier", "store", "cache_key")
# Fields of ChatRequest that providers.fields.FIELDS lists under another name.
_LISTED_NAMES = {"parallel_calls": "parallel_tool_calls"}


def check_unsupported(
    chat: ChatRequest, drop_policy: DropPolicy, reasons: Mapping[str, str], hints: Sequence[str] = CHAT_HINT_FIELDS
) -> None:
    """Drops or refuses the fields of `reasons` that ask for something, and drops those of `hints`.

    `reasons` has, by the name of a field of ChatRequest, why the target cannot honour it. Raises as DropPolicy does.
    """
    for field, reason in reasons.items():
        if not _is_neutral(field, getattr(chat, field)):
            drop_policy.drop_missing(field, reason)
    for field in hints:
        if getattr(chat, field) is not None:
            drop_policy.drop_hint(field)


def _is_neutral(field: str, value: Any) -> bool:
    if value is None or value == ():
        return True
    listed = FIELDS.get(_LISTED_NAMES.get(field, field))
    return listed is not None and (msgspec.json.decode(value) if isinstance(value, Raw) else value) in listed.neutral_values


def drop_part_fields(extra: Extra, path: str, drop_policy: DropPolicy, *, from_assistant: bool = False) -> None:
    """Drops or refuses the extra fields of a message, part or tool at `path`.

    `from_assistant` says that it belongs to an earlier answer, which callers only repeat, so that no field of it demands anything.
    """
    for key, value in extra.items():
        if from_assistant:
            drop_policy.drop_hint(f"{path}.{key}")
        else:
            drop_policy.drop_extra_field(f"{path}.{key}", value, "it is a field of another API.")


def drop_opaque_part(part: Opaque, path: str, drop_policy: DropPolicy) -> None:
    """Drops opaque reasoning and searches of another dialect, and drops or refuses any other part that only its origin has."""
    kind = opaque_kind(part.raw)
    if kind in REASONING_KINDS:
        drop_policy.drop_hint(REASONING_SIGNATURE)
    elif kind in SEARCH_KINDS:
        drop_policy.drop_hint(path)
    else:
        drop_policy.drop_or_refuse(path, f"only {part.origin:.40} has {kind or 'it':.40}.")
