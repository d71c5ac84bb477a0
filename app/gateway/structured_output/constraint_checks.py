"""Constraint checks: whether a constraint can be satisfied at all, before any engine gets it, and whether a response satisfies it."""

import asyncio
import contextlib
import time
from collections.abc import Sequence

from msgspec import Raw, Struct
from msgspec.structs import replace

from app.gateway.structured_output.check_queue import CheckQueue, TooManyOrders
from app.gateway.structured_output.check_tasks import MAX_CONSTRAINT_CHARS, check_task, source_text
from app.gateway.structured_output.checker.protocol import CheckOrder, CheckTask, Verdict, dotted_path
from app.gateway.structured_output.checker_client import CheckerClient, CheckerStopped, CheckerUnavailable
from app.gateway.structured_output.content_cache import ContentCache
from providers import structured_output
from providers.canonical.errors import InvalidRequest, RequestError, Unavailable, Unsupported
from providers.canonical.extra_fields import as_raw
from providers.canonical.output_format import OutputFormat, output_kind
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialect import InboundRequest
from providers.structured_output import Constraint
from providers.structured_output.locate_format import CONSTRAINT_FIELDS_BY_DIALECT

CPU_LIMIT_S = 0.1
"""Of processor time for a constraint. Several (strict tools) have as much each, and MAX_CPU_LIMIT_S together.

A schema of 50 kB takes 10 to 35 ms, by the machine (2026-11): one that is valid must not be refused because a machine is slow.
"""

MAX_CPU_LIMIT_S = 0.25
RESPONSE_CPU_LIMIT_S = 0.5
_DEADLINE_S = 2.0
# New constraints of one team that may wait for the checking process.
_MAX_WAITING_PER_TEAM = 64
# For one response by the clock, once the process has it: longer than the process itself lets a check take.
_RESPONSE_CHECK_S = 10.0
# So long after the checking process failed, a response is checked again; then it counts as one that cannot be checked.
_RETRY_CHECK_S = 5.0
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.1, 1.0
_MAX_CACHED = 2_048
_MAX_CACHED_BYTES = 32_000_000
_MAX_RESPONSE_CHARS = 4_000_000
# Fields that may hold a constraint, and bytes that they must contain to hold one.
_CONSTRAINT_MARKERS = {"tools": b'"strict"', "text": b'"format"', "output_config": b'"format"', "sampling_params": b"structured_outputs"}
_CHECKED_FIELDS = {
    dialect: places if dialect == "vllm_generate" else places | {"tools"} for dialect, places in CONSTRAINT_FIELDS_BY_DIALECT.items()
}
_TOO_EXPENSIVE_REASONS = {
    "": "it cannot be read",
    "time": f"checking it takes more than {CPU_LIMIT_S * 1000:.0f} ms of processor time",
    "memory": "checking it takes more than 100 MB of memory",
    "depth": "it is nested deeper than can be read",
}


class CheckResult(Struct, frozen=True):
    """The result for a request's constraint: the constraint, or the error to raise (type, message, param). Neither: there is none."""

    constraint: Constraint | None = None
    fault: tuple[type[RequestError], str, str | None] | None = None

    def unwrap(self) -> Constraint | None:
        if self.fault is not None:
            error_type, message, param = self.fault
            raise error_type(message, param=param)
        return self.constraint


