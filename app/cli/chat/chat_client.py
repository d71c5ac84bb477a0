"""The HTTP client of `narthex chat`: sends a chat to a running gateway and reports events as they arrive."""

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from email.message import Message
from typing import Any

import msgspec
from msgspec import Struct

from app.cli.chat.chat_result import ChatResult
from app.cli.clients.caller_client import CallerClient
from app.cli.errors import CommandError
from providers.canonical.errors import NarthexError
from providers.canonical.events import Event, ResponseAssembler, response_events
from providers.dialects.openai_chat import OpenAIChat

_DIALECT = OpenAIChat()
_BLOCK_BYTES = 65536


class ChatParams(Struct, frozen=True):
    """The parameters of every request of a conversation. None: not sent."""

    model: str
    max_tokens: int | None = None
    temperature: float | None = None
    stream: bool = True


class ChatClient(CallerClient):
    """Chats with one gateway by one key."""

    def send(
        self, chat_params: ChatParams, messages: list[dict[str, Any]], episode_id: str | None, on_event: Callable[[Event], None]
    ) -> ChatResult:
        """Sends the messages, calls `on_event` with each event as it arrives, and returns the result. Raises CommandError.

        An interruption (KeyboardInterrupt) closes the connection, which stops the engine.
        """
        started_at = time.monotonic()
        headers = {**self.headers(), "content-type": "application/json"}
        if episode_id is not None:
            headers["x-narthex-episode-id"] = episode_id
        with self.connect() as connection:
            with self.read_faults():
                connection.request("POST", f"{self._base_path}/v1/chat/completions", _write_body(chat_params, messages), headers)
                response = connection.getresponse()
            with closing(response):
                if response.status != 200:
                    raise self.read_error(response)
                try:
                    return _read_response(self._blocks(response, chat_params), response.headers, chat_params, started_at, on_event)
                except NarthexError as fault:
                    raise CommandError(f"The response ended early: {fault.message}", status=fault.status) from fault

    def _blocks(self, response: http.client.HTTPResponse, chat_params: ChatParams) -> Iterator[bytes]:
        with self.read_faults():
            while block := response.read1(_BLOCK_BYTES) if chat_params.stream else response.read():
                yield block


def _write_body(chat_params: ChatParams, messages: list[dict[str, Any]]) -> bytes:
    body: dict[str, Any] = {"model": chat_params.model, "messages": messages}
    if chat_params.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if chat_params.max_tokens is not None:
        body["max_tokens"] = chat_params.max_tokens
    if chat_params.temperature is not None:
        body["temperature"] = chat_params.temperature
    return msgspec.json.encode(body)


def _read_response(
    blocks: Iterator[bytes], headers: Message, chat_params: ChatParams, started_at: float, on_event: Callable[[Event], None]
) -> ChatResult:
    assembler, first_token_s = ResponseAssembler(), None
    if chat_params.stream:
        reader = _DIALECT.stream_reader()
        for block in blocks:
            for event in reader.feed(block):
                first_token_s = first_token_s or time.monotonic() - started_at
                assembler.feed(event)
                on_event(event)
        for event in reader.finish():
            assembler.feed(event)
            on_event(event)
    else:
        for event in response_events(_DIALECT.read_response(b"".join(blocks))):
            assembler.feed(event)
            on_event(event)
    assembled = assembler.finish()
    choice = assembled.choices[0] if assembled.choices else None
    return ChatResult(
        inference_id=headers.get("x-narthex-inference-id"),
        episode_id=headers.get("x-narthex-episode-id"),
        model=assembled.model or chat_params.model,
        served=headers.get("x-narthex-served"),
        dropped=tuple(each.strip() for each in headers.get("x-narthex-dropped", "").split(",") if each.strip()),
        parts=choice.parts if choice else (),
        finish_reason=choice.finish_reason if choice else None,
        usage=assembled.usage,
        first_token_s=first_token_s,
        duration_s=time.monotonic() - started_at,
    )
