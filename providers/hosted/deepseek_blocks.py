"""What messages hold that DeepSeek's Messages do not read, and the thoughts that they want to see before a call.

Sources: https://api-docs.deepseek.com/guides/anthropic_api (which blocks there are, and that `is_error` and `citations` do nothing);
esengine/DeepSeek-Reasonix#8927 and QwenLM/qwen-code#3788 (thoughts: 400 without, and empty ones are taken); read 2026-11.
"""

import msgspec
from msgspec import Raw

from providers.losses import Losses
from providers.rest import as_raw
from providers.wire import UNREADABLE, Body

_UNREAD = ("document", "search_result", "container_upload", "mcp_tool_use", "mcp_tool_result", "code_execution_tool_result")
_REDACTED = "redacted_thinking"
_OF_NO_EFFECT = ("is_error", "citations")
_LOOKED_FOR = tuple(f'"{word}"'.encode() for word in (*_UNREAD, _REDACTED, *_OF_NO_EFFECT, "tool_use"))
_EMPTY = {"type": "thinking", "thinking": "", "signature": ""}
_ASSISTANT = Raw(b'"assistant"')
_SAY_NOTHING = (Raw(b"null"), Raw(b"false"), Raw(b"[]"))

_Block = dict[str, Raw]
_messages = msgspec.json.Decoder(list[_Block]).decode
_blocks = msgspec.json.Decoder(list[_Block]).decode


def hold_blocks(body: Body, losses: Losses, *, thinks: bool) -> None:
    """Raises Unsupported for a block that it does not read. `thinks`: it may, in the answer to this."""
    raw = bytes(as_raw(body["messages"])) if body.said("messages") else b""
    if not any(word in raw for word in _LOOKED_FOR):
        return
    try:
        messages = _messages(raw)
        held = [_held(message, f"messages[{at}].content", losses, thinks=thinks) for at, message in enumerate(messages)]
    except UNREADABLE:
        return
    if any(held):
        body["messages"] = messages


def _held(message: _Block, place: str, losses: Losses, *, thinks: bool) -> bool:
    """Whether the message was changed."""
    content = bytes(message.get("content", b""))
    if content[:1] != b"[":
        return False
    told = _blocks(content)
    kept: list[object] = [block for at, block in enumerate(told) if _stays(block, f"{place}[{at}]", losses)]
    if thinks and message.get("role") == _ASSISTANT and _calls_without_thoughts(told):
        kept.insert(0, _EMPTY)
    if kept == told:
        return False
    message["content"] = Raw(msgspec.json.encode(kept))
    return True


def _stays(block: _Block, place: str, losses: Losses) -> bool:
    kind = _kind(block)
    if kind == _REDACTED:
        losses.dropped.append(place)
        return False
    if kind in _UNREAD:
        losses.part_with(place, f"its Messages read no {kind}.")
        return False
    losses.dropped += [f"{place}.{key}" for key in _OF_NO_EFFECT if block.get(key, _SAY_NOTHING[0]) not in _SAY_NOTHING]
    return True


def _calls_without_thoughts(blocks: list[_Block]) -> bool:
    kinds = [_kind(block) for block in blocks]
    return "tool_use" in kinds and "thinking" not in kinds


def _kind(block: _Block) -> str:
    return msgspec.json.decode(block.get("type", b'""'), type=str)
