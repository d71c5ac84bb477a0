"""Conversations made of answers that name the one before: what was said comes back whole, in order, and within bounds."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from app.api.responses import paginate
from app.gateway.responses_state.history import MAX_TURNS, ConversationTurn, InputItem, conversation_input_items, load_history
from app.gateway.responses_state.item_references import resolve_references, unresolved_references
from app.uuid7 import mint
from providers.canonical.errors import InvalidRequest, Unavailable, UnknownResponse
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import text_tokens
from providers.dialects.openai_responses.response_items import item_id
from tests.laws.chats import STAMP, bounded, texts

# Of each answer: which of those before it the ask went on from (by counting back; 0: none), what was said, and what was answered.
turns = st.tuples(st.integers(0, 5), texts, texts)


class Shelf:
    """Answers by id, as a store would find them."""

    def __init__(self) -> None:
        self.kept: dict[str, ConversationTurn] = {}

    def put(self, previous: str | None, said: str, answered: str) -> str:
        id = f"resp_{mint()}"
        ask: dict[str, Any] = {"model": "m", "input": [user(said)]}
        if previous is not None:
            ask["previous_response_id"] = previous
        response = {"id": id, "object": "response", "status": "completed", "output": [assistant(answered)]}
        self.kept[id] = ConversationTurn(id, Body.read(json.dumps(ask).encode()), json.dumps(response).encode())
        return id

    async def find(self, id: str) -> ConversationTurn:
        if id not in self.kept:
            raise UnknownResponse(id)
        return self.kept[id]


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


def heard(items: list[Any]) -> list[tuple[str, str]]:
    """Who said what, of items as JSON."""
    told = [json.loads(bytes(item)) for item in items]
    return [(each["role"], each["content"] if isinstance(each["content"], str) else each["content"][0]["text"]) for each in told]


@bounded
@given(st.lists(turns, min_size=1, max_size=12))
async def test_a_conversation_is_its_own_turns_oldest_first_whatever_else_branched_off(said: list[tuple[int, str, str]]):
    shelf = Shelf()
    ids: list[str] = []
    expected: list[list[tuple[str, str]]] = []
    for back, asked, answered in said:
        before = len(ids) - back if 0 < back <= len(ids) else None
        ids.append(shelf.put(None if before is None else ids[before], asked, answered))
        expected.append([*([] if before is None else expected[before]), ("user", asked), ("assistant", answered)])
    assert heard((await load_history(ids[-1], shelf.find, 1_000_000)).items) == expected[-1]


async def test_a_thousand_turns_can_be_gone_on_from_and_no_more():
    shelf = Shelf()
    last: str | None = None
    for _ in range(MAX_TURNS):
        last = shelf.put(last, "a", "b")
    assert last is not None and len((await load_history(last, shelf.find, 10**9)).items) == 2 * MAX_TURNS
    with pytest.raises(InvalidRequest, match=f"more than {MAX_TURNS} turns"):
        await load_history(shelf.put(last, "a", "b"), shelf.find, 10**9)


async def test_more_bytes_than_a_body_may_have_cannot_be_gone_on_from():
    shelf = Shelf()
    last = shelf.put(shelf.put(None, "a" * 600, "b"), "a" * 600, "b")
    size_bytes = sum(len(bytes(item)) for item in (await load_history(last, shelf.find, 10_000)).items)
    said = await load_history(last, shelf.find, size_bytes)
    assert len(said.items) == 4 and said.tokens == text_tokens(size_bytes)
    with pytest.raises(InvalidRequest, match=f"more than {size_bytes - 1} bytes"):
        await load_history(last, shelf.find, size_bytes - 1)


async def test_what_an_engine_counted_is_believed_before_bytes_are_counted():
    shelf = Shelf()
    last = shelf.put(None, "data:image/png;base64," + "A" * 5000, "b")
    told = msgspec.structs.replace(shelf.kept[last], response=b'{"output": [], "usage": {"total_tokens": 77}}')
    shelf.kept[last] = told
    assert (await load_history(last, shelf.find, 10_000)).tokens == 77


async def test_a_turn_that_is_gone_is_named():
    shelf = Shelf()
    first = shelf.put(None, "a", "b")
    last = shelf.put(first, "c", "d")
    del shelf.kept[first]
    with pytest.raises(UnknownResponse) as gone:
        await load_history(last, shelf.find, 10_000)
    assert gone.value.id == first


@bounded
@given(st.integers(0, 30), st.integers(1, 12))
def test_pages_that_follow_each_other_hold_every_item_once(count: int, limit: int):
    asked = Body({"input": Raw(json.dumps([user("a")] * count).encode())})
    last = ConversationTurn("resp_2", asked, b"")
    items = conversation_input_items([ConversationTurn("resp_1", asked, json.dumps({"output": [assistant("b")]}).encode()), last])
    assert len(items) == 2 * count + 1
    shown: list[InputItem] = []
    after, has_more = None, True
    while has_more:
        some, has_more = paginate(items, after, limit)
        shown += some
        assert len(some) == limit or not has_more
        after = some[-1].id if some else None
    assert shown == items and len({item.id for item in items}) == len(items)
    assert [item.to_openai()["id"] for item in items] == [item.id for item in items]


def test_a_page_after_an_item_that_is_not_there_is_none():
    with pytest.raises(InvalidRequest, match="item_9"):
        paginate([InputItem(Raw(b'{"id":"item_1"}'), "resp_1")], "item_9", 20)


class Index:
    """What engines named their items, as Redis would tell it; None: it is away."""

    def __init__(self, answers: dict[str, str] | None) -> None:
        self.answers = answers

    async def __call__(self, item_ids: Sequence[str]) -> list[str | None]:
        if self.answers is None:
            raise Unavailable("away")
        return [self.answers.get(id) for id in item_ids]


def reference(id: str) -> Raw:
    return Raw(json.dumps({"type": "item_reference", "id": id}).encode())


def of_ours(answer: str) -> str:
    """An item's id as we mint it for an answer."""
    return item_id(replace(STAMP, id=answer.removeprefix("resp_")), "msg", 0)


