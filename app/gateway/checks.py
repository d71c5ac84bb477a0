"""Checks of constraints: whether one can be obeyed at all, before any engine works; and whether a reply has obeyed it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import assert_never

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from app.gateway.checking.checker import Checker, NoAnswer
from app.gateway.checking.known import Known
from app.gateway.checking.tasks import Order, Task, Verdict, dotted
from providers import guided
from providers.dialect import Ask
from providers.errors import AskError, Malformed, Unavailable, Unsupported
from providers.guided import Choice, Constraint, Grammar, JsonObject, JsonSchema, Output, Regex, StructuralTag
from providers.rest import as_raw
from providers.wire import UNREADABLE, Body

PROCESSOR_S = 0.05
"""For a constraint. With several (strict tools) so much for each, and no more than MOST_S for all."""

MOST_S = 0.25
REPLY_S = 0.5
LONGEST = 500_000
"""Characters of a constraint; bytes of the field that it stands in."""

_DEADLINE_S = 2.0
# New constraints of one caller that may wait for the process that looks: others need it too.
_MOST_OF_ONE = 32
_REPLY_DEADLINE_S = 5.0
_MOST_KNOWN = 2_048
_MOST_KNOWN_BYTES = 32_000_000
_LONGEST_REPLY = 4_000_000
# Where one may stand, and what must be said within for there to be one.
_NEEDS = {"tools": b'"strict"', "text": b'"format"', "output_config": b'"format"', "sampling_params": b"structured_outputs"}
_LOOKED = {dialect: places if dialect == "vllm_generate" else places | {"tools"} for dialect, places in guided.PLACES.items()}
_WHY = {
    "": "it cannot be read",
    "time": f"to check it takes more than {PROCESSOR_S * 1000:.0f} ms of computing",
    "memory": "to check it takes more than 100 MB of memory",
    "depth": "it is nested deeper than can be read",
}


class Found(Struct, frozen=True):
    """What was found of an ask's constraint: it, or what is wrong."""

    constraint: Constraint | None = None
    fault: tuple[type[AskError], str, str | None] | None = None

    def told(self) -> Constraint | None:
        if self.fault is not None:
            kind, message, param = self.fault
            raise kind(message, param=param)
        return self.constraint


