"""The HTTP client of `narthex chat`: sends a chat to a running gateway and reports events as they arrive."""

import http.client
import ssl
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from app.cli.chat.chat_result import ChatResult
from app.cli.errors import CommandError
from app.cli.gateway_connection import open_connection
from providers.canonical.errors import NarthexError
from providers.canonical.events import Event, ResponseAssembler, response_events
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.openai_chat import OpenAIChat

_DIALECT = OpenAIChat()
_BLOCK_BYTES = 65536


class ChatParams(Struct, frozen=True):
    """The parameters of every request of a conversation. None: not sent."""

    model: str
    max_tokens: int | None = None
    temperature: float | None = None
    stream: bool = True


class ChatClient:
    """One gateway and one key.

    `key_from` says where the key was found, for error messages. `timeout_s` is the longest silence; the gateway has shorter timeouts
    itself. `verification` is what tls_verification() says of it.
    """

    def __init__(self, url: str, key: str, key_from: str, *, timeout_s: float, verification: ssl.SSLContext | bool) -> None:
        self._url = url
        self._path = urlsplit(url).path + "/v1/chat/completions"
        self._key = key
        self._key_from = key_from
        self._timeout_s = timeout_s
        self._verification = verification

    def send(
        self, chat_params: ChatParams, messages: list[dict[str, Any]], episode_id: str | None, on_event: Callable[[Event], None]
    ) -> ChatResult:
        """Sends the messages, calls `on_event` with each event as it arrives, and returns the result. Raises CommandError.

        An interruption (KeyboardInterrupt) closes the connection, which stops the engine.
        """
        started_at = time.monotonic()
        with self._connect() as connection:
            with self._read_faults():
                connection.request("POST", self._path, _write_body(chat_params, messages), self._headers(episode_id))
                response = connection.getresponse()
            with closing(response):
                if response.status != 200:
                    raise self._read_error(response)
                try:
                    return _read_response(self._blocks(response, chat_params), response.headers, chat_params, started_at, on_event)
                except NarthexError as fault:
                    raise CommandError(f"The response ended early: {fault.message}", status=fault.status) from fault

    def _blocks(self, response: http.client.HTTPResponse, chat_params: ChatParams) -> Iterator[bytes]:
        with self._read_faults():
            while block := response.read1(_BLOCK_BYTES) if chat_params.stream else response.read():
                yield block

    @contextmanager
    def _read_faults(self) -> Generator[None]:
        """Raises CommandError for what goes wrong on the connection."""
        try:
            yield
        except TimeoutError as fault:
            raise CommandError(f"The gateway on {self._url} did not answer in time.") from fault
        except (OSError, http.client.HTTPException, ValueError) as fault:
            raise CommandError(f"The connection to {self._url} broke: {fault}") from fault

    @contextmanager
    def _connect(self) -> Generator[http.client.HTTPConnection]:
        """Proxies are ignored: the gateway is ours, and mostly on this machine."""
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(open_connection(self._url, self._verification, None, self._timeout_s))
            except OSError as fault:
                raise CommandError(
                    f"Nothing answers on {self._url} ({fault}). `narthex up` starts a gateway; `narthex doctor` finds out what is wrong."
                ) from fault
            except (http.client.HTTPException, ValueError) as fault:
                raise CommandError(f"The connection to {self._url} broke: {fault}") from fault
            yield connection

    def _headers(self, episode_id: str | None) -> dict[str, str]:
        # Closed by the gateway, so that the end of a response shows, whoever sent it.
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json", "connection": "close"}
        return headers | ({"x-narthex-episode-id": episode_id} if episode_id else {})

    def _read_error(self, response: http.client.HTTPResponse) -> CommandError:
        try:
            error = msgspec.json.decode(response.read(), type=dict[str, dict[str, Any]])["error"]
            message = str(error["message"])
        except (*DECODE_ERRORS, KeyError):
            return CommandError(f"{self._url} answered with status {response.status}, but not as a gateway does.", status=response.status)
        if response.status == 401:
            message += f" The key came from {self._key_from}."
        retry_after = response.headers.get("retry-after")
        if retry_after and "retry_after_s" not in (error.get("details") or {}):  # a limit's message contains it, and more exactly
            message += f" Try again in {retry_after} s."
        details = {"retry_after_s": float(retry_after)} if retry_after and retry_after.isdigit() else {}
        return CommandError(message, status=response.status, code=error.get("code"), **details)


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
