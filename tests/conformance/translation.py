"""An engine's answer made a caller's, by the same functions as on the road, in each way in which either side may stream."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from app.gateway.response_translation import translate
from providers.canonical.raw_json import Body
from providers.dialect import ResponseMeta
from providers.dialects.catalogue import DIALECTS, ENGINE_DIALECTS
from tests.conformance import engine_anthropic, engine_chat, engine_responses
from tests.conformance.caller_anthropic import AnthropicCaller
from tests.conformance.caller_chat import ChatCaller
from tests.conformance.caller_responses import ResponsesCaller
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES

ENGINES = {CHAT: engine_chat.wire_response, RESPONSES: engine_responses.wire_response, ANTHROPIC: engine_anthropic.wire_response}
# Each hears what it took itself: an object of its own SDK.
CALLERS: Mapping[str, Any] = {each.name: each for each in (ChatCaller(), ResponsesCaller(), AnthropicCaller())}


def response_meta(request_body: Any) -> ResponseMeta:
    raw = msgspec.json.encode(request_body)
    return ResponseMeta(
        "01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b", "a name", 1_790_000_000, True, Body.read(raw)
    )


def translate_response(answer: bytes, target: str, caller: str, *, arrives_streamed: bool, streamed: bool) -> bytes:
    """What the caller is sent for what the engine sent."""
    return translate_response_blocks([answer], target, caller, arrives_streamed=arrives_streamed, streamed=streamed)


def translate_response_blocks(blocks: Iterable[bytes], target: str, caller: str, *, arrives_streamed: bool, streamed: bool) -> bytes:
    caller_dialect, target_dialect, meta = DIALECTS[caller], ENGINE_DIALECTS[target], response_meta(CALLERS[caller].ask)
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
