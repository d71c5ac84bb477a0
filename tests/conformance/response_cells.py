"""Every response of the conformance tests, from every target that can send it, with every caller that can request it."""

from collections.abc import Iterator

from msgspec import Struct

from tests.conformance import engine_ollama
from tests.conformance.situations import ALL, CALLER_APIS, SITUATIONS, Situation, WireResponse
from tests.conformance.stream_quirks import STREAM_QUIRKS
from tests.conformance.translation import ENGINES, translate_response

EngineResponse = tuple[Situation, str, WireResponse]
ENGINE_RESPONSES: list[EngineResponse] = [
    *((situation, target, ENGINES[target](situation)) for situation in SITUATIONS for target in ALL if target in situation.targets),
    *(
        (situation, "ollama_chat", engine_ollama.wire_response(situation))
        for situation in SITUATIONS
        if engine_ollama.can_express(situation)
    ),
    *((quirk.situation, quirk.target, quirk.wire) for quirk in STREAM_QUIRKS),
]


class Cell(Struct, frozen=True):
    """A response of a target's engine, and the caller that it is translated for."""

    situation: Situation
    target: str
    wire: WireResponse
    caller: str


CELLS = [
    Cell(situation, target, wire, caller)
    for situation, target, wire in ENGINE_RESPONSES
    for caller in CALLER_APIS
    if caller in situation.callers
]


def caller_and_target(cell: Cell) -> str:
    return f"{cell.caller}<-{cell.target}"


def situation_name(cell: Cell) -> str:
    return cell.situation.name


def translations(cell: Cell) -> Iterator[tuple[str, bytes, bool]]:
    """Yields the response that the caller gets, for each combination of streamed and unstreamed.

    Each item is the combination, the bytes, and whether they are a stream.
    """
    for arrives_streamed, body in ((True, cell.wire.stream), (False, cell.wire.body)):
        if body is None or (not arrives_streamed and cell.target in ALL and cell.target not in cell.situation.unstreamed_targets):
            continue
        for streamed in (True, False):
            mode = f"{'stream' if arrives_streamed else 'body'} -> {'stream' if streamed else 'body'}"
            yield mode, translate_response(body, cell.target, cell.caller, arrives_streamed=arrives_streamed, streamed=streamed), streamed
