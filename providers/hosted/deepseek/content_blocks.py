"""Content blocks that DeepSeek's Messages API does not read, and the thinking block that it requires before a tool call.

Sources: https://api-docs.deepseek.com/guides/anthropic_api (supported blocks; `is_error` and `citations` have no effect);
esengine/DeepSeek-Reasonix#8927 and QwenLM/qwen-code#3788 (400 without thinking; an empty block is accepted); read 2026-11.
"""

import msgspec
from msgspec import Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.drop_policy import DropPolicy

_UNSUPPORTED_BLOCKS = ("document", "search_result", "container_upload", "mcp_tool_use", "mcp_tool_result", "code_execution_tool_result")
_REDACTED_THINKING = "redacted_thinking"
_IGNORED_FIELDS = ("is_error", "citations")
_MARKERS = tuple(f'"{word}"'.encode() for word in (*_UNSUPPORTED_BLOCKS, _REDACTED_THINKING, *_IGNORED_FIELDS, "tool_use"))
_EMPTY_THINKING = {"type": "thinking", "thinking": "", "signature": ""}
_ASSISTANT = Raw(b'"assistant"')
_NEUTRAL_JSON = (Raw(b"null"), Raw(b"false"), Raw(b"[]"))

_Block = dict[str, Raw]
_decode_messages = msgspec.json.Decoder(list[_Block]).decode
_decode_blocks = msgspec.json.Decoder(list[_Block]).decode


def adapt_blocks(body: Body, drop_policy: DropPolicy, *, may_think: bool) -> None:
    """Raises Unsupported for a block that DeepSeek does not read. `may_think` says that thinking may be on for this request."""
    raw = bytes(as_raw(body["messages"])) if body.has_value("messages") else b""
    if not any(marker in raw for marker in _MARKERS):
        return
    try:
        messages = _decode_messages(raw)
        changed = [
            _adapt_message(message, f"messages[{index}].content", drop_policy, may_think=may_think)
            for index, message in enumerate(messages)
        ]
    except DECODE_ERRORS:
        return
    if any(changed):
        body["messages"] = messages


def _adapt_message(message: _Block, path: str, drop_policy: DropPolicy, *, may_think: bool) -> bool:
    """Changes the message in place; returns whether it did."""
    content = bytes(message.get("content", b""))
    if content[:1] != b"[":
        return False
    blocks = _decode_blocks(content)
    kept: list[object] = [block for index, block in enumerate(blocks) if _is_kept(block, f"{path}[{index}]", drop_policy)]
    if may_think and message.get("role") == _ASSISTANT and _lacks_thinking_before_calls(blocks):
        kept.insert(0, _EMPTY_THINKING)
    if kept == blocks:
        return False
    message["content"] = Raw(msgspec.json.encode(kept))
    return True


def _is_kept(block: _Block, path: str, drop_policy: DropPolicy) -> bool:
    block_type = _block_type(block)
    if block_type == _REDACTED_THINKING:
        drop_policy.report_dropped(path)
        return False
    if block_type in _UNSUPPORTED_BLOCKS:
        drop_policy.drop_path_or_refuse(path, f"its Messages API does not support {block_type} blocks.")
        return False
    for key in _IGNORED_FIELDS:
        if block.get(key, _NEUTRAL_JSON[0]) not in _NEUTRAL_JSON:
            drop_policy.report_dropped(f"{path}.{key}")
    return True


def _lacks_thinking_before_calls(blocks: list[_Block]) -> bool:
    block_types = [_block_type(block) for block in blocks]
    return "tool_use" in block_types and "thinking" not in block_types


def _block_type(block: _Block) -> str:
    return msgspec.json.decode(block.get("type", b'""'), type=str)
