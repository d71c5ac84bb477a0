"""Tokens as the sandbox counts them: one rule for prompts and answers, so that anyone can count along."""

import re

# Greedy from the left, and every character belongs to exactly one piece: joining the pieces gives the text back.
PIECE = re.compile(r" ?\w{1,6}|[\s\S]")

CONTEXT = 131_072
"""How many tokens a prompt may have."""

PER_MESSAGE = 3
"""What a message costs beside its text: its role and its two ends."""

IMAGE, IMAGE_LOW, FILE, AUDIO = 765, 85, 500, 250
"""What a part that is not text costs, whatever its size: a fixed price is one that a test can state."""


def split(text: str) -> list[str]:
    """The tokens of a text: up to six letters or digits with the space before them, or any other single character."""
    return PIECE.findall(text)


def count(text: str) -> int:
    return len(PIECE.findall(text))
