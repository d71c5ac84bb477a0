"""A chat with a running gateway over HTTP: what is asked, and what comes back as it comes."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from app.cli.sentences import Failure
from providers.chat import Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.dialects.openai_chat import OpenAIChat
from providers.errors import NarthexError
from providers.events import Event, Fold, unfold
from providers.wire import UNREADABLE

_DIALECT = OpenAIChat()
_CONNECT_S = 5.0


class Wanted(Struct, frozen=True):
    """What is the same in each ask of a conversation. None: not said."""

    model: str
    max_tokens: int | None = None
    temperature: float | None = None
    stream: bool = True


class Answered(Struct, frozen=True):
    """An answer, or as much of it as came. `served` as provider/model; `first_token_s` None where it was not streamed."""

    inference_id: str | None
    episode_id: str | None
    model: str
    served: str | None
    dropped: tuple[str, ...]
    parts: tuple[Part, ...]
    finish_reason: str | None
    usage: Usage | None
    first_token_s: float | None
    duration_s: float

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))


class Line:
    """The way to one gateway, with one key; used as a context. `patience_s`: longest silence; the gateway has shorter ones of its own."""

    def __init__(self, url: str, key: str, key_from: str, *, patience_s: float) -> None:
        self._url = url
        self._key_from = key_from
        timeout = httpx.Timeout(patience_s, connect=_CONNECT_S)
        # No proxy of the environment's: the gateway is ours, and mostly on this machine.
        self._client = httpx.Client(headers={"authorization": f"Bearer {key}"}, timeout=timeout, trust_env=False)

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, wanted: Wanted, messages: list[dict[str, Any]], episode_id: str | None, heard: Callable[[Event], None]) -> Answered:
        """The answer, each event of it told to `heard` at once. Raises Failure; what was heard before stays heard.

        Broken off from outside (KeyboardInterrupt), it hangs up, which stops the engine.
        """
        began = time.monotonic()
        try:
            with self._client.stream(
                "POST", f"{self._url}/v1/chat/completions", content=_body(wanted, messages), headers=_headers(episode_id)
            ) as response:
                if response.status_code != 200:
                    response.read()
                    raise self._refused(response)
                return _answered(response, wanted, began, heard)
        except NarthexError as fault:
            raise Failure(f"The answer ended early: {fault.message}", status=fault.status) from fault
        except (httpx.ConnectError, httpx.ConnectTimeout) as fault:
            raise Failure(
                f"Nothing answers on {self._url} ({fault}). `narthex up` starts a gateway; `narthex doctor` says what is wrong with one."
            ) from fault
        except httpx.TimeoutException as fault:
            raise Failure(f"The gateway on {self._url} fell silent.") from fault
        except (httpx.HTTPError, httpx.InvalidURL) as fault:
            raise Failure(f"The connection to {self._url} broke: {fault}") from fault

    def _refused(self, response: httpx.Response) -> Failure:
        try:
            error = msgspec.json.decode(response.content, type=dict[str, dict[str, Any]])["error"]
            message = str(error["message"])
        except (*UNREADABLE, KeyError):
            return Failure(
                f"{self._url} answered with status {response.status_code}, and not as a gateway does.", status=response.status_code
            )
        if response.status_code == 401:
            message += f" The key came from {self._key_from}."
        wait = response.headers.get("retry-after")
        if wait and "retry_after_s" not in (error.get("details") or {}):  # a limit's message says it already, and more exactly
            message += f" Try again in {wait} s."
        more = {"retry_after_s": float(wait)} if wait and wait.isdigit() else {}
        return Failure(message, status=response.status_code, code=error.get("code"), **more)


def _body(wanted: Wanted, messages: list[dict[str, Any]]) -> bytes:
    body: dict[str, Any] = {"model": wanted.model, "messages": messages}
    if wanted.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if wanted.max_tokens is not None:
        body["max_tokens"] = wanted.max_tokens
    if wanted.temperature is not None:
        body["temperature"] = wanted.temperature
    return msgspec.json.encode(body)


def _headers(episode_id: str | None) -> dict[str, str]:
    return {"content-type": "application/json", **({"x-narthex-episode-id": episode_id} if episode_id else {})}


def _answered(response: httpx.Response, wanted: Wanted, began: float, heard: Callable[[Event], None]) -> Answered:
    folding, first_token_s = Fold(), None
    if wanted.stream:
        reader = _DIALECT.reader()
        for block in response.iter_bytes():
            for event in reader.feed(block):
                first_token_s = first_token_s or time.monotonic() - began
                folding.feed(event)
                heard(event)
        for event in reader.end():
            folding.feed(event)
            heard(event)
    else:
        for event in unfold(_DIALECT.read_response(response.read())):
            folding.feed(event)
            heard(event)
    whole = folding.end()
    choice = whole.choices[0] if whole.choices else None
    told: Mapping[str, str] = response.headers
    return Answered(
        inference_id=told.get("x-narthex-inference-id"),
        episode_id=told.get("x-narthex-episode-id"),
        model=whole.model or wanted.model,
        served=told.get("x-narthex-served"),
        dropped=tuple(each.strip() for each in told.get("x-narthex-dropped", "").split(",") if each.strip()),
        parts=choice.parts if choice else (),
        finish_reason=choice.finish_reason if choice else None,
        usage=whole.usage,
        first_token_s=first_token_s,
        duration_s=time.monotonic() - began,
    )


def document(answer: Answered) -> dict[str, Any]:
    """The whole answer for a program."""
    usage = answer.usage
    return {
        "inference_id": answer.inference_id,
        "episode_id": answer.episode_id,
        "model": answer.model,
        "served": answer.served,
        "text": answer.text,
        "reasoning": "".join(part.text for part in answer.parts if isinstance(part, Reasoning)) or None,
        "refusal": "".join(part.text for part in answer.parts if isinstance(part, Refusal)) or None,
        "tool_calls": [
            {"id": part.id, "name": part.name, "arguments": part.arguments} for part in answer.parts if isinstance(part, ToolCall)
        ],
        "finish_reason": answer.finish_reason,
        "usage": usage
        and {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cached_tokens": usage.cached,
            "reasoning_tokens": usage.reasoning,
        },
        "first_token_s": answer.first_token_s,
        "duration_s": answer.duration_s,
        "dropped": answer.dropped,
    }
