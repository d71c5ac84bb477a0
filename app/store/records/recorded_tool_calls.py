"""Tool calls of recorded responses, read in whichever chat API the caller used."""

import contextlib
from collections.abc import Iterator, Sequence

from msgspec import Struct
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.process.thread_steps import in_steps, run_in_steps
from app.store.formats.content_packing import unpack_within
from app.store.postgres.tables import deleted_responses, inference_content
from providers.canonical.chat import ChatResponse, ToolCall
from providers.canonical.errors import NarthexError
from providers.canonical.events import ResponseAssembler
from providers.dialect import CallerChatDialect
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS

MAX_CALLS = 100  # of a response
MAX_ARGUMENT_CHARS = 500
_MAX_RESPONSE_BYTES = 1024 * 1024
_MAX_PACKED_BYTES = 8 * 1024 * 1024  # of all responses together
_BLOCK_BYTES = 16 * 1024


class CalledTool(Struct, frozen=True):
    """A tool that the model called. `arguments`: the first characters of what the model wrote."""

    id: str
    name: str
    arguments: str


class RecordedStream(Struct, frozen=True):
    """A recorded response to read. `route` is the API of its caller."""

    id: str
    route: str
    streamed: bool


PackedResponses = Sequence[tuple[RecordedStream, bytes]]


async def read_packed_responses(connection: AsyncConnection, responses: Sequence[RecordedStream]) -> PackedResponses:
    """Returns responses as they are stored.

    Those that are not kept, too long, or of no chat are left out, and so are those that no longer fit into
    memory.
    """
    chats = {each.id: each for each in responses if each.route in CALLER_CHAT_DIALECTS}
    if not chats:
        return []
    content = inference_content.c
    within = (
        select(content.id, func.length(content.response).label("length"))
        .outerjoin(deleted_responses, deleted_responses.c.id == content.id)
        .where(content.id.in_(list(chats)), deleted_responses.c.id.is_(None))
        .order_by(content.id)
    )
    wanted: list[str] = []
    total = 0
    for id, length in await connection.execute(within):
        if length is not None and length <= _MAX_RESPONSE_BYTES and (total := total + length) <= _MAX_PACKED_BYTES:
            wanted.append(id)
    rows = await connection.execute(select(content.id, content.response).where(content.id.in_(wanted)))
    return [(chats[id], response) for id, response in rows]


async def read_tool_calls(packed: PackedResponses) -> dict[str, list[CalledTool]]:
    """Returns the tool calls of responses, by the responses' ids."""
    return await run_in_steps(lambda: dict(_read_all(packed)))


def _read_all(packed: PackedResponses) -> Iterator[tuple[str, list[CalledTool]]]:
    for stream, response in in_steps(packed):
        raw = unpack_within(response, _MAX_RESPONSE_BYTES)
        if raw is not None:
            yield stream.id, called_tools(CALLER_CHAT_DIALECTS[stream.route], raw, streamed=stream.streamed)


def called_tools(dialect: CallerChatDialect, raw: bytes, *, streamed: bool) -> list[CalledTool]:
    """Returns the tools that a response called, as its caller got it.

    Of a broken response, it returns those that came before.
    """
    calls = [part for choice in _read(dialect, raw, streamed).choices for part in choice.parts if isinstance(part, ToolCall)]
    return [CalledTool(each.id, each.name, each.arguments[:MAX_ARGUMENT_CHARS]) for each in calls[:MAX_CALLS]]


def _read(dialect: CallerChatDialect, raw: bytes, streamed: bool) -> ChatResponse:
    assembler = ResponseAssembler()
    with contextlib.suppress(NarthexError):  # an error, a response that was cut off, or one that is redacted beyond recognition
        if not streamed:
            return dialect.read_response(raw)
        reader = dialect.stream_reader()
        for start in in_steps(range(0, len(raw), _BLOCK_BYTES)):
            for event in reader.feed(raw[start : start + _BLOCK_BYTES]):
                assembler.feed(event)
        for event in reader.finish():
            assembler.feed(event)
    return assembler.finish()
