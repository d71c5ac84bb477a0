"""Conversations of responses that name the previous one: the history comes back complete, in order, and within bounds."""

import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from app.api.callers.responses import paginate
from app.domain.callers import Caller
from app.domain.uuid7 import mint
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.memory.body_memory import BodyMemory
from app.gateway.responses_state.history import MAX_TURNS, BoundedFind, ConversationTurn, InputItem, conversation_input_items, load_history
from app.gateway.responses_state.item_references import resolve_references, unresolved_references
from app.settings import Settings
from providers.canonical.errors import BodyMemoryExceeded, InvalidRequest, Unavailable, UnknownResponse
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import text_tokens
from providers.dialects.openai_responses.item_ids import item_id
from providers.transport.loop_turns import LoopTurns
from tests.support.processes.wait_until import wait_until
from tests.support.strategies.chat_strategies import META, bounded, texts

LARGE_REQUESTS = LargeRequests(Settings(), LoopTurns()).of_team("team")
# Of each turn: how many turns back the one lies that it continues (0: none), the user's text, and the assistant's text.
turn_plans = st.tuples(st.integers(0, 5), texts, texts)


class FakeTurnStore:
    """Turns by id, as the store finds them."""

    def __init__(self) -> None:
        self.turns: dict[str, ConversationTurn] = {}

    def put(self, previous: str | None, user_text: str, assistant_text: str) -> str:
        id = f"resp_{mint()}"
        request: dict[str, Any] = {"model": "m", "input": [user(user_text)]}
        if previous is not None:
            request["previous_response_id"] = previous
        response = {"id": id, "object": "response", "status": "completed", "output": [assistant(assistant_text)]}
        self.turns[id] = ConversationTurn(id, Body.read(json.dumps(request).encode()), json.dumps(response).encode())
        return id

    async def find_turn(self, id: str) -> ConversationTurn:
        if id not in self.turns:
            raise UnknownResponse(id)
        return self.turns[id]


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_{mint()}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def role_texts(items: list[Any]) -> list[tuple[str, str]]:
    """Roles and texts of items in JSON."""
    decoded = [json.loads(bytes(item)) for item in items]
    return [(each["role"], each["content"] if isinstance(each["content"], str) else each["content"][0]["text"]) for each in decoded]


@bounded
@given(st.lists(turn_plans, min_size=1, max_size=12))
async def test_history_holds_only_its_branchs_turns_oldest_first(plans: list[tuple[int, str, str]]):
    store = FakeTurnStore()
    ids: list[str] = []
    expected: list[list[tuple[str, str]]] = []
    for back, user_text, assistant_text in plans:
        before = len(ids) - back if 0 < back <= len(ids) else None
        ids.append(store.put(None if before is None else ids[before], user_text, assistant_text))
        expected.append([*([] if before is None else expected[before]), ("user", user_text), ("assistant", assistant_text)])
    assert role_texts((await load_history(ids[-1], store.find_turn, 1_000_000, LARGE_REQUESTS)).items) == expected[-1]


async def test_history_beyond_max_turns_is_refused():
    store = FakeTurnStore()
    last: str | None = None
    for _ in range(MAX_TURNS):
        last = store.put(last, "a", "b")
    assert last is not None and len((await load_history(last, store.find_turn, 10**9, LARGE_REQUESTS)).items) == 2 * MAX_TURNS
    with pytest.raises(InvalidRequest, match=f"more than {MAX_TURNS} turns"):
        await load_history(store.put(last, "a", "b"), store.find_turn, 10**9, LARGE_REQUESTS)


async def test_history_larger_than_the_body_limit_is_refused():
    store = FakeTurnStore()
    last = store.put(store.put(None, "a" * 600, "b"), "a" * 600, "b")
    size_bytes = sum(len(bytes(item)) for item in (await load_history(last, store.find_turn, 10_000, LARGE_REQUESTS)).items)
    history = await load_history(last, store.find_turn, size_bytes, LARGE_REQUESTS)
    assert len(history.items) == 4 and history.tokens == text_tokens(size_bytes)
    with pytest.raises(InvalidRequest, match=f"more than {size_bytes - 1} bytes"):
        await load_history(last, store.find_turn, size_bytes - 1, LARGE_REQUESTS)


CALLER = Caller("key", "team", "team", "full")


