"""OpenAI's embeddings: texts or token ids in, vectors out. No chat, and never a stream."""

from typing import ClassVar

from providers.dialect import Ask, Edited, Editor, Stamp
from providers.dialects.openai_embeddings.asks import open_ask
from providers.dialects.openai_embeddings.edits import edit
from providers.envelope import openai_error
from providers.errors import Garbled, NarthexError
from providers.wire import Body, frame


class OpenAIEmbeddings:
    """See providers.dialect.Dialect, whose methods these are."""

    name: ClassVar[str] = "openai_embeddings"

    def open(self, raw: bytes) -> Ask:
        return open_ask(raw)

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        return edit(raw, stamp)

    def editor(self, stamp: Stamp) -> Editor:
        """Nobody may ask for a stream here, so none may come."""
        raise Garbled("The engine streamed an answer that was to come whole.")

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """Whole, whatever is wanted elsewhere."""
        body.pop("stream", None)
        body.pop("stream_options", None)

    def write_error(self, error: NarthexError) -> bytes:
        return openai_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return frame(openai_error(error))
