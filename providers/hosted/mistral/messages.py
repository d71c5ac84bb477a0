"""OpenAI's chat messages as Mistral accepts them: its tool call ids, thinking in the content, documents by URL, no other fields.

Sources: mistralai/client-python, src/mistralai/client/models (UserMessage, AssistantMessage, ToolMessage, ThinkChunk, DocumentURLChunk,
FileChunk, AudioChunk), read 2026-11; recordings mistral/13 and 14; codes 3230 and 3280 of its errors, and "Assistant message must
have either content or tool_calls, but not none" (OpenHands/OpenHands#8685).
"""

import re
from typing import Any, cast

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.participant_names import name_in_text
from providers.profiles.mistral import ToolCallIds

# Messages without any of these need no changes.
_may_need_adapting = re.compile(
    rb'"(?:tool_call_id|tool_calls|reasoning|reasoning_content|reasoning_details|refusal|annotations|audio|function_call'
    rb'|name|file|input_audio|cache_control)"|"content"\s*:\s*(?:""|null|\[\s*\])'
).search
# The fields of an assistant message. Clients send back more of a response, which changes nothing and is dropped.
_ASSISTANT_FIELDS = frozenset({"role", "content", "tool_calls", "prefix"})
_CONTENT_FIELDS = frozenset({"audio", "function_call"})
_UNKNOWN_FIELD_REASON = "it does not have this field and rejects unknown fields."
# It requires an assistant message between tool results and the next user message (code 3230). The same text was sent in
# recording mistral/13-image-url-tool.
_FILLER_MESSAGE = {"role": "assistant", "content": "OK"}


class MessageAdapter:
    """Adapts the messages of one body in place, and refuses or reports what has to go."""

    def __init__(self, body: Body, drop_policy: DropPolicy) -> None:
        self._body = body
        self._drop_policy = drop_policy
        self._assistants = 0  # how many names assistant messages have

    def adapt(self) -> None:
        raw = as_raw(self._body["messages"])
        if _may_need_adapting(bytes(raw)) is None:
            return
        messages: list[dict[str, Any]] = Body(messages=raw).value("messages")
        ids = ToolCallIds(_collect_call_ids(messages))
        self._assistants = len({message.get("name") for message in messages if message.get("role") == "assistant"} - {None})
        adapted: list[dict[str, Any]] = []
        for index, message in enumerate(messages):
            path = f"messages[{index}]"
            role = message.get("role")
            if role == "user" and adapted and adapted[-1].get("role") == "tool":
                adapted.append(_FILLER_MESSAGE)
            self._drop_unsupported(message, path, role)
            if isinstance(message.get("content"), list):
                message["content"] = self._adapt_parts(message["content"], path)
            if role == "assistant":
                self._adapt_assistant(message, path, ids)
            elif message.get("tool_call_id"):
                message["tool_call_id"] = ids.replacement(message["tool_call_id"])
            if role != "assistant" or message.get("content") or message.get("tool_calls"):
                adapted.append(message)  # an assistant message must have content or calls
        self._body["messages"] = adapted

    def _drop_unsupported(self, message: dict[str, Any], path: str, role: Any) -> None:
        """Writes names of participants into the text, and drops cache hints, which it does not need."""
        if role != "tool" and (name := message.pop("name", None)) is not None:
            self._write_name(message, path, str(name))
        if message.pop("cache_control", None) is not None:
            self._drop_policy.report_dropped(f"{path}.cache_control")

    def _write_name(self, message: dict[str, Any], path: str, name: str) -> None:
        """Writes the participant's name into the message's text, as write_participant_names() does."""
        content = message.get("content")
        parts: list[dict[str, Any]] = cast(list[dict[str, Any]], content) if isinstance(content, list) else []
        texts = [part for part in parts if part.get("type") == "text"]
        if message.get("role") == "assistant" and self._assistants == 1:
            self._drop_policy.report_dropped(f"{path}.name")
        elif isinstance(content, str):
            message["content"] = name_in_text(name, content)
        elif texts:
            texts[0]["text"] = name_in_text(name, texts[0]["text"])
        else:
            self._drop_policy.drop_path_or_refuse(f"{path}.name", "its messages name no participants, and this one has no text that could.")

    def _adapt_parts(self, parts: list[dict[str, Any]], path: str) -> list[dict[str, Any]]:
        adapted: list[dict[str, Any]] = []
        for index, part in enumerate(parts):
            part_path = f"{path}.content[{index}]"
            if part.pop("cache_control", None) is not None:
                self._drop_policy.report_dropped(f"{part_path}.cache_control")
            match part:
                case {"type": "file", "file": {"file_data": str(address), **named}}:
                    name = named.get("filename")
                    adapted.append(
                        {"type": "document_url", "document_url": _as_data_url(address), **({"document_name": name} if name else {})}
                    )
                case {"type": "file", "file": {"file_id": str(id)}}:
                    adapted.append({"type": "file", "file_id": id})
                case {"type": "input_audio", "input_audio": {"data": str(data)}}:
                    adapted.append({"type": "input_audio", "input_audio": data})
                case {"type": "refusal", "refusal": str(text)}:
                    adapted.append({"type": "text", "text": text})
                case _:
                    adapted.append(part)
        return adapted

    def _adapt_assistant(self, message: dict[str, Any], path: str, ids: ToolCallIds) -> None:
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        refusal = message.pop("refusal", None)
        for key in sorted(message.keys() - _ASSISTANT_FIELDS):
            value = message.pop(key)
            if key in _CONTENT_FIELDS and value is not None:
                self._drop_policy.drop_path_or_refuse(f"{path}.{key}", _UNKNOWN_FIELD_REASON)
            elif key not in ("reasoning_content", "reasoning") and value:
                self._drop_policy.report_dropped(f"{path}.{key}")
        if refusal:
            message["content"] = [*_as_parts(message.get("content")), {"type": "text", "text": refusal}]
        if isinstance(reasoning, str) and reasoning:
            thinking = {"type": "thinking", "thinking": [{"type": "text", "text": reasoning}], "closed": True}
            message["content"] = [thinking, *_as_parts(message.get("content"))]
        calls = message.get("tool_calls")
        if calls is not None:
            message["tool_calls"] = [
                adapted for index, call in enumerate(calls) for adapted in self._adapt_call(call, f"{path}.tool_calls[{index}]", ids)
            ]

    def _adapt_call(self, call: dict[str, Any], path: str, ids: ToolCallIds) -> list[dict[str, Any]]:
        if call.get("custom") is not None:
            self._drop_policy.drop_path_or_refuse(path, "its tools accept JSON, not free text.")
            return []
        if call.pop("extra_content", None) is not None:
            self._drop_policy.report_dropped(f"{path}.extra_content")
        return [{**call, "id": ids.replacement(call["id"])} if call.get("id") else call]


def _collect_call_ids(messages: list[dict[str, Any]]) -> list[str]:
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    ids = [*(call.get("id") for call in calls), *(message.get("tool_call_id") for message in messages)]
    return [id for id in ids if id]


def _as_parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, list):
        return content  # pyright: ignore[reportUnknownVariableType]
    return [{"type": "text", "text": content}] if content else []


def _as_data_url(data: str) -> str:
    """A data URL. Plain base64 is a PDF, the only kind of file that OpenAI accepts."""
    return data if ":" in data[:16] else f"data:application/pdf;base64,{data}"