def with_tools(store: FakeTurnStore, id: str, size_bytes: int) -> str:
    """Gives a turn's request tools, which are no part of the history."""
    turn = store.turns[id]
    store.turns[id] = replace(turn, request=Body({**turn.request, "tools": Raw(b'["' + b"t" * size_bytes + b'"]')}))
    return id


async def test_bytes_beside_the_items_of_earlier_turns_are_bounded_and_claimed():
    store = FakeTurnStore()
    last: str | None = None
    for _ in range(20):
        last = with_tools(store, store.put(last, "a", "b"), 50_000)
    assert last is not None
    claim = BodyMemory(Settings()).claim(CALLER)
    assert len((await load_history(last, BoundedFind(store.find_turn, 2_000_000, claim, None), 10_000, LARGE_REQUESTS)).items) == 40
    assert claim.size_bytes == sum(turn.size_bytes for turn in store.turns.values()) > 20 * 50_000
    find = BoundedFind(store.find_turn, 900_000, claim, "previous_response_id")
    with pytest.raises(InvalidRequest, match="more than 900000 bytes together") as refused:
        await load_history(last, find, 10_000, LARGE_REQUESTS)
    assert refused.value.param == "previous_response_id"


async def test_earlier_turns_take_the_memory_of_the_key_that_reads_them():
    store = FakeTurnStore()
    last = with_tools(store, store.put(None, "a", "b"), 90_000)
    memory = BodyMemory(Settings(bodies_max_bytes_key=150_000))
    claims = [memory.claim(CALLER) for _ in range(2)]
    await load_history(last, BoundedFind(store.find_turn, 10**9, claims[0], None), 10_000, LARGE_REQUESTS)
    with pytest.raises(BodyMemoryExceeded):
        await load_history(last, BoundedFind(store.find_turn, 10**9, claims[1], None), 10_000, LARGE_REQUESTS)
    claims[0].release()
    await load_history(last, BoundedFind(store.find_turn, 10**9, claims[1], None), 10_000, LARGE_REQUESTS)


async def test_history_keeps_none_of_a_turns_other_bytes():
    """An item of JSON that was decoded refers to all of it."""

    async def read_turn(id: str) -> ConversationTurn:
        request = json.dumps({"model": "m", "tools": ["t" * 5_000_000], "input": [user("a")]}).encode()
        return ConversationTurn(id, Body.read(request), json.dumps({"output": []}).encode())

    tracemalloc.start()
    try:
        history = await load_history("resp_1", read_turn, 10_000, LARGE_REQUESTS)
        assert len(history.items) == 1
        # The thread drops its work shortly after its result is there.
        await wait_until(lambda: tracemalloc.get_traced_memory()[0] < 1_000_000)
    finally:
        tracemalloc.stop()


async def test_engine_token_count_takes_precedence_over_the_byte_estimate():
    store = FakeTurnStore()
    last = store.put(None, "data:image/png;base64," + "A" * 5000, "b")
    counted_turn = msgspec.structs.replace(store.turns[last], response=b'{"output": [], "usage": {"total_tokens": 77}}')
    store.turns[last] = counted_turn
    assert (await load_history(last, store.find_turn, 10_000, LARGE_REQUESTS)).tokens == 77


async def test_missing_turn_is_named_in_the_error():
    store = FakeTurnStore()
    first = store.put(None, "a", "b")
    last = store.put(first, "c", "d")
    del store.turns[first]
    with pytest.raises(UnknownResponse) as missing:
        await load_history(last, store.find_turn, 10_000, LARGE_REQUESTS)
    assert missing.value.id == first


@bounded
@given(st.integers(0, 30), st.integers(1, 12))
def test_consecutive_pages_hold_every_item_once(count: int, limit: int):
    request = Body({"input": Raw(json.dumps([user("a")] * count).encode())})
    last = ConversationTurn("resp_2", request, b"")
    items = conversation_input_items([ConversationTurn("resp_1", request, json.dumps({"output": [assistant("b")]}).encode()), last])
    assert len(items) == 2 * count + 1
    shown: list[InputItem] = []
    after, has_more = None, True
    while has_more:
        page_items, has_more = paginate(items, after, limit)
        shown += page_items
        assert len(page_items) == limit or not has_more
        after = page_items[-1].id if page_items else None
    assert shown == items and len({item.id for item in items}) == len(items)
    assert [item.to_openai()["id"] for item in items] == [item.id for item in items]


