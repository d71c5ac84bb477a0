"""Tokens as the sandbox counts them: one rule for prompts and answers, so that anyone can count along."""

import re

# Greedy from the left, and every character belongs to exactly one piece: joining the pieces gives the text back.
TOKEN_PATTERN = re.compile(r" ?\w{1,6}|[\s\S]")

CONTEXT_LENGTH = 131_072
"""How many tokens a prompt may have."""

MESSAGE_TOKENS = 3
"""What a message costs beside its text: its role and its two ends."""

IMAGE_TOKENS, LOW_DETAIL_IMAGE_TOKENS, FILE_TOKENS, AUDIO_TOKENS = 765, 85, 500, 250
"""What a part that is not text costs, whatever its size: a fixed price is one that a test can state."""


def split_tokens(text: str) -> list[str]:
    """The tokens of a text: up to six letters or digits with the space before them, or any other single character."""
    return TOKEN_PATTERN.findall(text)


def count_tokens(text: str) -> int:
    return len(TOKEN_PATTERN.findall(text))
