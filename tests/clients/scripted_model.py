"""A scripted engine that answers the clients' prompts as a model would, in the dialect of the request, and checks returned signatures."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
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
GEMINI = "gemini"
BEDROCK = "bedrock_converse"
# Of all runs: no item of a real engine has the id of another one.
_ANSWERED = count()
_DIALECTS = {
    "/messages": ANTHROPIC,
    "/responses": RESPONSES,
    "enerateContent": GEMINI,
    "/converse": BEDROCK,
    "/converse-stream": BEDROCK,
}
# The file that aider edits, as it is afterwards.
_GREETING_FILE = "greet.py"
EDITED_FILE = 'print("It is sunny in Paris.")\n'
# How the coding agents read a file: their tools' names and arguments.
_WEATHER_FILE = re.compile(r"/[\w/.-]*weather\.txt")
_FILE_READERS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "Read": lambda path: {"file_path": path},
    "read": lambda path: {"filePath": path},
    "read_files": lambda path: {"files": [{"path": path}]},
    "exec_command": lambda path: {"cmd": f"cat {path}"},
    "shell": lambda path: {"command": ["cat", path]},
    "shell_command": lambda path: {"command": f"cat {path}"},
}


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
    """A model that plays the scenario in every dialect."""

    def __init__(self) -> None:
        self.signatures_returned: list[bool] = []  # for each turn after reasoning of its own, whether the signature was sent back

    async def script(self, request: ReceivedRequest) -> None:
        if not request.body:  # a probe of the gateway
            await request.respond_completion()
            return
        path = request.path.partition("?")[0]
        dialect = next((name for suffix, name in _DIALECTS.items() if path.endswith(suffix)), CHAT)
        turns = request.body.get("messages") or request.body.get("contents") or request.body["input"]
        whole = json.dumps(turns)
        last = turns if isinstance(turns, str) else json.dumps(turns[-1])
        thinks = _thinks(request.body)
        if thinks and (SCENARIO["again"] in last or self._is_result(last)):
            self.signatures_returned.append(SIGNATURE.encode() in request.raw)
        parts = self._parts(request, last, whole)
        if thinks:
            signed = dialect == ANTHROPIC or "reasoning.encrypted_content" in request.body.get("include", ())
            parts = (Reasoning(REASONING, OpaqueState(dialect, SIGNATURE) if signed else None), *parts)
        calls = any(isinstance(part, ToolCall) for part in parts)
        usage = Usage(input=20, output=9)
        if dialect == RESPONSES:
            request = _ResponsesRequest(**vars(request), number=next(_ANSWERED))
        await respond_with(Situation(name=last, parts=parts, finish="tool_calls" if calls else "stop", usage=usage))(request)

    def _parts(self, request: ReceivedRequest, last: str, whole: str) -> tuple[Part, ...]:
        tools = list(tool_names(request.body))
        if tools and (file := _WEATHER_FILE.search(whole)):
            return (_agent_turn(file[0], tools, whole, request.raw),)
        if _GREETING_FILE in last:
            return (Text(f"{_GREETING_FILE}\n```\n{EDITED_FILE}```\n"),)
        if "[[ ## completed ## ]]" in last:
            return (Text(_dspy_step(last)),)
        if self._is_result(last):
            return (
                ToolCall("call_end", "final_answer", json.dumps({"answer": WEATHER_TEXT}))
                if "final_answer" in tools
                else Text(WEATHER_TEXT),
            )
        if SCENARIO["weather_and_time"] in last:
            return (Text("I will look."), _call("get_weather"), _call("get_time"))
        if SCENARIO["weather"] in last:
            return (_call("get_weather"),)
        if SCENARIO["person"] in last or SCENARIO["picture"] in last:
            if tools:
                return (ToolCall("call_person", tools[0], PERSON_JSON),)
            if SCENARIO["person"] in last:
                return (Text(PERSON_JSON),)
            has_image = SCENARIO["png"].encode() in request.raw
            return (Text("I see image/png, 70 bytes." if has_image else "I see nothing."),)
        return (Text(GREETING),)

    def _is_result(self, last: str) -> bool:
        return SCENARIO["sunny"] in last or SCENARIO["noon"] in last


def _call(name: str) -> ToolCall:
    return ToolCall(f"call_{name}", name, '{"city": "Paris"}')


def _agent_turn(file: str, tools: list[str], whole: str, raw: bytes) -> Part:
    """Reads the file, and then answers. Some agents put further messages behind the prompt or the result."""
    if SCENARIO["sunny"] in whole:
        return Text(WEATHER_TEXT)
    return read_file_call("call_file", file, tools, raw)


def read_file_call(id: str, file: str, tools: list[str], raw: bytes) -> ToolCall:
    """The call by which the agent with these tools reads a file."""
    name, arguments = next((name, arguments) for name, arguments in _FILE_READERS.items() if name in tools)
    # Continue's tool has Claude Code's name, and Claude Code refuses a call with an argument that it does not know.
    if name == "Read" and b'"filepath"' in raw:
        return ToolCall(id, name, json.dumps({"filepath": file}))
    return ToolCall(id, name, json.dumps(arguments(file)))


def _dspy_step(prompt: str) -> str:
    """The fields that DSPy's prompt asks for, as text."""
    if "next_tool_name" not in prompt:
        fields = {"reasoning": "I looked it up.", "answer": WEATHER_TEXT}
    elif SCENARIO["sunny"] in prompt:
        fields = {"next_thought": "I know it.", "next_tool_name": "finish", "next_tool_args": "{}"}
    else:
        fields = {"next_thought": "I look it up.", "next_tool_name": "get_weather", "next_tool_args": '{"city": "Paris"}'}
    return "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in fields.items()) + "[[ ## completed ## ]]"


def _thinks(body: Mapping[str, Any]) -> bool:
    wanted = body.get("reasoning_effort") or body.get("reasoning") or body.get("thinking")
    wanted = wanted or body.get("generationConfig", {}).get("thinkingConfig")
    return bool(wanted or "reasoningConfig" in body.get("additionalModelRequestFields", {}))


def tool_names(body: Mapping[str, Any]) -> Iterator[str]:
    for tool in body.get("tools") or body.get("toolConfig", {}).get("tools") or ():
        for each in tool.get("functionDeclarations") or (tool.get("function") or tool.get("toolSpec") or tool,):
            if "name" in each:
                yield each["name"]
