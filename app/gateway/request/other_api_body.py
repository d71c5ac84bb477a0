"""A body of Chat at the Responses route, or the reverse: it is served as what it is, and answered as the route answers.

Cursor sends a Responses body to /v1/chat/completions in its agent mode, and reads answers of Chat. Sources: BerriAI/litellm#34029,
router-for-me/CLIProxyAPI#658, read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from providers.canonical.errors import InvalidRequest
from providers.canonical.outside_strings import STEP_BYTES
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialect import CallerDialect, InboundRequest
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.drop_policy import DropPolicy

_CHAT, _RESPONSES = "openai_chat", "openai_responses"
# Route -> the API whose body it may be, and the field that only such a body has.
_OTHER_API: Mapping[str, tuple[str, str]] = {_CHAT: (_RESPONSES, "input"), _RESPONSES: (_CHAT, "messages")}
_OWN_FIELDS: Mapping[str, tuple[str, ...]] = {_CHAT: ("messages", "prompt"), _RESPONSES: ("input",)}


class OtherApiRequest(msgspec.Struct):
    """A request whose body came in another API than the route's."""

    request: InboundRequest
    raw: bytes  # the body in the route's API
    dropped: list[str]  # what that has no field for
    report: str  # for x-narthex-emulated


def read_other_api(dialect: CallerDialect, raw: bytes, refusal: InvalidRequest, may_drop: Callable[[str], bool]) -> OtherApiRequest:
    """The request of a body that the route's own API refuses, if it is one of the other API; else raises `refusal`.

    Raises InvalidRequest for what is invalid in that API, and Unsupported for what the route's API cannot say.
    """
    other_name, field = _OTHER_API.get(dialect.name, ("", ""))
    if not other_name or not _names(raw, field):
        raise refusal
    try:
        sent = Body.read(raw)
    except (InvalidRequest, *DECODE_ERRORS):
        raise refusal from None
    if not sent.has_value(field) or any(map(sent.has_value, _OWN_FIELDS[dialect.name])):
        raise refusal
    other, own = CHAT_DIALECTS[other_name], CHAT_DIALECTS[dialect.name]
    inbound = other.parse_request(raw)
    if inbound.previous_response_id is not None or inbound.references_items:
        raise InvalidRequest(
            "Earlier responses can be continued at /v1/responses only: send the whole conversation as `input`, or send this there.",
            param="previous_response_id" if inbound.previous_response_id is not None else "input",
        )
    body = inbound.body
    policy = DropPolicy(may_drop, other.field_names, "this route", lambda path: other.caller_path(body, path))
    written = own.write_request(other.read_request(body), policy)
    for key, value in sent.items():
        # What the gateway reads, whatever the API: the stream, the model as the caller calls it, and its own fields.
        if key in ("model", "stream", "episode_id", "metadata") or "::" in key:
            written[key] = value
    if dialect.name == _CHAT and inbound.stream and sent.has_value("stream_options"):
        written["stream_options"] = {"include_usage": _includes_usage(sent)}
    converted = written.write()
    return OtherApiRequest(dialect.parse_request(converted), converted, policy.dropped, f"{field} ({other_name})")


def _names(raw: bytes, field: str) -> bool:
    """Whether the body has the field anywhere. It is searched in steps, as no other thread runs during one call into C."""
    name = b'"%b"' % field.encode()
    return any(raw.find(name, start, start + STEP_BYTES + len(name)) >= 0 for start in range(0, len(raw), STEP_BYTES))


def _includes_usage(body: Body) -> bool:
    options: Any = body.value("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
