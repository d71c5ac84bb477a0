"""The byte edit: an engine's answer in OpenAI chat made the caller's. Our keys are replaced, everything else is the engine's own bytes.

Which keys: id, model, episode_id, usage, and the reasoning field's name (`reasoning` of vLLM >= 0.16 and Ollama is told as the
documented `reasoning_content`). Content that is a list is told as the string that it is to OpenAI (content_lists.py), and what a host
tells of its sources as annotations too (sources.py). What engines call a text completion in a chat is told as the chat completion that
it is, and calls of tools are told as clients can put them together (strays.py).
"""

import re

import msgspec
from msgspec import Raw

from providers.dialect import Edited, Stamp
from providers.dialects.openai_chat import roles
from providers.dialects.openai_chat.content_lists import find_list, with_plain_content
from providers.dialects.openai_chat.details_held import HeldDetails
from providers.dialects.openai_chat.endings import write_service_tier
from providers.dialects.openai_chat.sources import has_sources, with_annotations
from providers.dialects.openai_chat.strays import MARK, Strays, calling, cured
from providers.errors import Garbled
from providers.openai_endings import PLAIN, with_plain_endings
from providers.openai_stream import Head, StreamEditor, check_ending, read_heads
from providers.openai_usage import groq_usage, told_usage
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body

_EMPTY = Raw(b'""')
_ROLE = Raw(b'"assistant"')
# Perplexity's last chunk.
_DONE = Raw(b'"chat.completion.done"')
_NO_DELTA = Raw(b"{}")
_STOP, _CALLS = Raw(b'"stop"'), Raw(b'"tool_calls"')

# Choices without one of these are as they are promised: one search costs half of three.
_may_be_odd = re.compile(rb'"(?:text"|reasoning"|tool_calls"|content"\s*:\s*\[)').search

_choices = msgspec.json.Decoder(list[dict[str, Raw]])
_message = msgspec.json.Decoder(dict[str, Raw])


def edit(raw: bytes, stamp: Stamp) -> Edited:
    """A whole answer. Raises Garbled if it is none, or the error that an engine told with status 200."""
    body = Body.read_reply(raw)
    error = error_in(body)
    if error is not None:
        raise error
    choices = body.get("choices", NULL)
    try:
        heads = read_heads(choices)
        told = body["usage"] if body.said("usage") else groq_usage(body.get("x_groq", NULL))
        usage = None
        service_tier = body.value("service_tier") if "service_tier" in body else None
        if told is not None:
            usage, kept = told_usage(told, service_tier)
            if kept is not told:
                body["usage"] = kept
        whole = bytes(choices)
        ends_otherwise = any([head.finish_reason in PLAIN for head in heads])
        shaped = _shaped_whole(with_plain_endings(whole) if ends_otherwise else whole, stops_after_calls=stamp.stops_after_calls)
        if shaped is not whole:
            heads = read_heads(shaped)
        body["choices"] = Raw(shaped)
        if has_sources(body):
            body["choices"] = with_annotations(body, "message") or body["choices"]
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is not a chat completion: {fault}.") from None
    if not heads:
        raise Garbled("The engine's answer has no choices.")
    for head in heads:
        check_ending(head.finish_reason)
    body["id"], body["episode_id"], body["model"] = stamp.id, stamp.episode_id, stamp.model
    body["object"] = "chat.completion"
    if not body.said("created"):
        body["created"] = stamp.created
    if not body.said("system_fingerprint"):
        body["system_fingerprint"] = _EMPTY
    # Groq's `on_demand` is none that official clients know.
    if service_tier is None or write_service_tier(service_tier) is None:
        body["service_tier"] = _EMPTY
    return Edited(body.write(), usage, min(heads, key=_index).finish_reason)


def _shaped_whole(choices: bytes, *, stops_after_calls: bool) -> bytes:
    if _may_be_odd(choices) is None:
        return choices
    if b'"text"' in choices:
        choices = _as_chat(choices, "message")
    if find_list(choices) is not None:
        choices = with_plain_content(choices, "message")
    if b'"reasoning"' in choices:
        choices = _with_reasoning_named(choices, "message")
    if MARK not in choices:
        return choices
    return _ended(cured(choices), calling(choices, "message")) if stops_after_calls else cured(choices)


