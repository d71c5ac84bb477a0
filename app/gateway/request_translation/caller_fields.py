"""Reads what a caller's body holds, and what the caller calls it.

That is names for errors, constraint fields, and carriers of opaque state.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from providers import structured_output
from providers.canonical.chat import ChatRequest
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.canonical.thinking_fields import summary_field
from providers.dialect import CallerChatDialect

_MAX_DROPPED_PATHS = 32
# Objects of other APIs in place of `reasoning_effort`: providers/canonical/thinking_fields.py.
_THINKING_OBJECTS = ("thinking", "reasoning")
_AMOUNTS_OF_THINKING = ("thinking", "thinking.effort", "thinking.budget_tokens")
_INDEX = re.compile(r"\[\d+\]")
# OpenAI's first names for the tool fields. An error about tools names these to a caller who sent these.
OLDER_TOOL_FIELDS: Mapping[str, str] = {"functions": "tools", "function_call": "tool_choice"}


def caller_field_names(caller_dialect: CallerChatDialect, body: Body) -> Mapping[str, str]:
    """Canonical field -> the caller's name for it: the dialect's names, except where this body uses another of several names.

    `output` maps to the constraint field that was sent, tools to OpenAI's legacy fields if only those were sent.
    """
    constraint = min(structured_output.CONSTRAINT_FIELDS & body.keys(), default=None)
    thinking = next((field for field in _THINKING_OBJECTS if field in body), None) if caller_dialect.name == "openai_chat" else None
    if constraint is None and thinking is None and OLDER_TOOL_FIELDS.keys().isdisjoint(body):
        return caller_dialect.field_names
    thinking_names: dict[str, str] = {} if thinking is None else dict.fromkeys(_AMOUNTS_OF_THINKING, thinking)
    if thinking is not None and (summary := summary_field(body.value(thinking))) is not None:
        thinking_names["thinking.summary"] = f"{thinking}.{summary}"
    legacy_names = {
        current: legacy for legacy, current in OLDER_TOOL_FIELDS.items() if body.has_value(legacy) and not body.has_value(current)
    }
    return {**caller_dialect.field_names, **thinking_names, **legacy_names, **({} if constraint is None else {"output": constraint})}


def apply_constraint_fields(chat: ChatRequest) -> ChatRequest:
    """The chat with engines' own constraint fields, which callers of any dialect may send, read as its output format.

    Raises InvalidRequest if two fields constrain the output.
    """
    constraint_fields = structured_output.CONSTRAINT_FIELDS & chat.extra.keys()
    if not constraint_fields:
        return chat
    output = structured_output.read_output_format(Body(chat.extra))
    if output is not None and chat.output is not None:
        raise InvalidRequest("Two fields constrain the output: send one of them.", param=min(constraint_fields))
    remaining = {key: value for key, value in chat.extra.items() if key not in constraint_fields}
    return replace(chat, output=output or chat.output, extra=remaining)


def wants_non_text_output(body: Body) -> bool:
    """Whether the response is to hold more than text (OpenAI chat's `modalities`), which the canonical model has no place for."""
    modalities: Any = body.value("modalities")
    return isinstance(modalities, list) and modalities != ["text"] and modalities != []


def limit_paths(dropped: list[str]) -> list[str]:
    """Returns at most 32 paths, without the indexes if there are more.

    They go into a header, and clients bound the headers they accept.
    """
    return dropped if len(dropped) <= _MAX_DROPPED_PATHS else sorted({_INDEX.sub("[]", each) for each in dropped})[:_MAX_DROPPED_PATHS]