class Checks:
    """One for each worker. What was found of a constraint is remembered by its bytes."""

    def __init__(self) -> None:
        self._checker = Checker(_DEADLINE_S)
        self._known: Known[Found] = Known(_MOST_KNOWN, _MOST_KNOWN_BYTES)
        self._looking: dict[bytes, asyncio.Task[Found]] = {}
        self._judging: set[asyncio.Task[Verdict]] = set()
        self._waiting: Counter[str] = Counter()

    def start(self) -> None:
        """The process that looks, in the background."""
        self._checker.start()

    async def stop(self) -> None:
        """Who still waits is told that there is no answer."""
        await self._checker.stop()
        await asyncio.gather(*self._looking.values(), *self._judging, return_exceptions=True)

    @property
    def pid(self) -> int | None:
        """Of the process that looks; None: it does not run."""
        return self._checker.pid

    async def constraint(self, ask: Ask, who: str) -> Constraint | None:
        """What constrains the answer to an ask; None: nothing. Raises Malformed for what nothing could obey, with its place.

        Raises Unavailable where that could not be found out in time. `who` asks: of one caller few may wait.
        """
        places = (guided.PLACES if ask.strict is False else _LOOKED).get(ask.dialect)
        if places is None or places.isdisjoint(ask.body):
            return None
        body = ask.body
        said = [(place, bytes(as_raw(body[place]))) for place in body if place in places]
        said = [(place, raw) for place, raw in said if _may_constrain(place, raw)]
        if not said:
            return None
        for place, raw in said:
            if len(raw) > LONGEST and place != "tools":  # of which each schema is looked at by itself
                raise Malformed(f"`{place}` has {len(raw)} bytes; {LONGEST} can be checked.", param=place)
        content = ask.dialect.encode() + b"".join([b"\0%b\0%b" % (place.encode(), raw) for place, raw in said])
        found = self._known.get(content)
        if found is None:
            found = await self._found(ask.dialect, said, content, who)
        return found.told()

    async def _found(self, dialect: str, said: Sequence[tuple[str, bytes]], content: bytes, who: str) -> Found:
        looking = self._looking.get(content)
        if looking is None:
            if self._waiting[who] >= _MOST_OF_ONE:
                raise Unavailable(f"{_MOST_OF_ONE} new constraints of this key are being checked already. Try again.", retry_after_s=1)
            self._waiting[who] += 1
            looking = self._looking[content] = asyncio.create_task(self._look(dialect, said, content))
            looking.add_done_callback(lambda _: self._looked(content, who))
        try:
            # Others may wait for it too, and the process that looks is not to be left in the middle.
            return await asyncio.wait_for(asyncio.shield(looking), _DEADLINE_S)
        except (NoAnswer, TimeoutError):
            why = "Whether the constraint can be obeyed could not be checked in time. Try again."
            raise Unavailable(why, retry_after_s=1) from None

    def _looked(self, content: bytes, who: str) -> None:
        self._looking.pop(content, None)
        self._waiting[who] -= 1
        if not self._waiting[who]:
            del self._waiting[who]

    async def _look(self, dialect: str, said: Sequence[tuple[str, bytes]], content: bytes) -> Found:
        try:
            constraint = guided.read_constraint(dialect, Body((place, Raw(raw)) for place, raw in said))
            found = Found(constraint) if constraint is None else await self._looked_at(constraint)
        except UNREADABLE as fault:
            found = Found(fault=(Malformed, f"`{said[0][0]}` cannot be read: {fault}.", said[0][0]))
        except (Malformed, Unsupported) as fault:
            found = Found(fault=(type(fault), fault.message, fault.param))
        self._known.put(content, found)
        return found

    async def _looked_at(self, constraint: Constraint) -> Found:
        tasks: list[tuple[str, Task]] = [(path, Task("json_schema", bytes(schema).decode())) for path, schema in constraint.tools]
        if constraint.output is not None:
            place = constraint.place or constraint.field
            task = _task(constraint.output, place)
            if task is not None:
                tasks.insert(0, (place, task))
        for place, task in tasks:
            if len(task.source) > LONGEST:
                raise Malformed(f"`{place}` has {len(task.source)} characters; {LONGEST} can be checked.", param=place)
        if not tasks:
            return Found(constraint)
        order = Order(tuple(task for _, task in tasks), min(MOST_S, PROCESSOR_S * len(tasks)))
        verdict = await self._checker.judge(order)
        place, _ = tasks[verdict.at]
        match verdict.outcome:
            case "fits":
                strict = dict(constraint.tools)
                loose = (tasks[at][0] for at in verdict.loose)
                return Found(replace(constraint, loose=frozenset(path if path in strict else constraint.field for path in loose)))
            case "faulty":
                param = dotted(place, verdict.path)
                raise Malformed(f"`{param}` cannot be obeyed: {verdict.message}.", param=param)
            case "heavy":
                raise Malformed(f"`{place}` is too large or too deep: {_WHY.get(verdict.message, verdict.message)}.", param=place)

    async def fault(self, output: Output, text: str, *, whole: bool) -> str | None:
        """Why a text is not what the output says, as a sentence; None: it is. `whole` False: it was cut off, and may be a beginning.

        Of a reply that cannot be looked at within bounds it is not known that it obeys, which is a fault too.
        """
        if len(text) > _LONGEST_REPLY:
            return f"the answer has {len(text)} characters, more than can be checked."
        task = Task(guided.kind_of(output), _source(output), text, whole)
        judging = asyncio.create_task(self._checker.judge(Order((task,), REPLY_S)))
        self._judging.add(judging)
        judging.add_done_callback(self._judging.discard)
        try:
            verdict = await asyncio.wait_for(asyncio.shield(judging), _REPLY_DEADLINE_S)
        except (NoAnswer, TimeoutError):
            return "whether the answer obeys could not be checked in time."
        match verdict.outcome:
            case "fits":
                return None
            case "faulty":
                return f"{verdict.message}."
            case "heavy":
                return f"whether the answer obeys takes more than {REPLY_S * 1000:.0f} ms, or more memory than there is, to check."


def _may_constrain(place: str, raw: bytes) -> bool:
    """Told without reading it: it says what it needs to, or hides words in escapes."""
    need = _NEEDS.get(place)
    # A single byte is looked for far faster than two.
    return raw != b"null" and (need is None or need in raw or (b"\\" in raw and b"\\u" in raw))


def _source(output: Output) -> str:
    match output:
        case JsonObject():
            return ""
        case JsonSchema():
            return bytes(output.schema).decode()
        case Regex():
            return output.pattern
        case Choice():
            return msgspec.json.encode(output.options).decode()
        case Grammar() | StructuralTag():
            return output.text
        case _:
            assert_never(output)


def _task(output: Output, place: str) -> Task | None:
    """None: nothing more to look at. Raises Malformed for what is wrong at first sight."""
    match output:
        case JsonObject():
            return None
        case Choice():
            if not output.options or not all(output.options):
                raise Malformed(f"`{place}` must hold at least one choice, and none that is empty.", param=place)
            if any("\0" in option for option in output.options):
                raise Malformed(f"`{place}` holds a NUL, which no model writes.", param=place)
            size = sum(map(len, output.options))
            if size > LONGEST:
                raise Malformed(f"`{place}` has {size} characters; {LONGEST} can be checked.", param=place)
            return None
        case Regex() | Grammar() | StructuralTag() | JsonSchema():
            source = _source(output)
            if not source:
                raise Malformed(f"`{place}` is empty.", param=place)
            if "\0" in source:
                raise Malformed(f"`{place}` holds a NUL, which no model writes.", param=place)
            return Task(guided.kind_of(output), source)
        case _:
            assert_never(output)
