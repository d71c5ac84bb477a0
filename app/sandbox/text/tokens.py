"""Tokens as the sandbox counts them: one rule for prompts and responses that clients can compute themselves."""

import re

# Every character belongs to exactly one token: joining the tokens gives the text.
TOKEN_PATTERN = re.compile(r" ?\w{1,6}|[\s\S]")

MOST_TOKEN_CHARACTERS = 7
"""Of one token: a space, and six letters or digits."""

CONTEXT_LENGTH = 524_288
"""Maximum tokens of a prompt and its response. 200,000 tokens of a real model are up to 400,000 here: code and JSON cost most."""

MAX_COUNTED_TOKENS = 2 * CONTEXT_LENGTH
"""Maximum of all prompts of a request, or of what is counted without an answer: to count them takes a tenth of a second."""

MESSAGE_TOKENS = 3
"""The cost of a message beside its text: its role and its two ends."""

IMAGE_TOKENS, LOW_DETAIL_IMAGE_TOKENS, FILE_TOKENS, AUDIO_TOKENS = 765, 85, 500, 250
"""The cost of a media part, whatever its size, so that tests can predict it."""


def split_tokens(text: str) -> list[str]:
    """The tokens of a text: up to six letters or digits with the space before them, or any other single character."""
    return [match[0] for match in TOKEN_PATTERN.finditer(text)]


def count_tokens(text: str) -> int:
    """Returns the number of tokens.

    A text that has more than MAX_COUNTED_TOKENS in any case is not counted: its least possible number is
    returned, which is quick to compute.
    """
    if len(text) > MAX_COUNTED_TOKENS * MOST_TOKEN_CHARACTERS:
        return len(text) // MOST_TOKEN_CHARACTERS
    # Not findall(): with a long text it would hold the interpreter's lock, and the event loop beside it, until it has all.
    return sum(1 for _ in TOKEN_PATTERN.finditer(text))
