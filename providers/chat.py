"""The meaning of an answer to a chat, whichever wire it came over. Parts keep their order; `None` means that it was not said."""

from msgspec import Raw, Struct


class Usage(Struct, frozen=True, array_like=True):
    """Tokens; `cached` is part of `input`, `reasoning` of `output`. None = not reported, 0 = reported as none."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None


class Text(Struct, frozen=True, tag=True):
    text: str


class Reasoning(Struct, frozen=True, tag=True):
    text: str


class Refusal(Struct, frozen=True, tag=True):
    text: str


class ToolCall(Struct, frozen=True, tag=True):
    """`arguments` stays the string that the model wrote: it need not be JSON."""

    id: str
    name: str
    arguments: str


Part = Text | Reasoning | Refusal | ToolCall


class Choice(Struct, frozen=True):
    """One of the answers asked for. `finish_reason` in OpenAI's words. `logprobs`: the entries of OpenAI's `content` list, as told."""

    parts: tuple[Part, ...]
    finish_reason: str | None
    logprobs: tuple[Raw, ...] | None = None


class ChatResponse(Struct, frozen=True):
    """A whole answer. `created` in Unix seconds. `choices` by index. `usage` None: the engine did not count."""

    choices: tuple[Choice, ...]
    model: str
    created: int | None = None
    usage: Usage | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
