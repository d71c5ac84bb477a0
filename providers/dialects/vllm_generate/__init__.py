"""vLLM's own API for tokens: token ids in, token ids out, whole and streamed. For callers that tokenize for themselves."""

from typing import ClassVar

from providers.dialect import Ask, Edited, Stamp
from providers.dialects.vllm_generate.asks import open_ask
from providers.dialects.vllm_generate.edits import StreamEditor, edit
from providers.envelope import openai_error
from providers.errors import NarthexError
from providers.openai_stream import prepare
from providers.wire import Body, frame


class VLLMGenerate:
    """See providers.dialect.Dialect, whose methods these are."""

    name: ClassVar[str] = "vllm_generate"

    def open(self, raw: bytes) -> Ask:
        return open_ask(raw)

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        return edit(raw, stamp)

    def editor(self, stamp: Stamp) -> StreamEditor:
        return StreamEditor(stamp)

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        prepare(body, stream, tell_usage=tell_usage)

    def write_error(self, error: NarthexError) -> bytes:
        return openai_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return frame(openai_error(error))
