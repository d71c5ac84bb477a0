"""Items that an ask names by their ids in place of saying them: looked up in the answers that they were part of.

Ids that we minted tell the answer. Those of an engine that speaks the caller's own API are the engine's, and are found by an index.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import Raw

from app.gateway.turns import MOST_TURNS, Find
from providers.dialects.openai_responses.conversation import id_of, input_items, output_items, referred
from providers.dialects.openai_responses.items import minted_for
from providers.errors import Malformed, Unavailable, UnknownResponse

PREFIX = "resp_"
# The answer (its inference's id) that each of these items is known to be part of.
Index = Callable[[Sequence[str]], Awaitable[Sequence[str | Literal["several"] | None]]]

_WAY_OUT = "Send the item itself, or set `store` to false in your client, so that it sends items whole."


def unresolved(items: Sequence[Raw]) -> dict[int, str]:
    """By their places, the ids of items that are only named."""
    return {at: id for at, item in enumerate(items) if (id := referred(item)) is not None}


async def resolve(items: list[Raw], wanted: dict[int, str], find: Find, index: Index, most_bytes: int) -> None:
    """Puts what is named in its place. Raises Malformed for what is not there, or is too much."""
    answers = await _answers(sorted(set(wanted.values())), index)
    if len(set(answers.values())) > MOST_TURNS:
        raise Malformed(f"These items are of more than {MOST_TURNS} answers: send them whole.", param="input")
    found: dict[str, Raw] = {}
    for answer in sorted(set(answers.values())):
        named = {id for id, of in answers.items() if of == answer}
        try:
            stored = await find(PREFIX + answer)
        except UnknownResponse as fault:
            raise _not_found(min(named), fault.why) from None
        for item in (*input_items(stored.asked), *output_items(stored.response)):
            if (id := id_of(item)) in named and referred(item) is None:
                found[id] = item
    size_bytes = 0
    for at, id in wanted.items():
        if id not in found:
            raise _not_found(id)
        items[at] = found[id]
        size_bytes += len(memoryview(found[id]))
        if size_bytes > most_bytes:
            raise Malformed(f"The items named in `input` are more than {most_bytes} bytes: begin a new conversation.", param="input")


async def _answers(ids: Sequence[str], index: Index) -> dict[str, str]:
    """The index is asked of all: an engine may be a gateway like this one, that mints its ids alike."""
    answers = {id: answer for id in ids if (answer := minted_for(id)) is not None}
    try:
        told = await index(ids)
    except Unavailable:
        if len(answers) < len(ids):
            raise
        return answers
    for id, answer in zip(ids, told, strict=True):
        if answer is None and id in answers:
            continue
        if answer is None:
            raise _not_found(id)
        if answer == "several":
            raise _not_found(id, "The engine gave several items this id, so that none can be told by it.")
        answers[id] = answer
    return answers


def _not_found(id: str, why: str = "") -> Malformed:
    return Malformed(f"Item with id '{id:.300}' not found. {why}{' ' if why else ''}{_WAY_OUT}", param="input")
