"""Token estimates: what limits reserve before a request; the reservation is settled to the exact usage afterwards.

Text counts a third of its bytes: more than tokenizers make of European languages, and about what they make of Chinese. Media has fixed
estimates, whatever its size: an image of 5 MB is as many tokens as one of 50 kB.

What a model wrote counts a quarter of its bytes in UTF-8, as nobody reserves for it: the count that comes closest is the best. It is
the same for a response and for a stream of it, whatever it is cut into: texts, reasoning and the arguments of calls.
"""

from typing import Any, cast

import msgspec

from providers.canonical.raw_json import DECODE_ERRORS

# About what tokenizers make of English; of Chinese, with three bytes a character, they make three quarters of a token each.
BYTES_PER_WRITTEN_TOKEN = 4
# The fields of choices, output items and content blocks that hold what the model wrote.
_WRITTEN_FIELDS = frozenset({"arguments", "content", "input", "reasoning", "reasoning_content", "refusal", "text", "thinking"})

# One image: OpenAI's high detail takes 765 to 1,105 (https://platform.openai.com/docs/guides/images-vision), Anthropic at most about
# 1,600 (https://docs.anthropic.com/en/docs/build-with-claude/vision), both read 2026-11.
IMAGE_TOKENS = 1_600
# One file: a document of some pages, at 1,500 to 3,000 tokens each
# (https://docs.anthropic.com/en/docs/build-with-claude/pdf-support, read 2026-11).
FILE_TOKENS = 10_000
# One recording: five minutes, at 10 tokens a second (https://platform.openai.com/docs/guides/audio, read 2026-11).
AUDIO_TOKENS = 3_000


def text_tokens(size_bytes: int) -> int:
    """The estimate for a text of this size in UTF-8."""
    return (size_bytes + 2) // 3


def tokens_of_bytes(size_bytes: int) -> int:
    """The estimate for so much that a model wrote."""
    return -(-size_bytes // BYTES_PER_WRITTEN_TOKEN)


def written_tokens(output: bytes) -> int:
    """The estimate for the choices, output items or content blocks of a complete response, as JSON."""
    try:
        return tokens_of_bytes(_written_bytes(msgspec.json.decode(output)))
    except DECODE_ERRORS:
        return 0


def _written_bytes(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_written_bytes, cast(list[Any], value)))
    if not isinstance(value, dict):
        return 0
    size = 0
    for name, field in cast(dict[str, Any], value).items():
        if name in _WRITTEN_FIELDS and isinstance(field, str):
            size += len(field.encode())
        elif name == "input":  # a call's arguments, which Messages have as an object
            size += len(msgspec.json.encode(field))
        else:
            size += _written_bytes(field)
    return size
