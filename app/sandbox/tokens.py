"""Tokens as the sandbox counts them: one rule for prompts and responses that clients can compute themselves."""

import re

# Every character belongs to exactly one token: joining the tokens gives the text.
TOKEN_PATTERN = re.compile(r" ?\w{1,6}|[\s\S]")

CONTEXT_LENGTH = 131_072
"""Maximum tokens of a prompt."""

MESSAGE_TOKENS = 3
"""The cost of a message beside its text: its role and its two ends."""

IMAGE_TOKENS, LOW_DETAIL_IMAGE_TOKENS, FILE_TOKENS, AUDIO_TOKENS = 765, 85, 500, 250
"""The cost of a media part, whatever its size, so that tests can predict it."""


def split_tokens(text: str) -> list[str]:
    """The tokens of a text: up to six letters or digits with the space before them, or any other single character."""
    return TOKEN_PATTERN.findall(text)


def count_tokens(text: str) -> int:
    return len(TOKEN_PATTERN.findall(text))
