"""Scripted engines of every chat dialect: a response is defined once, and sent in the dialect of each request."""

import json
import re
from collections.abc import Callable, Iterator

from tests.conformance import engine_anthropic, engine_bedrock, engine_chat, engine_gemini, engine_responses
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES, Situation, WireResponse
from tests.support.scripted_engine import ReceivedRequest, Script

# The models of tests/integration/conftest.py whose engine speaks only this dialect.
MODELS = {CHAT: "scripted", RESPONSES: "responses", ANTHROPIC: "claude"}
_WRITERS = {
    "/chat/completions": engine_chat.wire_response,
    "/responses": engine_responses.wire_response,
    "/messages": engine_anthropic.wire_response,
    ":generateContent": engine_gemini.wire_response,
    ":streamGenerateContent": engine_gemini.wire_response,
    "/converse": engine_bedrock.wire_response,
    "/converse-stream": engine_bedrock.wire_response,
    "/invoke": engine_anthropic.wire_response,
    "/invoke-with-response-stream": engine_bedrock.invoke_response,
    ":rawPredict": engine_anthropic.wire_response,
    ":streamRawPredict": engine_anthropic.wire_response,
}
_AWS_STREAMS = ("/converse-stream", "/invoke-with-response-stream")
# Of the APIs that choose streaming by the path, not by a field of the body.
_STREAMING_PATHS = (":streamGenerateContent", ":streamRawPredict", *_AWS_STREAMS)
_SSE_FRAME = re.compile(rb".*?\r?\n\r?\n", re.DOTALL)


def respond_with(*situations: Situation) -> Script:
    """Responds to the requests in order with these situations, streamed or not as each request wants."""
    remaining: Iterator[Situation] = iter(situations)

    async def script(request: ReceivedRequest) -> None:
        if not request.body:
            # A probe of the fleet.
            await request.respond(404, b"{}")
            return
        if request.path.endswith("/count_tokens"):
            await request.respond(200, json.dumps({"input_tokens": 42}).encode())
            return
        wire = _writer_for(request)(next(remaining))
        path = request.path.partition("?")[0]
        if not (request.body.get("stream") or path.endswith(_STREAMING_PATHS)):
            assert wire.body is not None
            await request.respond(200, wire.body)
            return
        request.begin_stream("application/vnd.amazon.eventstream" if path.endswith(_AWS_STREAMS) else "text/event-stream")
        for frame in [wire.stream] if path.endswith(_AWS_STREAMS) else _SSE_FRAME.findall(wire.stream):
            request.send_chunk(frame)
            await request.writer.drain()
        request.end_stream()
        await request.writer.drain()

    return script


def break_midway(situation: Situation) -> Script:
    """Streams half of the response, and ends."""

    async def script(request: ReceivedRequest) -> None:
        frames = _SSE_FRAME.findall(_writer_for(request)(situation).stream)
        request.begin_stream()
        for frame in frames[: len(frames) // 2]:
            request.send_chunk(frame)
        request.end_stream()
        await request.writer.drain()

    return script


def _writer_for(request: ReceivedRequest) -> Callable[[Situation], WireResponse]:
    return next(writer for path_end, writer in _WRITERS.items() if request.path.partition("?")[0].endswith(path_end))


def fail_with(status: int, body: object, *headers: str) -> Script:
    """Responds to every request with this error."""

    async def script(request: ReceivedRequest) -> None:
        response_headers = "".join(f"{each}\r\n" for each in ("content-type: application/json", *headers))
        await request.respond(status, json.dumps(body).encode(), response_headers)

    return script
