"""TensorZero's `params.chat_completion` in a request of OpenAI's chat: they come before the request's own fields."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict, replace

from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.raw_json import Body
from providers.dialect import CallerDialect, InboundRequest
from providers.dialects.tensorzero_inference.request_schema import ChatParams

_PATH = "tensorzero::params.chat_completion"
# Of each parameter that has another name there.
_NAMES: Mapping[str, str] = {"stop_sequences": "stop"}


def set_chat_params(dialect: CallerDialect, request: InboundRequest, params: ChatParams) -> InboundRequest:
    """The request with these parameters, parsed again: they bound what it may use. Raises InvalidRequest and Unsupported."""
    body = Body(request.body)
    values: dict[str, Any] = {name: value for name, value in asdict(params).items() if value is not None}
    if "thinking_budget_tokens" in values:
        raise Unsupported(
            f"`{_PATH}.thinking_budget_tokens` has no field in OpenAI's chat: set `reasoning_effort`, or send the request to /inference.",
            param=f"{_PATH}.thinking_budget_tokens",
        )
    if "max_tokens" in values and "max_completion_tokens" in body:
        values["max_completion_tokens"] = values.pop("max_tokens")
        body.pop("max_tokens", None)
    json_mode = values.pop("json_mode", None)
    if json_mode is not None:
        _set_json_mode(body, json_mode)
    body.update((_NAMES.get(name, name), value) for name, value in values.items())
    try:
        parsed = dialect.parse_request(body.write())
    except InvalidRequest as fault:
        raise fault.reworded(f"`{_PATH}`: {fault.message}", param=fault.param) from None
    return replace(request, body=parsed.body, output_tokens=parsed.output_tokens)


def _set_json_mode(body: Body, json_mode: str) -> None:
    response_format: dict[str, Any] = body.value("response_format") or {}
    if json_mode == "off":
        body.pop("response_format", None)
    elif json_mode == "on":
        if response_format.get("type") != "json_schema":
            body["response_format"] = {"type": "json_object"}
    elif response_format.get("type") != "json_schema" or not isinstance(response_format.get("json_schema"), dict):
        raise InvalidRequest(
            f"`{_PATH}.json_mode` {json_mode!r} needs a `response_format` of type json_schema.", param=f"{_PATH}.json_mode"
        )
    elif json_mode == "strict":
        body["response_format"] = {**response_format, "json_schema": {**response_format["json_schema"], "strict": True}}
