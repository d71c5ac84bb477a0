"""Anthropic's count of the tokens of a request to /v1/messages: asked and answered in one dialect, by engines that speak it."""

from typing import ClassVar

import msgspec

from providers.anthropic_asks import open_count
from providers.anthropic_errors import read_told_error, write_error, write_error_frame
from providers.chat import Usage
from providers.dialect import Ask, Edited, Editor, Stamp
from providers.errors import Garbled, NarthexError
from providers.wire import UNREADABLE, Body


class _Count(msgspec.Struct):
    input_tokens: int


_count = msgspec.json.Decoder(_Count)


class AnthropicCountTokens:
    """See providers.dialect.Dialect, whose methods these are."""

    name: ClassVar[str] = "anthropic_count_tokens"

    def open(self, raw: bytes) -> Ask:
        """`stream: true` is refused, so that there is never one."""
        return open_count(raw)

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        """As it came: the clients know `input_tokens` and nothing of ours. What was counted was not used: 0."""
        body = Body.read_reply(raw)
        error = read_told_error(body)
        if error is not None:
            raise error
        try:
            _count.decode(raw)
        except UNREADABLE as fault:
            raise Garbled(f"The engine's answer is not a count of tokens: {fault}.") from None
        return Edited(body.write(), Usage(0, 0), None)

    def editor(self, stamp: Stamp) -> Editor:
        """Never wanted: an engine that streams all the same has not answered what was asked."""
        raise Garbled("The engine answered a count of tokens with a stream.")

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        body.pop("stream", None)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return write_error_frame(error)
