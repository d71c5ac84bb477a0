"""The time at which a refused request would pass is read of its message as it was written there."""

import datetime

import pytest

from app.domain.wait_sentences import may_pass_in, passes_at, passes_in, read_pass_time

RECEIVED = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)
RULE = "The rule 'a' allows 3 requests per minute. 0 requests are left; this request needs 1 request. "


@pytest.mark.parametrize(
    ("sentence", "seconds", "is_estimate"),
    [
        (passes_in(3.75), 3.75, False),
        (passes_in(86_400), 86_400, False),
        (may_pass_in(0.5, returned=False), 0.5, True),
        (may_pass_in(12, returned=True), 12, True),
        (passes_at(datetime.datetime(2026, 11, 22, 0, 0), "Europe/Berlin"), 11 * 3600, False),
        (passes_at(datetime.datetime(2026, 12, 1, 0, 0), "UTC"), 9.5 * 86_400, False),
    ],
)
def test_the_time_is_read_as_it_was_written(sentence: str, seconds: float, is_estimate: bool) -> None:
    found = read_pass_time(RULE + sentence, RECEIVED)
    assert found is not None
    assert (found.at - RECEIVED, found.is_estimate) == (datetime.timedelta(seconds=seconds), is_estimate)


@pytest.mark.parametrize(
    "message",
    [
        "There is no model 'x'.",
        RULE + "This request alone needs 9 requests, so it can never pass.",
        RULE + "It passes at 2026-11-22 00:00 (Nowhere/Else) if no other request comes.",
        "",
    ],
)
def test_other_messages_say_no_time(message: str) -> None:
    assert read_pass_time(message, RECEIVED) is None