class ConstraintChecks:
    """One for each worker. Results are cached by the bytes of the constraint.

    Responses have a checking process of their own, started for the first of them: constraints cost nothing to send, and a response that was
    paid for does not wait for them. A response may wait for `response_wait_s` for its turn.
    """

    def __init__(self, response_wait_s: float) -> None:
        self._checker = CheckerClient(_DEADLINE_S)
        self._response_checker = CheckerClient(_RESPONSE_CHECK_S)
        self._queue = CheckQueue(self._checker, _MAX_WAITING_PER_TEAM)
        self._response_queue = CheckQueue(self._response_checker)
        self._response_wait_s = response_wait_s
        self._cache: ContentCache[CheckResult] = ContentCache(_MAX_CACHED, _MAX_CACHED_BYTES)
        self._checking: dict[tuple[str, bytes], asyncio.Task[CheckResult]] = {}

    def start(self) -> None:
        """Starts the checking process of constraints in the background."""
        self._checker.start()

    async def stop(self) -> None:
        """Stops the checking processes. Checks that still wait fail as unavailable."""
        await asyncio.gather(self._queue.stop(), self._response_queue.stop())
        await asyncio.gather(*self._checking.values(), return_exceptions=True)

    @property
    def pids(self) -> tuple[int | None, int | None]:
        """The ids of the checking processes of constraints and of responses; None if one does not run."""
        return self._checker.pid, self._response_checker.pid

    async def check_request(self, request: InboundRequest, team_id: str) -> Constraint | None:
        """The constraint on a request's output; None: there is none. Raises InvalidRequest, naming the field, if nothing can satisfy it.

        Raises Unavailable if that could not be checked in time, or if too many new constraints of the team are waiting.
        """
        constraint_fields = (CONSTRAINT_FIELDS_BY_DIALECT if request.has_strict_tools is False else _CHECKED_FIELDS).get(request.dialect)
        if constraint_fields is None or constraint_fields.isdisjoint(request.body):
            return None
        body = request.body
        fields = [(field, bytes(as_raw(body[field]))) for field in body if field in constraint_fields]
        fields = [(place, raw) for place, raw in fields if _may_constrain(place, raw)]
        if not fields:
            return None
        for place, raw in fields:
            if len(raw) > MAX_CONSTRAINT_CHARS and place != "tools":  # each tool's schema is checked by itself
                raise InvalidRequest(f"`{place}` has {len(raw)} bytes; {MAX_CONSTRAINT_CHARS} can be checked.", param=place)
        content = request.dialect.encode() + b"".join([b"\0%b\0%b" % (place.encode(), raw) for place, raw in fields])
        result = self._cache.get(content)
        if result is None:
            result = await self._check_once(request.dialect, fields, content, team_id)
        return result.unwrap()

    async def _check_once(self, dialect: str, fields: Sequence[tuple[str, bytes]], content: bytes, team_id: str) -> CheckResult:
        check_key = (team_id, content)  # of the team too: a check waits among those of the team that began it
        checking = self._checking.get(check_key)
        if checking is None:
            checking = self._checking[check_key] = asyncio.create_task(self._check_and_cache(dialect, fields, content, team_id))
            checking.add_done_callback(lambda _: self._checking.pop(check_key))
        try:
            # Shielded: other requests may wait for the same check, and a retry finds its result.
            return await asyncio.wait_for(asyncio.shield(checking), _DEADLINE_S)
        except TooManyOrders:
            why = f"{_MAX_WAITING_PER_TEAM} new constraints of your team are waiting to be checked already. Try again."
            raise Unavailable(why, retry_after_s=1) from None
        except (CheckerUnavailable, TimeoutError):
            why = "Whether the constraint can be satisfied could not be checked in time. Try again."
            raise Unavailable(why, retry_after_s=1) from None

    async def _check_and_cache(self, dialect: str, fields: Sequence[tuple[str, bytes]], content: bytes, team_id: str) -> CheckResult:
        try:
            constraint = structured_output.read_constraint(dialect, Body((field, Raw(raw)) for field, raw in fields))
            result = CheckResult(constraint) if constraint is None else await self._check_constraint(constraint, team_id)
        except DECODE_ERRORS as fault:
            result = CheckResult(fault=(InvalidRequest, f"`{fields[0][0]}` cannot be read: {fault}.", fields[0][0]))
        except (InvalidRequest, Unsupported) as fault:
            result = CheckResult(fault=(type(fault), fault.message, fault.param))
        self._cache.put(content, result)
        return result

    async def _check_constraint(self, constraint: Constraint, team_id: str) -> CheckResult:
        tasks: list[tuple[str, CheckTask]] = [
            (path, CheckTask("json_schema", bytes(schema).decode())) for path, schema in constraint.strict_tools
        ]
        if constraint.output is not None:
            field_path = constraint.value_path or constraint.field
            task = check_task(constraint.output, field_path)
            if task is not None:
                if constraint.whitespace is not None:
                    task = replace(task, whitespace=constraint.whitespace[1])
                tasks.insert(0, (field_path, task))
        for path, task in tasks:
            if len(task.source) > MAX_CONSTRAINT_CHARS:
                field_path = constraint.caller_path(path)
                raise InvalidRequest(
                    f"`{field_path}` has {len(task.source)} characters; {MAX_CONSTRAINT_CHARS} can be checked.", param=field_path
                )
        if not tasks:
            return CheckResult(constraint)
        check_order = CheckOrder(tuple(task for _, task in tasks), min(MAX_CPU_LIMIT_S, CPU_LIMIT_S * len(tasks)))
        verdict = await self._queue.check(team_id, check_order)
        field_path = constraint.caller_path(tasks[verdict.task_index][0])
        match verdict.outcome:
            case "valid":
                strict = dict(constraint.strict_tools)
                loose = (tasks[task_index][0] for task_index in verdict.unenforced)
                return CheckResult(
                    replace(
                        constraint,
                        uncovered_paths=frozenset(path if path in strict else constraint.field for path in loose),
                        whitespace_regex=verdict.whitespace_regexes.get(0),
                    )
                )
            case "invalid":
                param = dotted_path(field_path, verdict.path)
                raise InvalidRequest(f"`{param}` cannot be satisfied: {verdict.message}.", param=param)
            case "too_expensive":
                raise InvalidRequest(
                    f"`{field_path}` is too large or too deep: {_TOO_EXPENSIVE_REASONS.get(verdict.message, verdict.message)}.",
                    param=field_path,
                )
            case "out_of_time":
                raise CheckerUnavailable("the machine is too busy")

    async def find_violation(self, output: OutputFormat, text: str, team_id: str, *, is_complete: bool) -> str | None:
        """How a response's text violates the output format, as a sentence; None: it does not.

        Where `is_complete` is False, the text was cut off, so it only has to be a possible beginning. A text that cannot be checked within
        the limits is a violation too, as it is not known to satisfy the format. Raises CheckerUnavailable if nothing can be said of it.
        """
        if len(text) > _MAX_RESPONSE_CHARS:
            return f"the answer has {len(text)} characters, more than can be checked."
        task = CheckTask(output_kind(output), source_text(output), text, is_complete)
        verdict = await self._check_response(CheckOrder((task,), RESPONSE_CPU_LIMIT_S), team_id)
        match verdict.outcome:
            case "valid":
                return None
            case "invalid":
                return f"{verdict.message}."
            case "too_expensive":
                return f"the answer takes more than {RESPONSE_CPU_LIMIT_S * 1000:.0f} ms of processor time, or too much memory, to check."
            case "out_of_time":
                raise CheckerUnavailable("the machine is too busy")

    async def _check_response(self, check_order: CheckOrder, team_id: str) -> Verdict:
        """Waits for its turn, and for a checking process that failed to work again. Raises CheckerUnavailable."""
        give_up_at: float | None = None
        pause_s = _FIRST_PAUSE_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._response_wait_s):
                while True:
                    try:
                        return await self._response_queue.check(team_id, check_order)
                    except CheckerStopped:
                        raise
                    except CheckerUnavailable:
                        give_up_at = give_up_at or time.monotonic() + _RETRY_CHECK_S
                        if time.monotonic() + pause_s > give_up_at:
                            raise
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * 2, _MAX_PAUSE_S)
        raise CheckerUnavailable(f"no turn came within {self._response_wait_s:g} s")


def _may_constrain(field: str, raw: bytes) -> bool:
    """Whether a field may hold a constraint, without parsing it: it contains the marker, or escapes that may spell it."""
    marker = _CONSTRAINT_MARKERS.get(field)
    # A search for one byte is far faster than for two.
    return raw != b"null" and (marker is None or marker in raw or (b"\\" in raw and b"\\u" in raw))