def shelved(answered: str, item: str | None = None) -> tuple[Shelf, str, str]:
    """A shelf with one answer, its inference's id, and the id of its only item: as we mint it, or as said."""
    shelf = Shelf()
    answer = shelf.put(None, "Hi!", answered)
    id = item or of_ours(answer)
    shelf.kept[answer] = replace(shelf.kept[answer], response=json.dumps({"output": [{**assistant(answered), "id": id}]}).encode())
    return shelf, answer.removeprefix("resp_"), id


async def resolved(ids: list[str], shelf: Shelf, index: Index, most_bytes: int = 10_000) -> list[Raw]:
    items = [Raw(json.dumps(user("Go on.")).encode()), *map(reference, ids)]
    await resolve_references(items, unresolved_references(items), shelf.find, index, most_bytes)
    return items


@bounded
@given(texts, st.integers(1, 3))
async def test_a_named_item_stands_where_it_was_named_as_often_as_it_was(answered: str, times: int):
    shelf, _, id = shelved(answered)
    items = await resolved([id] * times, shelf, Index({}))
    assert heard(items) == [("user", "Go on."), *[("assistant", answered)] * times]
    assert not unresolved_references(items)


async def test_what_we_minted_is_found_without_the_index_and_nothing_else():
    shelf, answer, id = shelved("Hello.")
    assert heard(await resolved([id], shelf, Index(None)))[1:] == [("assistant", "Hello.")]
    with pytest.raises(Unavailable):
        await resolved([id, "msg_theirs"], shelf, Index(None))
    theirs, behind, item = shelved("Hello.", item=of_ours(f"resp_{mint()}"))
    assert heard(await resolved([item], theirs, Index({item: behind})))[1:] == [("assistant", "Hello.")]  # the engine is such a gateway too
    assert behind != answer


OPENAIS = "msg_67cb71b351908190a308f3859487620d06981a8637e6bc44"
VLLMS = "msg_8f2c1f0d9a7b4c6e8d3f5a1b2c3d4e5f"


async def test_ids_of_engines_are_not_taken_for_ours():
    for id in (OPENAIS, VLLMS, "msg_1", f"msg_{mint()}"):
        shelf, answer, _ = shelved("Hello.", item=id)
        assert heard(await resolved([id], shelf, Index({id: answer})))[1:] == [("assistant", "Hello.")]
        with pytest.raises(InvalidRequest, match="not found"):
            await resolved([id], shelf, Index({}))


async def test_what_is_too_much_or_stands_for_nothing_is_refused():
    shelf, answer, id = shelved("Hello." * 100)
    with pytest.raises(InvalidRequest, match="more than 900 bytes"):
        await resolved([id, id], shelf, Index({}), most_bytes=900)
    last = shelf.kept[f"resp_{answer}"]
    named = Body({"input": Raw(b"[" + bytes(reference(id)) + b"]")})
    shelf.kept[last.id] = replace(last, request=named, response=b'{"output": []}')
    with pytest.raises(InvalidRequest, match="not found"):  # the ask of that answer only named it too
        await resolved([id], shelf, Index({}))
