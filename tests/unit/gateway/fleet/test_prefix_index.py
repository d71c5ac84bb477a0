"""The index of where prompts were sent finds the beginning that two prompts share, in bounded memory."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.fleet import prefix_index
from app.gateway.fleet.prefix_index import BLOCK_ENDS, PrefixIndex, block_keys, prompt_of
from providers.canonical.raw_json import Body

ALL = 0b111


def test_blocks_grow_and_cover_a_megabyte():
    sizes = [end - start for start, end in zip((0, *BLOCK_ENDS), BLOCK_ENDS, strict=False)]
    assert len(sizes) == 128 and sizes[0] == 64 and sizes == sorted(sizes) and 1_000_000 < BLOCK_ENDS[-1] < 1_100_000


@given(st.binary(max_size=5_000), st.binary(max_size=3_000), st.binary(max_size=3_000))
def test_two_prompts_have_the_keys_of_their_common_beginning(beginning: bytes, one: bytes, two: bytes):
    common = len(beginning) if one[:1] != two[:1] else None
    first, second = block_keys("m", beginning + one), block_keys("m", beginning + two)
    shared = sum(1 for each, other in zip(first, second, strict=False) if each == other)
    blocks_of_beginning = sum(1 for end in BLOCK_ENDS if end <= len(beginning))
    assert shared >= blocks_of_beginning
    assert common is None or not one or not two or shared == blocks_of_beginning


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(min_size=200, max_size=900)), max_size=6), st.binary(min_size=200, max_size=900))
def test_holders_are_those_that_were_sent_as_many_blocks(sent: list[tuple[int, bytes]], prompt: bytes):
    index, keys = PrefixIndex(), block_keys("m", prompt)
    expected = dict.fromkeys(range(3), 0)
    for slot, each in sent:
        others = block_keys("m", each)
        index.add("team", others, slot)
        expected[slot] = max(expected[slot], sum(1 for one, two in zip(others, keys, strict=False) if one == two))
    found = {slot: count for slots, count in index.find_holders("team", keys, ALL) for slot in range(3) if slots >> slot & 1}
    # A holder of the newest blocks holds those before them, because the keys are chained.
    assert found == {slot: count for slot, count in expected.items() if count}


def test_only_endpoints_of_the_set_are_found():
    index, keys = PrefixIndex(), block_keys("m", b"x" * 500)
    index.add("team", keys, 5)
    assert index.find_holders("team", keys, ALL) == []


def test_least_recently_used_blocks_of_a_team_are_forgotten_and_no_other_teams():
    index, quiet = PrefixIndex(), block_keys("m", b"quiet" * 300)
    index.add("quiet", quiet, 1)
    kept = block_keys("m", b"kept" * 300)
    for number in range(70_000):
        index.add("busy", block_keys("m", b"%064d" % number), 0)
        if number % 1_000 == 0:
            index.add("busy", kept, 2)
    first = block_keys("m", b"%064d" % 0)
    assert index.find_holders("busy", first, ALL) == []
    assert index.find_holders("busy", kept, ALL) == [(0b100, len(kept))]
    assert index.find_holders("quiet", quiet, ALL) == [(0b010, len(quiet))]


def test_teams_are_bounded():
    index = PrefixIndex()
    for number in range(prefix_index._MAX_TEAMS + 10):  # pyright: ignore[reportPrivateUsage]
        index.add(f"team{number}", (1,), 0)
    assert index.find_holders("team0", (1,), ALL) == [] and index.find_holders("team20", (1,), ALL)


def test_prompt_is_tools_and_messages_whatever_order_the_caller_writes():
    one = Body.read(b'{"messages": [1, 2], "temperature": 1, "tools": [3]}')
    two = Body.read(b'{"tools": [3], "model": "m", "messages": [1, 2]}')
    assert prompt_of(one) == prompt_of(two) == b"[3][1, 2]"


def test_replaced_values_are_prompts_too_and_no_longer_than_blocks_cover():
    body = Body.read(b"{}")
    body["input"] = [{"content": "x" * 1_000}] * 3_000
    prompt = prompt_of(body)
    assert len(prompt) == BLOCK_ENDS[-1] and prompt.startswith(b'[{"content":"xxx')
    large = Body.read(json.dumps({"messages": ["y" * 2_000_000], "prompt": "z"}).encode())
    assert len(prompt_of(large)) == BLOCK_ENDS[-1]
    assert isinstance(large["messages"], msgspec.Raw)
