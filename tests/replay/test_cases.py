"""Our own exchanges: what a caller asks, what the engine is sent and answers, what the caller gets."""

import pytest

from tests.replay.play import CASES, Case, cases, play

ALL = cases()


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_case_plays_as_written(case: Case) -> None:
    played = play(case)
    if case.refused is None:
        assert played.error is None
        assert (played.sent, played.dropped, played.reply) == (case.sent, case.dropped, case.reply)
        assert (played.fails, played.usage, played.finish_reason) == (case.fails, case.usage, case.finish_reason)
        return
    assert played.error is not None
    assert (played.error.status, played.error.kind, played.error.param) == (case.refused.status, case.refused.type, case.refused.param)
    assert case.refused.says in played.error.message
    assert played.error.retry_after_s == case.refused.retry_after_s
    # A case in which the engine is asked says what of; else it was refused before.
    assert (played.sent, played.reply) == (case.sent, None)


def test_every_case_expects_a_response_or_an_error() -> None:
    """Each says either what the caller gets or how it is refused, and the engine's part unless nothing is sent."""
    assert len(ALL) == len(list(CASES.iterdir())) >= 9
    for name, case in ALL.items():
        assert (case.reply is None) != (case.refused is None), name
        assert (case.sent is None) == (case.engine is None), name
