"""What it costs to cross from one dialect to another: processor time a streamed chunk, and of a whole answer of 8 kB, beside the byte edit.

`python -m bench.crossings`. The engine's bytes are what our own writers write; each pair is timed in turns with the others.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from app.gateway.translate import editor, whole
from providers.chat import ChatResponse, Choice, Text, Usage
from providers.dialect import Stamp
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.events import Closed, Counted, Delta, Event, Finished, Opened, Started

_CHATS = ("openai_chat", "openai_responses", "anthropic_messages")
_DELTAS = 1000
_ROUNDS = 9
_WHOLES = 200
_WORD = " wörd"
_STAMP = Stamp("01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b", "model", 1_790_000_000, wants_usage=True)
_USAGE = Usage(100, _DELTAS, 0, 0)


def streamed() -> Iterator[Event]:
    yield Started("engine-model", 1_790_000_000)
    yield Opened(0, 0, Text(""))
    for _ in range(_DELTAS):
        yield Delta(0, 0, _WORD)
    yield Closed(0, 0)
    yield Finished(0, "stop")
    yield Counted(_USAGE)


def blocks(dialect: str) -> list[bytes]:
    """An engine's stream, one frame at a time."""
    writer = CHAT_DIALECTS[dialect].writer(_STAMP)
    return [block for block in [*(writer.feed(event) for event in streamed()), writer.end()] if block]


def answered(dialect: str) -> bytes:
    text = ('A line of an answer with "quotes" and ümlauts.\n' * 200)[:8000]
    return CHAT_DIALECTS[dialect].write_response(ChatResponse((Choice((Text(text),), "stop"),), "engine-model", 1, _USAGE), _STAMP)


def relay(ours: str, theirs: str, told: Sequence[bytes]) -> float:
    relayed = editor(CHAT_DIALECTS[ours], CHAT_DIALECTS[theirs], _STAMP, streamed=True)
    began = time.process_time_ns()
    for block in told:
        relayed.feed(block)
    relayed.end()
    return (time.process_time_ns() - began) / _DELTAS / 1000


def translate(ours: str, theirs: str, raw: bytes) -> float:
    began = time.process_time_ns()
    for _ in range(_WHOLES):
        whole(raw, CHAT_DIALECTS[ours], CHAT_DIALECTS[theirs], _STAMP)
    return (time.process_time_ns() - began) / _WHOLES / 1000


def measured(look: Callable[[str, str], float]) -> dict[tuple[str, str], float]:
    pairs = list(itertools.product(_CHATS, _CHATS))
    rounds = [{pair: look(*pair) for pair in pairs} for _ in range(_ROUNDS)]
    return {pair: median(each[pair] for each in rounds) for pair in pairs}


def tell(what: str, found: dict[tuple[str, str], float]) -> None:
    print(f"\n{what}: processor µs, and times the byte edit of the engine's own dialect\n")
    print("| caller \\ engine | " + " | ".join(_CHATS) + " |\n|---|" + "---|" * len(_CHATS))
    for ours in _CHATS:
        cells = (f"{found[ours, theirs]:.1f} (x{found[ours, theirs] / found[theirs, theirs]:.1f})" for theirs in _CHATS)
        print(f"| {ours} | " + " | ".join(cells) + " |")


def main() -> None:
    streams = {name: blocks(name) for name in _CHATS}
    wholes = {name: answered(name) for name in _CHATS}
    tell("A streamed chunk (of 12)", measured(lambda ours, theirs: relay(ours, theirs, streams[theirs])))
    tell("A whole answer of 8 kB (of 250)", measured(lambda ours, theirs: translate(ours, theirs, wholes[theirs])))


if __name__ == "__main__":
    main()
