"""What is remembered of keys: bounded, and what was used last stays."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from app.domain import Caller
from app.store.caller_cache import CallerCache

Step = tuple[Literal["get", "put", "pop", "peek"], bytes]
HASHES = st.integers(0, 15).map(lambda number: bytes([number]))
STEPS = st.lists(st.tuples(st.sampled_from(["get", "put", "pop", "peek"]), HASHES), max_size=120)


def of(hash: bytes) -> Caller:
    return Caller(key_id=hash.hex(), team_id="t", team="t", content="full")


@given(st.integers(1, 9), STEPS)
def test_the_half_that_was_used_last_is_there_and_never_more_than_one_too_many(most: int, steps: list[Step]):
    forgotten: list[int] = []
    recent = CallerCache(most, {}, on_evicted=lambda: forgotten.append(len(recent)))
    used: list[bytes] = []  # the last one last
    for step, hash in steps:
        match step:
            case "put":
                recent.put(hash, of(hash))
            case "get" | "peek":
                told = recent.get(hash) if step == "get" else recent.peek(hash)
                assert told is None or told == of(hash)
            case "pop":
                assert recent.pop(hash) or hash not in used[-max(most // 2, 1) :]
                assert recent.peek(hash) is None
        if step != "peek":
            used = [each for each in used if each != hash]
        if step != "peek" and recent.peek(hash) is not None:
            used.append(hash)
        assert len(recent) == len(recent.all_callers()) <= max(most, 2) + 1
        assert all(recent.peek(each) == of(each) for each in used[-max(most // 2, 1) :])
    assert all(left <= max(most, 2) + 1 for left in forgotten)


@given(st.integers(2, 9), st.lists(HASHES, unique=True))
def test_what_was_remembered_is_remembered_again_the_latest_of_it(most: int, hashes: list[bytes]):
    recent = CallerCache(most, {hash: of(hash) for hash in hashes}, on_evicted=lambda: None)
    assert list(recent.all_callers()) == hashes[-(most // 2) * 2 :]
