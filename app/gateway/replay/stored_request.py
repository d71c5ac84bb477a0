"""The body of a recorded request as it is sent again: to another model or variant, in an episode of its own, without side effects. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from app.domain.callers import MAX_PRIORITY
from providers.canonical.raw_json import DECODE_ERRORS, Body

# What a body holds in place of what might have been a credential: see app/gateway/request/reserved_fields.py.
_WITHHELD = Raw(b'"[withheld]"')
# Who made the request, as part of what, and what else it wanted of the gateway: none of that is repeated.
_NOT_REPEATED = (
    *("episode_id", "tensorzero::episode_id", "tensorzero::tags", "tensorzero::namespace"),
    *("narthex::variant_name", "tensorzero::variant_name", "background"),
)
# Fields by which a host searches, runs code or calls servers, beside its tools.
_FIELDS_WITH_EFFECTS = ("web_search_options", "mcp_servers", "container", "plugins")
# Fields by which a caller writes into the target's own request: whatever those may do elsewhere.
_OVERRIDES = ("extra_body", "tensorzero::extra_body")
_TOOLS_WITHOUT_EFFECTS = frozenset({None, "function", "custom"})
_FUNCTION_PREFIX = "narthex::function_name::"
_NATIVE = "tensorzero_inference"
_GOOGLE = "gemini"
_INSTRUCTIONS = ("system", "instructions", "systemInstruction")
_decode_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


# No tags: by those of the original it would count against limits of others. Wherever requests wait, it waits behind those of callers.
HEADERS: Mapping[bytes, bytes] = {b"x-narthex-tags": b"{}", b"x-narthex-priority": b"%d" % -MAX_PRIORITY}


class NotRunnable(Exception):
    """Raised if what is recorded of a request is not enough to send it again.

    `reason` is the one that its item gets.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ReplayTarget(Struct, frozen=True):
    """The model or function that answers the requests of a replay."""

    model: str  # a configured model or function
    variant: str | None  # of the function, or an arm of the model's experiment
    is_function: bool


class SentAgain(Struct, frozen=True):
    """A recorded request, made ready to be sent again."""

    raw: bytes  # the body
    prompt: bytes  # what the model was to answer, as JSON, for a judge


def prepare_request(route: str, request: bytes, function: str | None, target: ReplayTarget) -> SentAgain:
    """Makes a recorded request one for the target. `function` is the one that the request named. Raises NotRunnable."""
    if function is not None and not target.is_function:
        raise NotRunnable("function")  # without its templates the model would get half of what the variant got
    try:
        body = Body.read(request)
        has_effects = _runs_google_tools(body) if route == _GOOGLE else _has_effects(body)
    except DECODE_ERRORS:
        raise NotRunnable("unreadable") from None
    if has_effects:
        raise NotRunnable("side_effects")
    if body.has_value("previous_response_id") or body.has_value("conversation"):
        raise NotRunnable("continued")
    for name in [name for name, value in body.items() if name in _NOT_REPEATED or value == _WITHHELD]:
        del body[name]
    if route == _NATIVE:
        for name in ("model_name", "function_name", "variant_name", "tags", "namespace"):
            body.pop(name, None)
        body["function_name" if target.is_function else "model_name"] = target.model
        if target.variant is not None:
            body["variant_name"] = target.variant
    else:
        body["model"] = f"{_FUNCTION_PREFIX}{target.model}" if target.is_function else target.model
        if target.variant is not None:
            body["narthex::variant_name"] = target.variant
    if route == "openai_responses":
        body["store"] = False  # by default it is true
    else:
        body.pop("store", None)
    prompt = {name: body[name] for name in (*_INSTRUCTIONS, "messages", "input", "contents", "prompt", "tools") if body.has_value(name)}
    return SentAgain(body.write(), msgspec.json.encode(prompt))


def _runs_google_tools(body: Body) -> bool:
    """Whether Google runs a tool for it: any but functions; or reads what was cached for the caller."""
    if any(body.has_value(name) for name in ("cachedContent", "cached_content", *_OVERRIDES)):
        return True
    tools = body.get("tools")
    if not isinstance(tools, Raw) or bytes(tools)[:1] != b"[":
        return False
    return any(not tool.keys() <= {"functionDeclarations", "function_declarations"} for tool in _decode_tools(tools))


def _has_effects(body: Body) -> bool:
    if any(body.has_value(name) for name in (*_FIELDS_WITH_EFFECTS, *_OVERRIDES)):
        return True
    for field in ("tools", "additional_tools", "provider_tools", "tensorzero::provider_tools"):
        value = body.get(field)
        if not isinstance(value, Raw) or bytes(value)[:1] != b"[":
            continue
        kinds: list[Any] = [msgspec.json.decode(tool["type"]) if "type" in tool else None for tool in _decode_tools(value)]
        if field.endswith("provider_tools") and kinds:
            return True
        if any(not isinstance(kind, str | None) or kind not in _TOOLS_WITHOUT_EFFECTS for kind in kinds):
            return True
    return False
