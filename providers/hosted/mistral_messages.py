"""Messages of OpenAI's chat as Mistral takes them: other ids of calls, thinking among the content, documents by address, no more fields.

Sources: mistralai/client-python, src/mistralai/client/models (UserMessage, AssistantMessage, ToolMessage, ThinkChunk, DocumentURLChunk,
FileChunk, AudioChunk), read 2026-11; /shared/exchanges/mistral/13 and 14; codes 3230 and 3280 of its errors, and "Assistant message must
have either content or tool_calls, but not none" (OpenHands/OpenHands#8685).
"""

import re
from typing import Any

from providers.hosted.mistral_ids import Ids
from providers.losses import Losses
from providers.rest import as_raw
from providers.wire import Body

# Without one of these, messages are as it takes them.
_may_be_odd = re.compile(
    rb'"(?:tool_call_id|tool_calls|reasoning|reasoning_content|reasoning_details|refusal|annotations|audio|function_call'
    rb'|name|file|input_audio|cache_control)"|"content"\s*:\s*(?:""|null|\[\s*\])'
).search
# What an assistant's message has there. All else that answers tell, and clients give back, asks for nothing.
_OF_ASSISTANT = frozenset({"role", "content", "tool_calls", "prefix"})
_SAID = frozenset({"audio", "function_call"})
_NOT_THERE = "it has no such field, and refuses what it does not know."
# It wants an answer between what tools gave and what the user says then (code 3230). The same was said there in
# /shared/exchanges/mistral/13-image-url-tool.
_BETWEEN = {"role": "assistant", "content": "OK"}


class Messages:
    def __init__(self, body: Body, losses: Losses) -> None:
        self._body = body
        self._losses = losses

    def bend(self) -> None:
        raw = as_raw(self._body["messages"])
        if _may_be_odd(bytes(raw)) is None:
            return
        messages: list[dict[str, Any]] = Body(messages=raw).value("messages")
        ids = Ids(_ids_in(messages))
        told: list[dict[str, Any]] = []
        for at, message in enumerate(messages):
            path = f"messages[{at}]"
            role = message.get("role")
            if role == "user" and told and told[-1].get("role") == "tool":
                told.append(_BETWEEN)
            self._leave_out(message, path, role)
            if isinstance(message.get("content"), list):
                message["content"] = self._parts(message["content"], path)
            if role == "assistant":
                self._assistant(message, path, ids)
            elif message.get("tool_call_id"):
                message["tool_call_id"] = ids.of(message["tool_call_id"])
            if role != "assistant" or message.get("content") or message.get("tool_calls"):
                told.append(message)  # or it says nothing
        self._body["messages"] = told

    def _leave_out(self, message: dict[str, Any], path: str, role: Any) -> None:
        """Names of participants; and hints to a cache, which it needs none of."""
        if role != "tool" and message.pop("name", None) is not None:
            self._losses.part_with(f"{path}.name", "its messages name no participants.")
        if message.pop("cache_control", None) is not None:
            self._losses.dropped.append(f"{path}.cache_control")

    def _parts(self, parts: list[dict[str, Any]], path: str) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []
        for at, part in enumerate(parts):
            where = f"{path}.content[{at}]"
            if part.pop("cache_control", None) is not None:
                self._losses.dropped.append(f"{where}.cache_control")
            match part:
                case {"type": "file", "file": {"file_data": str(address), **named}}:
                    name = named.get("filename")
                    told.append({"type": "document_url", "document_url": _address(address), **({"document_name": name} if name else {})})
                case {"type": "file", "file": {"file_id": str(id)}}:
                    told.append({"type": "file", "file_id": id})
                case {"type": "input_audio", "input_audio": {"data": str(data)}}:
                    told.append({"type": "input_audio", "input_audio": data})
                case {"type": "refusal", "refusal": str(text)}:
                    told.append({"type": "text", "text": text})
                case _:
                    told.append(part)
        return told

    def _assistant(self, message: dict[str, Any], path: str, ids: Ids) -> None:
        thought = message.get("reasoning_content") or message.get("reasoning")
        refusal = message.pop("refusal", None)
        for key in sorted(message.keys() - _OF_ASSISTANT):
            said = message.pop(key)
            if key in _SAID and said is not None:
                self._losses.part_with(f"{path}.{key}", _NOT_THERE)
            elif key not in ("reasoning_content", "reasoning") and said:
                self._losses.dropped.append(f"{path}.{key}")
        if refusal:
            message["content"] = [*_listed(message.get("content")), {"type": "text", "text": refusal}]
        if isinstance(thought, str) and thought:
            thinking = {"type": "thinking", "thinking": [{"type": "text", "text": thought}], "closed": True}
            message["content"] = [thinking, *_listed(message.get("content"))]
        calls = message.get("tool_calls")
        if calls is not None:
            message["tool_calls"] = [told for at, call in enumerate(calls) for told in self._call(call, f"{path}.tool_calls[{at}]", ids)]

    def _call(self, call: dict[str, Any], path: str, ids: Ids) -> list[dict[str, Any]]:
        if call.get("custom") is not None:
            self._losses.part_with(path, "its tools take JSON, not free text.")
            return []
        if call.pop("extra_content", None) is not None:
            self._losses.dropped.append(f"{path}.extra_content")
        return [{**call, "id": ids.of(call["id"])} if call.get("id") else call]


def _ids_in(messages: list[dict[str, Any]]) -> list[str]:
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    said = [*(call.get("id") for call in calls), *(message.get("tool_call_id") for message in messages)]
    return [id for id in said if id]


def _listed(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, list):
        return content  # pyright: ignore[reportUnknownVariableType]
    return [{"type": "text", "text": content}] if content else []


def _address(data: str) -> str:
    """Mere base64 is a PDF, the one kind that OpenAI reads."""
    return data if ":" in data[:16] else f"data:application/pdf;base64,{data}"
