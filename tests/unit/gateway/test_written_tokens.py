"""The count of tokens that have come of a stream that breaks off before its usage is reported."""

from collections.abc import Sequence

import pytest

from app.gateway.response_translation.written_tokens import ArrivedTokenCounter
from providers.canonical.chat import Usage
from providers.canonical.events import PartDelta, UsageReported


def count(pieces: Sequence[str | int]) -> int:
    """Returns the count of tokens. `pieces` holds texts as they came; a number is what the engine reports at that place."""
    counter = ArrivedTokenCounter()
    for piece in pieces:
        counter.observe(UsageReported(Usage(7, piece)) if isinstance(piece, int) else PartDelta(0, 0, piece))
    return counter.tokens


# What tokenizers make of texts, as an engine streams it: each token by itself.
STREAMED = {
    "words": ["The", " quick", " brown", " fox", " jumps", ",", " internationally", "."],
    "code": ["def", " f", "(x", "):\n", "   ", " return", " x", " +=", " ", "1", "\n\n"],
    "digits": ["3", ".", "14", "159", "265"],
    "chinese": ["你", "好", "，", "世界", "。"],
    "one_letter_each": list("aaaaaaaaaaaaaaaaaaaa"),
}


@pytest.mark.parametrize("name", [name for name in STREAMED if name != "code"])
def test_each_token_that_came_by_itself_counts_as_one(name: str):
    assert count(STREAMED[name]) == len(STREAMED[name])


def test_code_counts_about_as_many_as_came():
    assert abs(count(STREAMED["code"]) - len(STREAMED["code"])) <= 1


def test_what_came_in_larger_pieces_is_estimated_by_its_bytes():
    assert count(["The quick brown fox", " jumps over the lazy dog."]) == 11  # 44 bytes
    assert count(["Hi", " there, how can I help you today?"]) == 1 + 9


@pytest.mark.parametrize(
    ("pieces", "tokens"),
    [
        (["One two three four", 4], 4),
        (["One", 1, " two three four five six", 6, " seven"], 7),
        ([1, "One", " two", " three"], 3),
        (["", 0, "One"], 1),
        ([], 0),
    ],
    ids=["after_a_piece", "in_the_midst", "before_all", "none_written", "nothing"],
)
def test_what_the_engine_says_in_the_midst_is_the_count_up_to_there(pieces: Sequence[str | int], tokens: int):
    assert count(pieces) == tokens
