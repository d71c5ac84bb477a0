"""OutboundStream: a response that is sent on while the engine still writes it; and the reading of a stream to the point that is needed."""

from collections.abc import AsyncIterator
from io import BytesIO

from msgspec import Struct

from app.gateway.response_translation.stream_assembler import StreamAssembler
from app.gateway.upstream.progress import ResponseProgress
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated
from providers.dialect import StreamEditor


class OutboundStream(Struct):
    """A stream that has begun: what to send first, and the engine's blocks that the editor turns into the rest."""

    first: bytes
    editor: StreamEditor
    blocks: AsyncIterator[bytes]


async def begin_stream(
    blocks: AsyncIterator[bytes], editor: StreamEditor, progress: ResponseProgress, provider_name: str
) -> OutboundStream:
    """Reads until there is something for the caller. Raises UpstreamError if the engine shows that there will not be."""
    async for block in blocks:
        progress.mark_first_token()
        first = editor.feed(block)
        if first:
            return OutboundStream(first, editor, blocks)
        if editor.failure is not None:
            raise editor.failure
        if editor.done:
            break
    # A short response may be a single frame, which the editor withholds because it is also the last.
    if editor.finish_reason is None:
        raise StreamTruncated(f"{provider_name} ended its answer before it began.")
    return OutboundStream(b"", editor, blocks)


async def assemble(blocks: AsyncIterator[bytes], assembler: StreamAssembler, limit_bytes: int, progress: ResponseProgress) -> bytes:
    """The stream's bytes. A caller who disconnects meanwhile is charged what came until then.

    Raises InvalidUpstreamResponse over the limit.
    """
    received = BytesIO()  # it gives its bytes away without a copy
    async for block in blocks:
        received.write(block)
        if received.tell() > limit_bytes:
            raise InvalidUpstreamResponse(f"The engine's answer is larger than {limit_bytes} bytes.")
        assembler.feed(block)
        progress.written_tokens = assembler.written_tokens
        if assembler.done:
            break
    return received.getvalue()


async def no_blocks() -> AsyncIterator[bytes]:
    return
    yield b""
