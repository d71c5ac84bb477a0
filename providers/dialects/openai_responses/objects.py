"""The Response object around an answer: ids, what it repeats of the ask, and the defaults of the API for what the ask left out."""

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from providers.dialect import Stamp
from providers.dialects.openai_responses.usage import completed
from providers.wire import NULL, on_one_line

# What a Response repeats of its ask, with what stands there if the ask does not say.
_REPEATED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
# Of these the engine is not told, or not what the caller said: its own word on them is not the caller's.
OURS = ("previous_response_id", "store", "metadata", "user", "safety_identifier", "prompt_cache_key")


def response_head(stamp: Stamp) -> dict[str, Any]:
    """A Response that has just been begun, on one line each."""
    head: dict[str, Any] = {
        "id": response_id(stamp),
        "object": "response",
        "created_at": stamp.created,
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": stamp.model,
        "output": [],
        "service_tier": None,
        "usage": None,
    }
    for key, default in _REPEATED.items():
        head[key] = asked(stamp, key, default)
    return head


def response_id(stamp: Stamp) -> str:
    return f"resp_{stamp.id}"


def asked(stamp: Stamp, key: str, default: Any) -> Any:
    """What the caller said of a field: in one line, for a caller may have written it over several."""
    said = stamp.asked.get(key)
    if said is None or said == NULL:
        return default
    return Raw(on_one_line(bytes(said))) if isinstance(said, Raw) else said


def stamped(body: dict[str, Any], stamp: Stamp) -> dict[str, Any]:
    """An engine's Response as the caller's: ours replaced, what engines leave out filled in, the rest untouched."""
    for key, value in response_head(stamp).items():
        if key not in body:
            body[key] = value
    body["id"], body["object"], body["model"] = response_id(stamp), "response", stamp.model
    body["created_at"] = _whole_seconds(body["created_at"], stamp)
    for key in OURS:
        said = asked(stamp, key, _REPEATED[key])
        if said != _REPEATED[key] or key in ("previous_response_id", "store"):
            body[key] = said
    usage = body["usage"]
    if isinstance(usage, Raw) and usage != NULL:
        body["usage"] = completed(usage)
    for key in ("output", "tools", "tool_choice", "parallel_tool_calls"):
        if body[key] == NULL:
            body[key] = asked(stamp, key, _REPEATED.get(key, []))
    return body


def _whole_seconds(told: Any, stamp: Stamp) -> Any:
    """Unix time; vLLM and others tell it with a fraction, which strict clients refuse."""
    if not isinstance(told, Raw):
        return told
    text = bytes(told)
    if text.isdigit():
        return told
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return stamp.created
