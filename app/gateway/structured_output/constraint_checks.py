"""Checks of constraints: whether one can be obeyed at all, before any engine works; and whether a reply has obeyed it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import assert_never

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from app.gateway.structured_output.checker.protocol import CheckOrder, CheckTask, Verdict, dotted_path
from app.gateway.structured_output.checker_client import CheckerClient, CheckerUnavailable
from app.gateway.structured_output.content_cache import ContentCache
from providers import structured_output
from providers.canonical.errors import InvalidRequest, RequestError, Unavailable, Unsupported
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialect import InboundRequest
from providers.structured_output import Choice, Constraint, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag

CPU_LIMIT_S = 0.05
"""For a constraint. With several (strict tools) so much for each, and no more than MOST_S for all."""

MAX_CPU_LIMIT_S = 0.25
RESPONSE_CPU_LIMIT_S = 0.5
MAX_CONSTRAINT_CHARS = 500_000
"""Characters of a constraint; bytes of the field that it stands in."""

_DEADLINE_S = 2.0
# New constraints of one caller that may wait for the process that looks: others need it too.
_MAX_PENDING_PER_KEY = 32
_RESPONSE_DEADLINE_S = 5.0
_MAX_CACHED = 2_048
_MAX_CACHED_BYTES = 32_000_000
_MAX_RESPONSE_CHARS = 4_000_000
# Where one may stand, and what must be said within for there to be one.
_CONSTRAINT_MARKERS = {"tools": b'"strict"', "text": b'"format"', "output_config": b'"format"', "sampling_params": b"structured_outputs"}
_CHECKED_FIELDS = {
    dialect: places if dialect == "vllm_generate" else places | {"tools"}
    for dialect, places in structured_output.CONSTRAINT_FIELDS_BY_DIALECT.items()
}
_TOO_EXPENSIVE_REASONS = {
    "": "it cannot be read",
    "time": f"to check it takes more than {CPU_LIMIT_S * 1000:.0f} ms of computing",
    "memory": "to check it takes more than 100 MB of memory",
    "depth": "it is nested deeper than can be read",
}


class CheckResult(Struct, frozen=True):
    """What was found of an ask's constraint: it, or what is wrong."""

    constraint: Constraint | None = None
    fault: tuple[type[RequestError], str, str | None] | None = None

    def unwrap(self) -> Constraint | None:
        if self.fault is not None:
            error_type, message, param = self.fault
            raise error_type(message, param=param)
        return self.constraint