def _index(head: Head) -> int:
    return head.index or 0


def chunk_editor(stamp: Stamp) -> StreamEditor:
    return _ChunkEditor(stamp, stamp.id, "chat.completion.chunk", _Shaping(stops_after_calls=stamp.stops_after_calls).shaped)


class _ChunkEditor(StreamEditor):
    def _named(self, body: Body) -> Body:
        if has_sources(body) and "choices" in body:
            body["choices"] = with_annotations(body, "delta") or body["choices"]
        return super()._named(body)

    def _tidy(self, body: Body) -> None:
        if "service_tier" in body and write_service_tier(body.value("service_tier")) is None:
            del body["service_tier"]
        if body.get("object") == _DONE:
            del body["object"]


class _Shaping:
    """The choices of each chunk of one stream as they are promised: the same bytes where they are so already."""

    def __init__(self, *, stops_after_calls: bool) -> None:
        self._strays = Strays()
        self._roles = roles.Roles()
        self._details = HeldDetails()
        self._stops_after_calls = stops_after_calls
        self._calling: frozenset[int] = frozenset()

    def shaped(self, choices: bytes) -> bytes:
        if self._stops_after_calls:
            if MARK in choices:
                self._calling |= calling(choices, "delta")
            return _ended(self._shaped(choices), self._calling)
        return self._shaped(choices)

    def _shaped(self, choices: bytes) -> bytes:
        if b'"delta"' not in choices:
            choices = _with_deltas(choices)
        if roles.MARK in choices:
            choices = self._roles.once(choices)
        choices = self._details.held(choices)
        if _may_be_odd(choices) is None:
            return choices
        if b'"text"' in choices:
            choices = _as_chat(choices, "delta")
        if find_list(choices) is not None:
            choices = with_plain_content(choices, "delta")
        if b'"reasoning"' in choices:
            choices = _with_reasoning_named(choices, "delta")
        return self._strays.cured(choices) if MARK in choices else choices


def _ended(choices: bytes, calling: frozenset[int]) -> bytes:
    """With the finish reason that OpenAI gives of choices that have made calls."""
    if not calling or b'"stop"' not in choices:
        return choices
    told = _choices.decode(choices)
    for choice in told:
        if choice.get("finish_reason") == _STOP and (msgspec.json.decode(choice.get("index", NULL)) or 0) in calling:
            choice["finish_reason"] = _CALLS
    return msgspec.json.encode(told)


def _as_chat(choices: bytes, inside: str) -> bytes:
    """Choices that say `text`, as those of a completion do, with a message or delta in its place."""
    told = _choices.decode(choices)
    changed = False
    for choice in told:
        if "text" in choice and inside not in choice:
            changed = True
            choice[inside] = Raw(msgspec.json.encode({"role": _ROLE, "content": choice.pop("text")}))
    return msgspec.json.encode(told) if changed else choices


def _with_deltas(choices: bytes) -> bytes:
    """With a delta, which clients read of every choice: Azure's later chunks tell what its filter found alone.

    Source: https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-streaming, read 2026-11.
    """
    told = _choices.decode(choices)
    bare = [choice for choice in told if "text" not in choice and "message" not in choice]
    for choice in bare:
        choice["delta"] = _NO_DELTA
    return msgspec.json.encode(told) if bare else choices


def _with_reasoning_named(choices: bytes, inside: str) -> bytes:
    """`reasoning` told as `reasoning_content`; an engine that tells both (vLLM 0.12 to 0.15) is left alone."""
    renamed = _choices.decode(choices)
    for choice in renamed:
        said = _message.decode(choice[inside]) if inside in choice and choice[inside] != NULL else {}
        if "reasoning" in said and said.pop("reasoning_content", NULL) == NULL:
            choice[inside] = Raw(
                msgspec.json.encode({("reasoning_content" if key == "reasoning" else key): value for key, value in said.items()})
            )
    return msgspec.json.encode(renamed)
