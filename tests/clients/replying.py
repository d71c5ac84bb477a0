"""An engine that answers the scripts' questions as a model would, in the dialect it is asked in, and watches what it gets back."""

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
from tests.stories.scripted import Asked
from tests.stories.speaking_engines import speaking

SCENARIO: Mapping[str, str] = json.loads((HERE / "scripts" / "scenario.json").read_text())
PERSON = '{"name": "Ada", "age": 36}'
HELLO = "Hello there, nice to meet you."
THOUGHT = "They greet me. I greet them."
SUNNY = "It is sunny in Paris."
# As long as real ones are, and with what a client might mistake for the end of a word.
SEAL = base64.b64encode(bytes(range(256)) * 4).decode()

_ITEM_ID = re.compile(rb'"(msg|rs|fc)_(\d+)"')
_FREE_TEXT = b'"text": {"format": {"type": "text"}}'
_THINKS = {CHAT: "reasoning_effort", RESPONSES: "reasoning", ANTHROPIC: "thinking"}


@dataclass
class _AskedForResponse(Asked):
    """Says as real engines do what clients of Responses look for: ids that no other answer has, and the shape that was asked for."""

    number: int = 0

    async def answer(self, status: int, body: bytes, headers: str = "content-type: application/json\r\n") -> None:
        await super().answer(status, self._told(body), headers)

    def piece(self, data: bytes) -> None:
        super().piece(self._told(data))

    def _told(self, said: bytes) -> bytes:
        said = _ITEM_ID.sub(rb'"\1_%d_\2"' % self.number, said)
        if "text" not in self.body:
            return said
        return said.replace(_FREE_TEXT, b'"text": ' + json.dumps(self.body["text"]).encode())


class Replies:
    """`returned`: for each turn that followed reasoning of its own, whether what sealed it came back."""

    def __init__(self) -> None:
        self.returned: list[bool] = []
        self._answered = count()

    async def script(self, asked: Asked) -> None:
        if not asked.body:  # the gateway asks now and then who it is
            await asked.whole()
            return
        dialect = next(name for end, name in (("/messages", ANTHROPIC), ("/responses", RESPONSES), ("", CHAT)) if asked.path.endswith(end))
        turns = asked.body.get("messages") or asked.body["input"]
        last = turns if isinstance(turns, str) else json.dumps(turns[-1])
        thinks = bool(asked.body.get(_THINKS[dialect]))
        if thinks and (SCENARIO["again"] in last or self._is_result(last)):
            self.returned.append(SEAL.encode() in asked.raw)
        parts = self._parts(asked, last)
        if thinks:
            sealed = dialect == ANTHROPIC or "reasoning.encrypted_content" in asked.body.get("include", ())
            parts = (Reasoning(THOUGHT, OpaqueState(dialect, SEAL) if sealed else None), *parts)
        calls = any(isinstance(part, ToolCall) for part in parts)
        usage = Usage(input=20, output=9)
        if dialect == RESPONSES:
            asked = _AskedForResponse(**vars(asked), number=next(self._answered))
        await speaking(Situation(name=last, parts=parts, finish="tool_calls" if calls else "stop", usage=usage))(asked)

    def _parts(self, asked: Asked, last: str) -> tuple[Part, ...]:
        if self._is_result(last):
            return (Text(SUNNY),)
        if SCENARIO["weather_and_time"] in last:
            return (Text("I will look."), _call("get_weather"), _call("get_time"))
        if SCENARIO["weather"] in last:
            return (_call("get_weather"),)
        if SCENARIO["person"] in last or SCENARIO["picture"] in last:
            tools: list[dict[str, Any]] = asked.body.get("tools") or []
            if tools:
                return (ToolCall("call_person", _name(tools[0]), PERSON),)
            if SCENARIO["person"] in last:
                return (Text(PERSON),)
            seen = SCENARIO["png"].encode() in asked.raw
            return (Text("I see image/png, 70 bytes." if seen else "I see nothing."),)
        return (Text(HELLO),)

    def _is_result(self, last: str) -> bool:
        return SCENARIO["sunny"] in last or SCENARIO["noon"] in last


def _call(name: str) -> ToolCall:
    return ToolCall(f"call_{name}", name, '{"city": "Paris"}')


def _name(tool: dict[str, Any]) -> str:
    return tool["name"] if "name" in tool else tool["function"]["name"]
