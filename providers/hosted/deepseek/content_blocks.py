"""What messages hold that DeepSeek's Messages do not read, and the thoughts that they want to see before a call.

Sources: https://api-docs.deepseek.com/guides/anthropic_api (which blocks there are, and that `is_error` and `citations` do nothing);
esengine/DeepSeek-Reasonix#8927 and QwenLM/qwen-code#3788 (thoughts: 400 without, and empty ones are taken); read 2026-11.
"""

import msgspec
from msgspec import Raw

from providers.adapters.unsupported_fields import UnsupportedFields
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, Body

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


def adapt_blocks(body: Body, unsupported_fields: UnsupportedFields, *, may_think: bool) -> None:
    """Raises Unsupported for a block that it does not read. `thinks`: it may, in the answer to this."""
    raw = bytes(as_raw(body["messages"])) if body.has_value("messages") else b""
    if not any(marker in raw for marker in _MARKERS):
        return
    try:
        messages = _decode_messages(raw)
        changed = [
            _adapt_message(message, f"messages[{index}].content", unsupported_fields, may_think=may_think)
            for index, message in enumerate(messages)
        ]
    except DECODE_ERRORS:
        return
    if any(changed):
        body["messages"] = messages


def _adapt_message(message: _Block, path: str, unsupported_fields: UnsupportedFields, *, may_think: bool) -> bool:
    """Whether the message was changed."""
    content = bytes(message.get("content", b""))
    if content[:1] != b"[":
        return False
    blocks = _decode_blocks(content)
    kept: list[object] = [block for index, block in enumerate(blocks) if _is_kept(block, f"{path}[{index}]", unsupported_fields)]
    if may_think and message.get("role") == _ASSISTANT and _lacks_thinking_before_calls(blocks):
        kept.insert(0, _EMPTY_THINKING)
    if kept == blocks:
        return False
    message["content"] = Raw(msgspec.json.encode(kept))
    return True


def _is_kept(block: _Block, path: str, unsupported_fields: UnsupportedFields) -> bool:
    block_type = _block_type(block)
    if block_type == _REDACTED_THINKING:
        unsupported_fields.dropped.append(path)
        return False
    if block_type in _UNSUPPORTED_BLOCKS:
        unsupported_fields.drop_path_or_refuse(path, f"its Messages read no {block_type}.")
        return False
    unsupported_fields.dropped += [f"{path}.{key}" for key in _IGNORED_FIELDS if block.get(key, _NEUTRAL_JSON[0]) not in _NEUTRAL_JSON]
    return True


def _lacks_thinking_before_calls(blocks: list[_Block]) -> bool:
    block_types = [_block_type(block) for block in blocks]
    return "tool_use" in block_types and "thinking" not in block_types


def _block_type(block: _Block) -> str:
    return msgspec.json.decode(block.get("type", b'""'), type=str)
