"""An engine's response translated for a caller by the gateway's own functions, streamed or not on either side."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from app.gateway.response_translation import translate
from providers.canonical.raw_json import Body
from providers.catalogue import DIALECTS
from providers.dialect import ResponseMeta
from providers.dialects.catalogue import ENGINE_DIALECTS
from tests.conformance import engine_anthropic, engine_chat, engine_responses
from tests.conformance.caller_anthropic import AnthropicCaller
from tests.conformance.caller_chat import ChatCaller
from tests.conformance.caller_gemini import GeminiCaller
from tests.conformance.caller_responses import ResponsesCaller
from tests.conformance.sdk_responses import ESTIMATED_INPUT, SdkResponse
from tests.conformance.situations import ANTHROPIC, CHAT, GEMINI, RESPONSES


class Caller(Protocol):
    """A caller with an official SDK. What `parse` returns is an object of that SDK; the other methods take the same object."""

    request_body: ClassVar[dict[str, Any]]

    def parse(self, body: bytes, *, streamed: bool) -> Any: ...

    def summarize(self, response: Any) -> SdkResponse: ...

    def next_request_body(self, response: Any) -> dict[str, Any]: ...


ENGINES = {CHAT: engine_chat.wire_response, RESPONSES: engine_responses.wire_response, ANTHROPIC: engine_anthropic.wire_response}
CALLERS: Mapping[str, Caller] = {CHAT: ChatCaller(), RESPONSES: ResponsesCaller(), ANTHROPIC: AnthropicCaller(), GEMINI: GeminiCaller()}


def response_meta(request_body: Any) -> ResponseMeta:
    raw = msgspec.json.encode(request_body)
    return ResponseMeta(
        "01990000-0000-7000-8000-00000000000a",
        "01990000-0000-7000-8000-00000000000b",
        "a name",
        1_790_000_000,
        True,
        Body.read(raw),
        estimated_input=ESTIMATED_INPUT,
    )


def translate_response(response: bytes, target: str, caller: str, *, arrives_streamed: bool, streamed: bool) -> bytes:
    """Returns what the caller receives for what the engine sends."""
    return translate_response_blocks([response], target, caller, arrives_streamed=arrives_streamed, streamed=streamed)


def translate_response_blocks(blocks: Iterable[bytes], target: str, caller: str, *, arrives_streamed: bool, streamed: bool) -> bytes:
    caller_dialect, target_dialect, meta = DIALECTS[caller], ENGINE_DIALECTS[target], response_meta(CALLERS[caller].request_body)
    if streamed:
        editor = translate.make_stream_editor(caller_dialect, target_dialect, meta, streamed=arrives_streamed)
        out = b"".join([editor.feed(block) for block in blocks])
        return out + editor.finish()
    if not arrives_streamed:
        return translate.translate_response(b"".join(blocks), caller_dialect, target_dialect, meta).raw
    assembler = translate.make_assembler(caller_dialect, target_dialect, meta)
    for block in blocks:
        assembler.feed(block)
    return assembler.finish().raw