def test_page_after_an_unknown_item_is_refused():
    with pytest.raises(InvalidRequest, match="item_9"):
        paginate([InputItem(Raw(b'{"id":"item_1"}'), "resp_1")], "item_9", 20)


class FakeItemIndex:
    """The response of each item id, as Redis holds it. None: Redis is away."""

    def __init__(self, response_ids: dict[str, str] | None) -> None:
        self.response_ids = response_ids

    async def __call__(self, item_ids: Sequence[str]) -> list[str | None]:
        if self.response_ids is None:
            raise Unavailable("away")
        return [self.response_ids.get(id) for id in item_ids]


def reference(id: str) -> Raw:
    return Raw(json.dumps({"type": "item_reference", "id": id}).encode())


def minted_item_id(response_id: str) -> str:
    """The item id that the gateway mints for a response."""
    return item_id(replace(META, id=response_id.removeprefix("resp_")), "msg", 0)


def store_with_item(assistant_text: str, upstream_id: str | None = None) -> tuple[FakeTurnStore, str, str]:
    """A store with one response, its inference id, and the id of its only item: minted by the gateway, or as given."""
    store = FakeTurnStore()
    response_id = store.put(None, "Hi!", assistant_text)
    id = upstream_id or minted_item_id(response_id)
    store.turns[response_id] = replace(
        store.turns[response_id], response=json.dumps({"output": [{**assistant(assistant_text), "id": id}]}).encode()
    )
    return store, response_id.removeprefix("resp_"), id


async def resolve_ids(ids: list[str], store: FakeTurnStore, index: FakeItemIndex, max_bytes: int = 10_000) -> list[Raw]:
    items = [Raw(json.dumps(user("Go on.")).encode()), *map(reference, ids)]
    await resolve_references(items, unresolved_references(items), store.find_turn, index, max_bytes, LARGE_REQUESTS)
    return items


@bounded
@given(texts, st.integers(1, 3))
async def test_item_reference_is_replaced_wherever_it_appears(assistant_text: str, times: int):
    store, _, id = store_with_item(assistant_text)
    items = await resolve_ids([id] * times, store, FakeItemIndex({}))
    assert role_texts(items) == [("user", "Go on."), *[("assistant", assistant_text)] * times]
    assert not unresolved_references(items)


async def test_only_gateway_minted_item_ids_resolve_without_the_index():
    store, response_id, id = store_with_item("Hello.")
    assert role_texts(await resolve_ids([id], store, FakeItemIndex(None)))[1:] == [("assistant", "Hello.")]
    with pytest.raises(Unavailable):
        await resolve_ids([id, "msg_of_an_engine"], store, FakeItemIndex(None))
    second_store, second_response_id, item = store_with_item("Hello.", upstream_id=minted_item_id(f"resp_{mint()}"))
    assert role_texts(await resolve_ids([item], second_store, FakeItemIndex({item: second_response_id})))[1:] == [
        ("assistant", "Hello.")
    ]  # the engine is a Narthex gateway too
    assert second_response_id != response_id


OPENAI_ITEM_ID = "msg_67cb71b351908190a308f3859487620d06981a8637e6bc44"
VLLM_ITEM_ID = "msg_8f2c1f0d9a7b4c6e8d3f5a1b2c3d4e5f"


async def test_engine_item_ids_are_resolved_only_through_the_index():
    for id in (OPENAI_ITEM_ID, VLLM_ITEM_ID, "msg_1", f"msg_{mint()}"):
        store, response_id, _ = store_with_item("Hello.", upstream_id=id)
        assert role_texts(await resolve_ids([id], store, FakeItemIndex({id: response_id})))[1:] == [("assistant", "Hello.")]
        with pytest.raises(InvalidRequest, match="not found"):
            await resolve_ids([id], store, FakeItemIndex({}))


async def test_oversized_or_unresolvable_item_reference_is_refused():
    store, response_id, id = store_with_item("Hello." * 100)
    with pytest.raises(InvalidRequest, match="more than 900 bytes"):
        await resolve_ids([id, id], store, FakeItemIndex({}), max_bytes=900)
    last = store.turns[f"resp_{response_id}"]
    request = Body({"input": Raw(b"[" + bytes(reference(id)) + b"]")})
    store.turns[last.id] = replace(last, request=request, response=b'{"output": []}')
    with pytest.raises(InvalidRequest, match="not found"):  # the request of that response only references it, too
        await resolve_ids([id], store, FakeItemIndex({}))
