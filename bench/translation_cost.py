"""The cost of translating responses between dialects, compared with the byte edit: per streamed chunk, and for a response of 8 kB.

`python -m bench.translation_cost`. The engine's bytes come from our own writers; the pairs are measured in turns.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from app.gateway.response_translation.translate import make_stream_editor, translate_response
from providers.canonical.chat import ChatResponse, Choice, Text, Usage
from providers.canonical.events import ChoiceFinished, Event, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.dialect import ResponseMeta
from providers.dialects.catalogue import CHAT_DIALECTS

_DIALECT_NAMES = ("openai_chat", "openai_responses", "anthropic_messages")
_CHUNKS = 1000
_ROUNDS = 9
_RESPONSES = 200
_WORD = " wörd"
_META = ResponseMeta(
    "01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b", "model", 1_790_000_000, wants_usage=True
)
_USAGE = Usage(100, _CHUNKS, 0, 0)


def stream_events() -> Iterator[Event]:
    yield ResponseStarted("engine-model", 1_790_000_000)
    yield PartStarted(0, 0, Text(""))
    for _ in range(_CHUNKS):
        yield PartDelta(0, 0, _WORD)
    yield PartFinished(0, 0)
    yield ChoiceFinished(0, "stop")
    yield UsageReported(_USAGE)


def stream_frames(dialect: str) -> list[bytes]:
    """An engine's stream, one frame at a time."""
    writer = CHAT_DIALECTS[dialect].stream_writer(_META)
    return [block for block in [*(writer.feed(event) for event in stream_events()), writer.finish()] if block]


def response_body(dialect: str) -> bytes:
    text = ('A line of an answer with "quotes" and ümlauts.\n' * 200)[:8000]
    return CHAT_DIALECTS[dialect].write_response(ChatResponse((Choice((Text(text),), "stop"),), "engine-model", 1, _USAGE), _META)


def measure_stream_us(caller_dialect: str, target_dialect: str, frames: Sequence[bytes]) -> float:
    stream_editor = make_stream_editor(CHAT_DIALECTS[caller_dialect], CHAT_DIALECTS[target_dialect], _META, streamed=True)
    started_ns = time.process_time_ns()
    for block in frames:
        stream_editor.feed(block)
    stream_editor.finish()
    return (time.process_time_ns() - started_ns) / _CHUNKS / 1000


def measure_response_us(caller_dialect: str, target_dialect: str, raw: bytes) -> float:
    started_ns = time.process_time_ns()
    for _ in range(_RESPONSES):
        translate_response(raw, CHAT_DIALECTS[caller_dialect], CHAT_DIALECTS[target_dialect], _META)
    return (time.process_time_ns() - started_ns) / _RESPONSES / 1000


def measure_pairs(measure: Callable[[str, str], float]) -> dict[tuple[str, str], float]:
    pairs = list(itertools.product(_DIALECT_NAMES, _DIALECT_NAMES))
    rounds = [{pair: measure(*pair) for pair in pairs} for _ in range(_ROUNDS)]
    return {pair: median(each[pair] for each in rounds) for pair in pairs}


def print_table(title: str, measured_us: dict[tuple[str, str], float]) -> None:
    print(f"\n{title}: processor µs, and the ratio to the byte edit of the engine's own dialect\n")
    print("| caller \\ engine | " + " | ".join(_DIALECT_NAMES) + " |\n|---|" + "---|" * len(_DIALECT_NAMES))
    for caller_dialect in _DIALECT_NAMES:
        row = {target_dialect: measured_us[caller_dialect, target_dialect] for target_dialect in _DIALECT_NAMES}
        cells = (f"{cost:.1f} (x{cost / measured_us[name, name]:.1f})" for name, cost in row.items())
        print(f"| {caller_dialect} | " + " | ".join(cells) + " |")


def main() -> None:
    streams = {name: stream_frames(name) for name in _DIALECT_NAMES}
    bodies = {name: response_body(name) for name in _DIALECT_NAMES}
    print_table("A streamed chunk (of 12)", measure_pairs(lambda ours, theirs: measure_stream_us(ours, theirs, streams[theirs])))
    print_table("A response of 8 kB (of 250)", measure_pairs(lambda ours, theirs: measure_response_us(ours, theirs, bodies[theirs])))


if __name__ == "__main__":
    main()
