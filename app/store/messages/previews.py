"""Previews: the beginning of the newest thing that a user said in each of some requests."""

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.process.thread_steps import in_steps, run_in_steps
from app.store.formats.content_packing import unpack_within
from app.store.postgres.tables import deleted_responses, inference_content
from providers.canonical.chat import ChatRequest, Text
from providers.canonical.errors import NarthexError
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS

MAX_ROWS = 200
MAX_CHARACTERS = 160
_MAX_REQUEST_BYTES = 256 * 1024  # a longer one has no preview
_MAX_PACKED_BYTES = 4 * 1024 * 1024  # of all requests together


async def read_previews(connection: AsyncConnection, routes: Mapping[str, str]) -> dict[str, str]:
    """Returns the previews of inferences by id. `routes` has the API of each one's caller.

    Requests that are not kept, too long, deleted by their callers or of no chat have none.
    """
    chats = {id: route for id, route in routes.items() if route in CALLER_CHAT_DIALECTS}
    if not chats:
        return {}
    content = inference_content.c
    within = (
        select(content.id, func.length(content.request).label("length"))
        .outerjoin(deleted_responses, deleted_responses.c.id == content.id)
        .where(content.id.in_(list(chats)), deleted_responses.c.id.is_(None), content.request.is_not(None))
        .order_by(content.id.desc())
    )
    wanted: list[str] = []
    total_bytes = 0
    for id, length in await connection.execute(within):
        if length <= _MAX_REQUEST_BYTES and (total_bytes := total_bytes + length) <= _MAX_PACKED_BYTES:
            wanted.append(id)
    rows = (await connection.execute(select(content.id, content.request).where(content.id.in_(wanted)))).all()
    packed = [(row.id, chats[row.id], row.request) for row in rows]
    return await run_in_steps(lambda: dict(_read_all(packed)))


def _read_all(packed: Sequence[tuple[str, str, bytes]]) -> Iterator[tuple[str, str]]:
    for id, route, request in in_steps(packed):
        raw = unpack_within(request, _MAX_REQUEST_BYTES)
        preview = None if raw is None else preview_of(route, raw)
        if preview is not None:
            yield id, preview


def preview_of(route: str, raw: bytes) -> str | None:
    """Returns the beginning of the newest text of a user in a chat, on one line, or None if there is none."""
    dialect = CALLER_CHAT_DIALECTS[route]
    try:
        chat = dialect.read_request(dialect.parse_request(raw).body)
    except (NarthexError, *DECODE_ERRORS):
        return None
    text = " ".join(_newest_text(chat)[: 4 * MAX_CHARACTERS].split())
    return text[:MAX_CHARACTERS] or None


def _newest_text(chat: ChatRequest) -> str:
    for message in reversed(chat.messages):
        if message.role == "user" and (texts := [part.text for part in message.parts if isinstance(part, Text)]):
            return " ".join(texts)
    return chat.prompt or ""
