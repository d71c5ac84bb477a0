"""POST /v1/responses/input_tokens: counted as Anthropic's count_tokens is, by whichever target counts; else estimated.

Source: openai-python 3, types/responses/input_token_count_params.py, read 2026-11.
"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.domain.callers import Caller
from app.gateway.emulation.custom_tools import as_functions
from app.gateway.large_body.request_body import RequestBody
from app.gateway.pipeline.gateway import Gateway
from app.gateway.responses_state.summaries import open_summaries
from app.gateway.state.context import RequestContext
from providers.canonical.chat import Tool
from providers.canonical.raw_json import NULL, Body
from providers.dialect import CallerDialect, InboundRequest
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.openai_responses import OpenAIResponses
from providers.drop_policy import DropPolicy

_RESPONSES, _MESSAGES = OpenAIResponses(), AnthropicMessages()
# Settings of the response do not count.
_COUNTED_FIELDS = ("messages", "system", "tools")


class _Count(Struct):
    input_tokens: int


_count_decoder = msgspec.json.Decoder(_Count)


class InputTokensForm:
    """A form of the route of count_tokens: see InferenceRoute."""

    dialect: CallerDialect | None = _RESPONSES

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def read(self, raw: bytes, context: RequestContext, caller: Caller) -> bytes:
        """The request to count, in Messages. Raises NarthexError for what is no request of Responses."""
        gateway = self._gateway
        body = RequestBody(raw, gateway.large_requests, caller.team_id)
        if b'"input"' not in raw:  # which only a continued conversation may lack
            raw = await body.run(_add_input, raw)
        request = await body.parse_large(_RESPONSES) if body.is_large else _RESPONSES.parse_request(raw)
        if request.previous_response_id is not None or request.references_items:
            claim = context.claim_body(gateway.body_memory, caller)
            await gateway.conversations.expand_request(request, caller, claim)
            body.grow(claim.size_bytes)
        await body.run(open_summaries, request.body, gateway.summaries, caller.team_id)
        return await body.run(_write_counted, request)

    async def write(self, context: RequestContext, raw: bytes, response: bytes) -> bytes:
        count = _count_decoder.decode(response).input_tokens
        return msgspec.json.encode({"object": "response.input_tokens", "input_tokens": count})


def _add_input(raw: bytes) -> bytes:
    return Body({**Body.read(raw), "input": []}).write()


def _write_counted(request: InboundRequest) -> bytes:
    chat = _RESPONSES.read_request(request.body)
    converted = as_functions(chat, checks=False)
    chat = chat if converted is None else converted[0]
    tools = tuple(tool for tool in chat.tools if isinstance(tool, Tool))  # what a host's own tools take is not known
    policy = DropPolicy(lambda _: True, _RESPONSES.field_names, "this route", lambda path: path)
    written = _MESSAGES.write_request(replace(chat, tools=tools, tool_choice=None, max_tokens=1), policy)
    counted = {field: written[field] for field in _COUNTED_FIELDS if written.get(field, NULL) != NULL}
    return Body(model=request.model, **counted).write()
