"""The cases in tests/replay/cases: a caller's request, the engine's request and response, and the caller's response."""

import pytest

from tests.replay.play import CASES, Case, cases, play

ALL = cases()


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_case_plays_as_written(case: Case) -> None:
    played = play(case)
    if case.expected_error is None:
        assert played.error is None
        assert (played.upstream_request, played.dropped, played.response) == (case.upstream_request, case.dropped, case.response)
        assert (played.stream_error, played.usage, played.finish_reason) == (case.stream_error, case.usage, case.finish_reason)
        return
    assert played.error is not None
    assert (played.error.status, played.error.kind, played.error.param) == (
        case.expected_error.status,
        case.expected_error.type,
        case.expected_error.param,
    )
    assert case.expected_error.message_contains in played.error.message
    assert played.error.retry_after_s == case.expected_error.retry_after_s
    # If the engine is called the case holds its request; else the request was refused before.
    assert (played.upstream_request, played.response) == (case.upstream_request, None)


def test_every_case_expects_a_response_or_an_error() -> None:
    """A case also has the engine's response, unless nothing is sent to the engine."""
    assert len(ALL) == len(list(CASES.iterdir())) >= 9
    for name, case in ALL.items():
        assert (case.response is None) != (case.expected_error is None), name
        assert (case.upstream_request is None) == (case.upstream_response is None), name
