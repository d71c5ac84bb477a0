"""The HTTP client of `narthex chat`: sends a chat to a running gateway and reports events as they arrive."""

import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from app.cli.chat.chat_result import ChatResult
from app.cli.errors import CommandError
from providers.canonical.errors import NarthexError
from providers.canonical.events import Event, ResponseAssembler, response_events
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.openai_chat import OpenAIChat

_DIALECT = OpenAIChat()
_CONNECT_S = 5.0


class ChatParams(Struct, frozen=True):
    """The parameters of every request of a conversation. None: not sent."""

    model: str
    max_tokens: int | None = None
    temperature: float | None = None
    stream: bool = True


class ChatClient:
    """One gateway and one key; a context manager.

    `key_from` says where the key was found, for error messages. `timeout_s` is the longest silence; the gateway has shorter timeouts
    itself. `verification` is that of the gateway's certificate, as httpx takes it.
    """

    def __init__(self, url: str, key: str, key_from: str, *, timeout_s: float, verification: ssl.SSLContext | bool) -> None:
        self._url = url
        self._key_from = key_from
        timeout = httpx.Timeout(timeout_s, connect=_CONNECT_S)
        # Proxies in the environment are ignored: the gateway is ours, and mostly on this machine.
        headers = {"authorization": f"Bearer {key}"}
        self._client = httpx.Client(headers=headers, timeout=timeout, trust_env=False, verify=verification)

    def __enter__(self) -> "ChatClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def send(
        self, chat_params: ChatParams, messages: list[dict[str, Any]], episode_id: str | None, on_event: Callable[[Event], None]
    ) -> ChatResult:
        """Sends the messages, calls `on_event` with each event as it arrives, and returns the result. Raises CommandError.

        An interruption (KeyboardInterrupt) closes the connection, which stops the engine.
        """
        started_at = time.monotonic()
        try:
            with self._client.stream(
                "POST", f"{self._url}/v1/chat/completions", content=_write_body(chat_params, messages), headers=_headers(episode_id)
            ) as response:
                if response.status_code != 200:
                    response.read()
                    raise self._read_error(response)
                return _read_response(response, chat_params, started_at, on_event)
        except NarthexError as fault:
            raise CommandError(f"The response ended early: {fault.message}", status=fault.status) from fault
        except (httpx.ConnectError, httpx.ConnectTimeout) as fault:
            raise CommandError(
                f"Nothing answers on {self._url} ({fault}). `narthex up` starts a gateway; `narthex doctor` finds out what is wrong."
            ) from fault
        except httpx.TimeoutException as fault:
            raise CommandError(f"The gateway on {self._url} did not answer in time.") from fault
        except (httpx.HTTPError, httpx.InvalidURL) as fault:
            raise CommandError(f"The connection to {self._url} broke: {fault}") from fault

    def _read_error(self, response: httpx.Response) -> CommandError:
        try:
            error = msgspec.json.decode(response.content, type=dict[str, dict[str, Any]])["error"]
            message = str(error["message"])
        except (*DECODE_ERRORS, KeyError):
            return CommandError(
                f"{self._url} answered with status {response.status_code}, but not as a gateway does.", status=response.status_code
            )
        if response.status_code == 401:
            message += f" The key came from {self._key_from}."
        retry_after = response.headers.get("retry-after")
        if retry_after and "retry_after_s" not in (error.get("details") or {}):  # a limit's message contains it, and more exactly
            message += f" Try again in {retry_after} s."
        details = {"retry_after_s": float(retry_after)} if retry_after and retry_after.isdigit() else {}
        return CommandError(message, status=response.status_code, code=error.get("code"), **details)


def _write_body(chat_params: ChatParams, messages: list[dict[str, Any]]) -> bytes:
    body: dict[str, Any] = {"model": chat_params.model, "messages": messages}
    if chat_params.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if chat_params.max_tokens is not None:
        body["max_tokens"] = chat_params.max_tokens
    if chat_params.temperature is not None:
        body["temperature"] = chat_params.temperature
    return msgspec.json.encode(body)


def _headers(episode_id: str | None) -> dict[str, str]:
    return {"content-type": "application/json", **({"x-narthex-episode-id": episode_id} if episode_id else {})}


def _read_response(response: httpx.Response, chat_params: ChatParams, started_at: float, on_event: Callable[[Event], None]) -> ChatResult:
    assembler, first_token_s = ResponseAssembler(), None
    if chat_params.stream:
        reader = _DIALECT.stream_reader()
        for block in response.iter_bytes():
            for event in reader.feed(block):
                first_token_s = first_token_s or time.monotonic() - started_at
                assembler.feed(event)
                on_event(event)
        for event in reader.finish():
            assembler.feed(event)
            on_event(event)
    else:
        for event in response_events(_DIALECT.read_response(response.read())):
            assembler.feed(event)
            on_event(event)
    assembled = assembler.finish()
    choice = assembled.choices[0] if assembled.choices else None
    response_headers: Mapping[str, str] = response.headers
    return ChatResult(
        inference_id=response_headers.get("x-narthex-inference-id"),
        episode_id=response_headers.get("x-narthex-episode-id"),
        model=assembled.model or chat_params.model,
        served=response_headers.get("x-narthex-served"),
        dropped=tuple(each.strip() for each in response_headers.get("x-narthex-dropped", "").split(",") if each.strip()),
        parts=choice.parts if choice else (),
        finish_reason=choice.finish_reason if choice else None,
        usage=assembled.usage,
        first_token_s=first_token_s,
        duration_s=time.monotonic() - started_at,
    )
