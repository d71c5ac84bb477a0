"""A scripted engine that answers the clients' prompts as a model would, in the dialect of the request, and checks returned signatures."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from providers.canonical.chat import OpaqueState, Part, Reasoning, Text, ToolCall, Usage
from tests.clients.install import HERE
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES, Situation
from tests.support.scripted_dialects import respond_with
from tests.support.scripted_engine import ReceivedRequest

SCENARIO: Mapping[str, str] = json.loads((HERE / "scripts" / "scenario.json").read_text())
PERSON_JSON = '{"name": "Ada", "age": 36}'
GREETING = "Hello there, nice to meet you."
REASONING = "They greet me. I greet them."
WEATHER_TEXT = "It is sunny in Paris."
# As long as real signatures, with characters that a client might take for the end of a word.
SIGNATURE = base64.b64encode(bytes(range(256)) * 4).decode()

_ITEM_ID = re.compile(rb'"(msg|rs|fc)_(\d+)"')
_FREE_TEXT = b'"text": {"format": {"type": "text"}}'
_REASONING_FIELDS = {CHAT: "reasoning_effort", RESPONSES: "reasoning", ANTHROPIC: "thinking"}


@dataclass
class _ResponsesRequest(ReceivedRequest):
    """A request to which the response has unique item ids and repeats the requested text format, as clients of Responses require."""

    number: int = 0

    async def respond(self, status: int, body: bytes, headers: str = "content-type: application/json\r\n") -> None:
        await super().respond(status, self._with_unique_ids_and_format(body), headers)

    def send_chunk(self, data: bytes) -> None:
        super().send_chunk(self._with_unique_ids_and_format(data))

    def _with_unique_ids_and_format(self, body_bytes: bytes) -> bytes:
        body_bytes = _ITEM_ID.sub(rb'"\1_%d_\2"' % self.number, body_bytes)
        if "text" not in self.body:
            return body_bytes
        return body_bytes.replace(_FREE_TEXT, b'"text": ' + json.dumps(self.body["text"]).encode())


class ScriptedModel:
    """`signatures_returned`: for each turn after reasoning of its own, whether the signature was sent back."""

    def __init__(self) -> None:
        self.signatures_returned: list[bool] = []
        self._answered = count()

    async def script(self, request: ReceivedRequest) -> None:
        if not request.body:  # a probe of the gateway
            await request.respond_completion()
            return
        dialect = next(
            name for suffix, name in (("/messages", ANTHROPIC), ("/responses", RESPONSES), ("", CHAT)) if request.path.endswith(suffix)
        )
        turns = request.body.get("messages") or request.body["input"]
        last = turns if isinstance(turns, str) else json.dumps(turns[-1])
        thinks = bool(request.body.get(_REASONING_FIELDS[dialect]))
        if thinks and (SCENARIO["again"] in last or self._is_result(last)):
            self.signatures_returned.append(SIGNATURE.encode() in request.raw)
        parts = self._parts(request, last)
        if thinks:
            signed = dialect == ANTHROPIC or "reasoning.encrypted_content" in request.body.get("include", ())
            parts = (Reasoning(REASONING, OpaqueState(dialect, SIGNATURE) if signed else None), *parts)
        calls = any(isinstance(part, ToolCall) for part in parts)
        usage = Usage(input=20, output=9)
        if dialect == RESPONSES:
            request = _ResponsesRequest(**vars(request), number=next(self._answered))
        await respond_with(Situation(name=last, parts=parts, finish="tool_calls" if calls else "stop", usage=usage))(request)

    def _parts(self, request: ReceivedRequest, last: str) -> tuple[Part, ...]:
        if self._is_result(last):
            return (Text(WEATHER_TEXT),)
        if SCENARIO["weather_and_time"] in last:
            return (Text("I will look."), _call("get_weather"), _call("get_time"))
        if SCENARIO["weather"] in last:
            return (_call("get_weather"),)
        if SCENARIO["person"] in last or SCENARIO["picture"] in last:
            tools: list[dict[str, Any]] = request.body.get("tools") or []
            if tools:
                return (ToolCall("call_person", _name(tools[0]), PERSON_JSON),)
            if SCENARIO["person"] in last:
                return (Text(PERSON_JSON),)
            has_image = SCENARIO["png"].encode() in request.raw
            return (Text("I see image/png, 70 bytes." if has_image else "I see nothing."),)
        return (Text(GREETING),)

    def _is_result(self, last: str) -> bool:
        return SCENARIO["sunny"] in last or SCENARIO["noon"] in last


def _call(name: str) -> ToolCall:
    return ToolCall(f"call_{name}", name, '{"city": "Paris"}')


def _name(tool: dict[str, Any]) -> str:
    return tool["name"] if "name" in tool else tool["function"]["name"]
