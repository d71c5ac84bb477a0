"""Recorded inferences as examples: the request as its variant's templates made it, with the history that it continues."""

import contextlib
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.datasets.example import Example, write_example
from app.datasets.reasons import Skipped
from app.gateway.functions.function_request import FunctionRequest
from app.gateway.functions.function_table import CompiledFunction
from app.gateway.large_body.large_requests import TeamLargeRequests
from app.gateway.request.reserved_fields import function_fields, reserved_fields
from app.gateway.routing.function_variants import write_variant
from providers.canonical.chat import ChatResponse, Part
from providers.canonical.errors import InvalidRequest, NarthexError, WorkTooLarge
from providers.canonical.events import ResponseAssembler
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialect import CallerChatDialect, InboundRequest
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS

_BLOCK_BYTES = 64 * 1024
_CUT_OFF = frozenset({"length", "content_filter"})


class Recorded(Struct, frozen=True):
    """An inference and its content."""

    route: str
    streamed: bool
    request: bytes  # as it was sent, unpacked
    response: bytes | None  # as it was sent, unpacked; None: there is no complete one
    demonstration: Any = None  # as JSON has it; None: there is none
    function: CompiledFunction | None = None  # its configuration then; None: a model was requested
    variant: str | None = None  # which served, or was chosen


def parse_recorded(recorded: Recorded) -> InboundRequest:
    """Raises Skipped."""
    dialect = _dialect(recorded)
    try:
        return dialect.parse_request(recorded.request)
    except (NarthexError, *DECODE_ERRORS) as fault:
        raise Skipped("unreadable", getattr(fault, "param", None)) from None


def refers_to_earlier_turns(request: InboundRequest) -> bool:
    return request.previous_response_id is not None or request.references_items


async def render_request(recorded: Recorded, request: InboundRequest, large_requests: TeamLargeRequests) -> InboundRequest:
    """Returns the request as it was sent to the model.

    `request` is the result of parse_recorded(), with its history. Templates are rendered as those of a
    caller's request are. Raises Skipped, and Unavailable if no process can do the work.
    """
    reserved = frozenset(reserved_fields(request.body))
    of_function = function_fields(request.body)
    if reserved:
        request = replace(request, body=Body({name: value for name, value in request.body.items() if name not in reserved}))
    if recorded.function is None:
        return request
    if recorded.variant is None or recorded.variant not in recorded.function.variants:
        raise Skipped("template", recorded.function.fault)
    try:
        function_request = FunctionRequest(recorded.function, _dialect(recorded), request, of_function.input)
        rendered, _ = await write_variant(large_requests, function_request, recorded.variant, len(recorded.request))
    except InvalidRequest as fault:
        raise Skipped("template", fault.param) from None
    except WorkTooLarge as fault:
        raise Skipped("template", fault.message) from None
    return rendered


def read_example(recorded: Recorded, rendered: InboundRequest) -> Example:
    """Makes an example of an inference. `rendered` is the request as it was sent to the model. Raises Skipped."""
    dialect = _dialect(recorded)
    try:
        chat = dialect.read_request(rendered.body)
    except (NarthexError, *DECODE_ERRORS) as fault:
        raise Skipped("unreadable", getattr(fault, "param", None)) from None
    return write_example(chat, _read_response(recorded, dialect), recorded.demonstration)


def _dialect(recorded: Recorded) -> CallerChatDialect:
    dialect = CALLER_CHAT_DIALECTS.get(recorded.route)
    if dialect is None:
        raise Skipped("not_a_chat", recorded.route)
    return dialect


def _read_response(recorded: Recorded, dialect: CallerChatDialect) -> Sequence[Part] | None:
    """The parts of the first choice. None: there is none that is complete, but a demonstration in its place."""
    raw, choice = recorded.response, None
    if raw is not None:
        with contextlib.suppress(NarthexError, *DECODE_ERRORS):
            response = _assembled(dialect, raw) if recorded.streamed else dialect.read_response(raw)
            choice = response.choices[0] if response.choices else None
    if choice is not None and choice.parts and choice.finish_reason not in _CUT_OFF:
        return choice.parts
    if recorded.demonstration is not None:
        return None
    raise Skipped("no_response" if choice is None or not choice.parts else "cut_off")


def _assembled(dialect: CallerChatDialect, raw: bytes) -> ChatResponse:
    assembler, reader = ResponseAssembler(), dialect.stream_reader()
    for start in range(0, len(raw), _BLOCK_BYTES):
        for event in reader.feed(raw[start : start + _BLOCK_BYTES]):
            assembler.feed(event)
    for event in reader.finish():
        assembler.feed(event)
    return assembler.finish()
