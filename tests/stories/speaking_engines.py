"""Scripted engines of every chat dialect: what they are to answer is written once, and said in whichever API they are asked by."""

import json
from collections.abc import Callable, Iterator

from tests.conformance import engine_anthropic, engine_chat, engine_responses
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES, Situation, Wire
from tests.stories.scripted import Asked, Script

# The models of tests/stories/conftest.py whose engine speaks this dialect alone.
MODELS = {CHAT: "scripted", RESPONSES: "responses", ANTHROPIC: "claude"}
_SPEAK = {"/chat/completions": engine_chat.speak, "/responses": engine_responses.speak, "/messages": engine_anthropic.speak}


def speaking(*answers: Situation) -> Script:
    """Answers one request after the other with these, streamed or whole as it is asked."""
    left: Iterator[Situation] = iter(answers)

    async def script(asked: Asked) -> None:
        if not asked.body:
            # The fleet asks how it is.
            await asked.answer(404, b"{}")
            return
        if asked.path.endswith("/count_tokens"):
            await asked.answer(200, json.dumps({"input_tokens": 42}).encode())
            return
        wire = _speaking(asked)(next(left))
        if not asked.body.get("stream"):
            assert wire.whole is not None
            await asked.answer(200, wire.whole)
            return
        asked.begin_stream()
        for frame in wire.stream.split(b"\n\n")[:-1]:
            asked.piece(frame + b"\n\n")
            await asked.writer.drain()
        asked.end_stream()
        await asked.writer.drain()

    return script


def breaking(answer: Situation) -> Script:
    """Streams half of the answer, and ends."""

    async def script(asked: Asked) -> None:
        frames = _speaking(asked)(answer).stream.split(b"\n\n")[:-1]
        asked.begin_stream()
        for frame in frames[: len(frames) // 2]:
            asked.piece(frame + b"\n\n")
        asked.end_stream()
        await asked.writer.drain()

    return script


def _speaking(asked: Asked) -> Callable[[Situation], Wire]:
    return next(speak for end, speak in _SPEAK.items() if asked.path.partition("?")[0].endswith(end))


def failing(status: int, body: object, *headers: str) -> Script:
    """Answers every request with this error."""

    async def script(asked: Asked) -> None:
        told = "".join(f"{each}\r\n" for each in ("content-type: application/json", *headers))
        await asked.answer(status, json.dumps(body).encode(), told)

    return script