class ConstraintChecks:
    """One for each worker. What was found of a constraint is remembered by its bytes."""

    def __init__(self) -> None:
        self._checker = CheckerClient(_DEADLINE_S)
        self._cache: ContentCache[CheckResult] = ContentCache(_MAX_CACHED, _MAX_CACHED_BYTES)
        self._checking: dict[bytes, asyncio.Task[CheckResult]] = {}
        self._response_checks: set[asyncio.Task[Verdict]] = set()
        self._pending_by_key: Counter[str] = Counter()

    def start(self) -> None:
        """The process that looks, in the background."""
        self._checker.start()

    async def stop(self) -> None:
        """Who still waits is told that there is no answer."""
        await self._checker.stop()
        await asyncio.gather(*self._checking.values(), *self._response_checks, return_exceptions=True)

    @property
    def pid(self) -> int | None:
        """Of the process that looks; None: it does not run."""
        return self._checker.pid

    async def check_request(self, request: InboundRequest, key_id: str) -> Constraint | None:
        """What constrains the answer to an ask; None: nothing. Raises Malformed for what nothing could obey, with its place.

        Raises Unavailable where that could not be found out in time. `who` asks: of one caller few may wait.
        """
        constraint_fields = (structured_output.CONSTRAINT_FIELDS_BY_DIALECT if request.has_strict_tools is False else _CHECKED_FIELDS).get(
            request.dialect
        )
        if constraint_fields is None or constraint_fields.isdisjoint(request.body):
            return None
        body = request.body
        fields = [(field, bytes(as_raw(body[field]))) for field in body if field in constraint_fields]
        fields = [(place, raw) for place, raw in fields if _may_constrain(place, raw)]
        if not fields:
            return None
        for place, raw in fields:
            if len(raw) > MAX_CONSTRAINT_CHARS and place != "tools":  # of which each schema is looked at by itself
                raise InvalidRequest(f"`{place}` has {len(raw)} bytes; {MAX_CONSTRAINT_CHARS} can be checked.", param=place)
        content = request.dialect.encode() + b"".join([b"\0%b\0%b" % (place.encode(), raw) for place, raw in fields])
        result = self._cache.get(content)
        if result is None:
            result = await self._check_once(request.dialect, fields, content, key_id)
        return result.unwrap()

    async def _check_once(self, dialect: str, fields: Sequence[tuple[str, bytes]], content: bytes, key_id: str) -> CheckResult:
        checking = self._checking.get(content)
        if checking is None:
            if self._pending_by_key[key_id] >= _MAX_PENDING_PER_KEY:
                raise Unavailable(
                    f"{_MAX_PENDING_PER_KEY} new constraints of this key are being checked already. Try again.", retry_after_s=1
                )
            self._pending_by_key[key_id] += 1
            checking = self._checking[content] = asyncio.create_task(self._check_and_cache(dialect, fields, content))
            checking.add_done_callback(lambda _: self._forget_check(content, key_id))
        try:
            # Others may wait for it too, and the process that looks is not to be left in the middle.
            return await asyncio.wait_for(asyncio.shield(checking), _DEADLINE_S)
        except (CheckerUnavailable, TimeoutError):
            why = "Whether the constraint can be obeyed could not be checked in time. Try again."
            raise Unavailable(why, retry_after_s=1) from None

    def _forget_check(self, content: bytes, key_id: str) -> None:
        self._checking.pop(content, None)
        self._pending_by_key[key_id] -= 1
        if not self._pending_by_key[key_id]:
            del self._pending_by_key[key_id]

    async def _check_and_cache(self, dialect: str, fields: Sequence[tuple[str, bytes]], content: bytes) -> CheckResult:
        try:
            constraint = structured_output.read_constraint(dialect, Body((field, Raw(raw)) for field, raw in fields))
            result = CheckResult(constraint) if constraint is None else await self._check_constraint(constraint)
        except DECODE_ERRORS as fault:
            result = CheckResult(fault=(InvalidRequest, f"`{fields[0][0]}` cannot be read: {fault}.", fields[0][0]))
        except (InvalidRequest, Unsupported) as fault:
            result = CheckResult(fault=(type(fault), fault.message, fault.param))
        self._cache.put(content, result)
        return result

    async def _check_constraint(self, constraint: Constraint) -> CheckResult:
        tasks: list[tuple[str, CheckTask]] = [
            (path, CheckTask("json_schema", bytes(schema).decode())) for path, schema in constraint.strict_tools
        ]
        if constraint.output is not None:
            field_path = constraint.value_path or constraint.field
            task = _check_task(constraint.output, field_path)
            if task is not None:
                tasks.insert(0, (field_path, task))
        for field_path, task in tasks:
            if len(task.source) > MAX_CONSTRAINT_CHARS:
                raise InvalidRequest(
                    f"`{field_path}` has {len(task.source)} characters; {MAX_CONSTRAINT_CHARS} can be checked.", param=field_path
                )
        if not tasks:
            return CheckResult(constraint)
        check_order = CheckOrder(tuple(task for _, task in tasks), min(MAX_CPU_LIMIT_S, CPU_LIMIT_S * len(tasks)))
        verdict = await self._checker.check(check_order)
        field_path, _ = tasks[verdict.task_index]
        match verdict.outcome:
            case "fits":
                strict = dict(constraint.strict_tools)
                loose = (tasks[task_index][0] for task_index in verdict.unenforced)
                return CheckResult(
                    replace(constraint, uncovered_paths=frozenset(path if path in strict else constraint.field for path in loose))
                )
            case "faulty":
                param = dotted_path(field_path, verdict.path)
                raise InvalidRequest(f"`{param}` cannot be obeyed: {verdict.message}.", param=param)
            case "heavy":
                raise InvalidRequest(
                    f"`{field_path}` is too large or too deep: {_TOO_EXPENSIVE_REASONS.get(verdict.message, verdict.message)}.",
                    param=field_path,
                )

    async def find_violation(self, output: OutputFormat, text: str, *, is_complete: bool) -> str | None:
        """Why a text is not what the output says, as a sentence; None: it is. `whole` False: it was cut off, and may be a beginning.

        Of a reply that cannot be looked at within bounds it is not known that it obeys, which is a fault too.
        """
        if len(text) > _MAX_RESPONSE_CHARS:
            return f"the answer has {len(text)} characters, more than can be checked."
        task = CheckTask(structured_output.output_kind(output), _source_text(output), text, is_complete)
        checking = asyncio.create_task(self._checker.check(CheckOrder((task,), RESPONSE_CPU_LIMIT_S)))
        self._response_checks.add(checking)
        checking.add_done_callback(self._response_checks.discard)
        try:
            verdict = await asyncio.wait_for(asyncio.shield(checking), _RESPONSE_DEADLINE_S)
        except (CheckerUnavailable, TimeoutError):
            return "whether the answer obeys could not be checked in time."
        match verdict.outcome:
            case "fits":
                return None
            case "faulty":
                return f"{verdict.message}."
            case "heavy":
                return f"whether the answer obeys takes more than {RESPONSE_CPU_LIMIT_S * 1000:.0f} ms, or more memory than there is, to check."


def _may_constrain(field: str, raw: bytes) -> bool:
    """Told without reading it: it says what it needs to, or hides words in escapes."""
    marker = _CONSTRAINT_MARKERS.get(field)
    # A single byte is looked for far faster than two.
    return raw != b"null" and (marker is None or marker in raw or (b"\\" in raw and b"\\u" in raw))


def _source_text(output: OutputFormat) -> str:
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


def _check_task(output: OutputFormat, field: str) -> CheckTask | None:
    """None: nothing more to look at. Raises Malformed for what is wrong at first sight."""
    match output:
        case JsonObject():
            return None
        case Choice():
            if not output.options or not all(output.options):
                raise InvalidRequest(f"`{field}` must hold at least one choice, and none that is empty.", param=field)
            if any("\0" in option for option in output.options):
                raise InvalidRequest(f"`{field}` holds a NUL, which no model writes.", param=field)
            size = sum(map(len, output.options))
            if size > MAX_CONSTRAINT_CHARS:
                raise InvalidRequest(f"`{field}` has {size} characters; {MAX_CONSTRAINT_CHARS} can be checked.", param=field)
            return None
        case Regex() | Grammar() | StructuralTag() | JsonSchema():
            source = _source_text(output)
            if not source:
                raise InvalidRequest(f"`{field}` is empty.", param=field)
            if "\0" in source:
                raise InvalidRequest(f"`{field}` holds a NUL, which no model writes.", param=field)
            return CheckTask(structured_output.output_kind(output), source)
        case _:
            assert_never(output)
