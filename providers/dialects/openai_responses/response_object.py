"""The Response object: ids, the fields that it repeats from the request, and the API's defaults for fields that the request lacks."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import NULL
from providers.canonical.sse import to_single_line
from providers.canonical.timestamps import whole_seconds
from providers.dialect import ResponseMeta
from providers.dialects.openai.service_tiers import write_service_tier
from providers.dialects.openai_responses.usage import with_missing_details

# The fields that a Response repeats from its request, with the defaults.
ECHOED_FIELDS: Mapping[str, Any] = {
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
# A service tier that only Responses have.
_ULTRAFAST = Raw(b'"ultrafast"')
# The engine does not receive the caller's values of these fields, so its own values are replaced.
GATEWAY_FIELDS = ("previous_response_id", "store", "metadata", "user", "safety_identifier", "prompt_cache_key")


def response_head(meta: ResponseMeta) -> dict[str, Any]:
    """A Response that has just started. All values are on one line."""
    head: dict[str, Any] = {
        "id": response_id(meta),
        "object": "response",
        "created_at": meta.created,
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": meta.model,
        "output": [],
        "service_tier": None,
        "usage": None,
    }
    for key, default in ECHOED_FIELDS.items():
        head[key] = requested_value(meta, key, default)
    return head


def response_id(meta: ResponseMeta) -> str:
    return f"resp_{meta.id}"


def requested_value(meta: ResponseMeta, key: str, default: Any) -> Any:
    """The caller's value of a field, on one line even if the caller wrote it on several."""
    value = meta.request_body.get(key)
    if value is None or value == NULL:
        return default
    return Raw(to_single_line(bytes(value))) if isinstance(value, Raw) else value


def apply_response_meta(body: dict[str, Any], meta: ResponseMeta) -> dict[str, Any]:
    """The engine's Response with our fields replaced and missing fields added; the rest is unchanged."""
    for key, value in response_head(meta).items():
        if key not in body:
            body[key] = value
    body["id"], body["object"], body["model"] = response_id(meta), "response", meta.model
    if isinstance(body["created_at"], Raw):
        body["created_at"] = whole_seconds(body["created_at"], meta.created)
    for key in GATEWAY_FIELDS:
        requested = requested_value(meta, key, ECHOED_FIELDS[key])
        if requested != ECHOED_FIELDS[key] or key in ("previous_response_id", "store"):
            body[key] = requested
    service_tier = body["service_tier"]
    if isinstance(service_tier, Raw) and service_tier != _ULTRAFAST and write_service_tier(msgspec.json.decode(service_tier)) is None:
        body["service_tier"] = None
    usage = body["usage"]
    if isinstance(usage, Raw) and usage != NULL:
        body["usage"] = with_missing_details(usage)
    for key in ("output", "tools", "tool_choice", "parallel_tool_calls"):
        if body[key] == NULL:
            body[key] = requested_value(meta, key, ECHOED_FIELDS.get(key, []))
    return body
