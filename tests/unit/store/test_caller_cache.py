"""The cache of callers by key: it is bounded, and the last used entries stay."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from app.domain.callers import Caller
from app.store.keys.caller_cache import CallerCache

Step = tuple[Literal["get", "put", "pop", "peek"], bytes]
HASHES = st.integers(0, 15).map(lambda number: bytes([number]))
STEPS = st.lists(st.tuples(st.sampled_from(["get", "put", "pop", "peek"]), HASHES), max_size=120)


def caller_for(hash: bytes) -> Caller:
    return Caller(key_id=hash.hex(), team_id="t", team="t", content="full")


@given(st.integers(1, 9), STEPS)
def test_recently_used_half_stays_cached_and_size_stays_bounded(max_entries: int, steps: list[Step]):
    sizes_at_eviction: list[int] = []
    cache = CallerCache(max_entries, {}, on_evicted=lambda: sizes_at_eviction.append(len(cache)))
    used: list[bytes] = []  # the last one last
    for step, hash in steps:
        match step:
            case "put":
                cache.put(hash, caller_for(hash))
            case "get" | "peek":
                cached = cache.get(hash) if step == "get" else cache.peek(hash)
                assert cached is None or cached == caller_for(hash)
            case "pop":
                assert cache.pop(hash) or hash not in used
                assert cache.peek(hash) is None
        if step != "peek":
            used = [each for each in used if each != hash]
        if step != "peek" and cache.peek(hash) is not None:
            used.append(hash)
        # What was used before these may be evicted, and does not come back when one of them is removed.
        used = used[-max(max_entries // 2, 1) :]
        assert len(cache) == len(cache.all_callers()) <= max(max_entries, 2) + 1
        assert all(cache.peek(each) == caller_for(each) for each in used)
    assert all(size <= max(max_entries, 2) + 1 for size in sizes_at_eviction)


@given(st.integers(2, 9), st.lists(HASHES, unique=True))
def test_preloaded_cache_keeps_the_latest_entries(max_entries: int, hashes: list[bytes]):
    cache = CallerCache(max_entries, {hash: caller_for(hash) for hash in hashes}, on_evicted=lambda: None)
    assert list(cache.all_callers()) == hashes[-(max_entries // 2) * 2 :]
