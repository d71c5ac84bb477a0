"""Reasoning state: encrypted reasoning and thought signatures, which only the account that made them can read.

Where several providers may serve a model, the state in a response is marked with the one that made it. The caller sends it back unread
with the next turn, which then goes to that provider first; every other one gets the request without the state. Models with one provider
get and send their own bytes.
"""

import functools
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from app.domain.snapshot import Plan
from app.gateway.request_translation.grown_chat import continue_text
from app.gateway.request_translation.source_request import SourceRequest
from providers.canonical.errors import UpstreamError, UpstreamRejected
from providers.canonical.raw_json import Body
from providers.dialects.gemini.contents import SKIP_SIGNATURE

# A mark is at the beginning of the state. It shares the beginning of carriers (providers/canonical/carrier.py), whose origins are names of
# dialects: one search finds both.
_MARK = re.compile(rb'"nx1\.@([0-9a-f]{8})\.')
_KEY = re.compile(
    # Responses: reasoning items, in all events that hold them.
    rb'("encrypted_content":\s*"'
    # Messages: the end of a thinking block in a stream, and such a block as a whole.
    rb'|"type":\s*"signature_delta",\s*"signature":\s*"'
    rb'|"type":\s*"thinking",\s*"thinking":\s*"(?:[^"\\]++|\\.)*+",\s*"signature":\s*"'
    rb'|"type":\s*"redacted_thinking",\s*"data":\s*"'
    # What carries the state of another dialect, in any API.
    rb'|"(?=nx1\.[a-z_]))(?=[^"])'
)
_REFUSALS = re.compile(
    r"encrypted[_ ]content|invalid `?signature`? in `?thinking|thought[_ ]?signature|reasoning (?:item|content)[^.]{0,60}(?:verif|decrypt)",
    re.IGNORECASE,
)
_REFUSAL_CODES = frozenset({"invalid_encrypted_content", "thinking_signature_invalid"})


@functools.lru_cache(maxsize=4096)
def mark_of(provider: str) -> bytes:
    """Returns eight hexadecimal digits, the same in every process.

    They are no secret: a forged one only makes its request prefer a provider.
    """
    return hashlib.blake2b(provider.encode(), digest_size=4).hexdigest().encode()


def marker_for(plan: Plan, provider: str) -> Callable[[bytes], bytes] | None:
    """Marks the state in a response of this provider, a whole one or complete frames of it. None: no other could serve the model."""
    if all(target.provider == provider for target in plan.targets):
        return None
    marked = rb"\1nx1.@%b." % mark_of(provider)
    return functools.partial(_KEY.sub, marked)


class MarkedState:
    """The marked state in a request. `body` is the caller's, with the history of its conversation."""

    def __init__(self, body: Body, dialect: str) -> None:
        self._body = body
        self._dialect = dialect
        self._marks = [mark.decode() for value in body.values() for mark in _MARK.findall(_written(value))]

    @property
    def has_marks(self) -> bool:
        return bool(self._marks)

    def sort_targets(self, ranked: Sequence[int], plan: Plan) -> list[int]:
        """The positions with the targets first whose providers made the newest state: of the plan's own model and chosen variant."""
        newest = {mark: number for number, mark in enumerate(self._marks, 1)}

        def age(at: int) -> int:
            is_chosen = plan.names[at] == plan.name and (not plan.variants or plan.variants[at] == plan.variant)
            return -newest.get(mark_of(plan.targets[at].provider).decode(), 0) if is_chosen else 1

        return sorted(ranked, key=age)

    def body_for(self, provider: str) -> tuple[Body, list[str]]:
        """The body with the state that this provider made, unmarked; and the paths of what is left out, because another made it."""
        own = mark_of(provider)

        def is_foreign(state: bytes) -> bool:
            return state.startswith(b"nx1.@") and state[5:13] != own

        body, dropped = remove_state(self._body, self._dialect, is_foreign)
        return Body({key: _unmark(value) for key, value in body.items()}), dropped


VariantSources: TypeAlias = Callable[[str], Awaitable["ProviderSources"]]


class ProviderSources:
    """The source request for each provider: where state is marked, each gets one of its own.

    `marked_state` is None if the request has none. `are_all_the_same` means that every provider gets the
    original. `of_variant` returns the same for another variant of the function, whose request is another; it
    is None if the request is for no function.
    """

    def __init__(self, source: SourceRequest, marked_state: MarkedState | None = None, of_variant: "VariantSources | None" = None) -> None:
        self.original = source
        self.of_variant = of_variant
        self.marked_state = marked_state
        self.are_all_the_same = marked_state is None
        self._by_provider: dict[str, tuple[SourceRequest, list[str]]] = {}
        self._without_state: tuple[str, ...] = ()

    async def of(self, provider: str) -> tuple[SourceRequest, list[str]]:
        """The source request, and the paths of state that it does not have."""
        made = self._by_provider.get(provider)
        if made is None:
            state = self.marked_state
            if state is None:
                return self.original, []
            body, dropped = await self.original.run_conversion(state.body_for, provider)
            made = self._by_provider[provider] = (self.original.with_body(body), dropped)
        return made

    async def continue_text(self, text: str, written_tokens: int) -> "ProviderSources | None":
        """See grown_chat.continue_text(). None also where each provider gets a request of its own."""
        if not self.are_all_the_same:
            return None
        continuing = await continue_text(self.original, text, written_tokens)
        return None if continuing is None else ProviderSources(continuing, of_variant=self.of_variant)

    async def leave_state_out(self, provider: str) -> bool:
        """Gives the provider the request without any state from now on.

        Returns False if it has none, or if that was done before.
        """
        if provider in self._without_state:
            return False
        self._without_state += (provider,)
        source, dropped = await self.of(provider)
        body, removed = await self.original.run_conversion(remove_state, source.request.body, source.terms.dialect.name, bool)
        if removed:
            self._by_provider[provider] = (self.original.with_body(body), [*dropped, *removed])
            self.are_all_the_same = False
        return bool(removed)


def find_marked_state(source: SourceRequest) -> MarkedState | None:
    """Returns the marked state in a request, or None if there is none, as nearly always."""
    if not source.has_carrier():
        return None
    state = MarkedState(source.request.body, source.request.dialect)
    return state if state.has_marks else None


def remove_state(body: Body, dialect: str, is_removed: Callable[[bytes], bool]) -> tuple[Body, list[str]]:
    """The body without the state that `is_removed`, and the paths of what is gone. Text that the state belongs to goes with it."""
    match dialect:
        case "openai_responses":
            items, dropped = _without_items(_decoded_list(body, "input"), is_removed)
            return (Body({**body, "input": items}), dropped) if dropped else (body, [])
        case "anthropic_messages":
            messages, dropped = _without_blocks(_decoded_list(body, "messages"), is_removed)
            if not dropped:
                return body, []
            changed = Body({**body, "messages": messages})
            if _continues_calls_without_thinking(messages) and body.has_value("thinking"):
                # With thinking on, Anthropic refuses a turn of calls that does not begin with a thinking block.
                del changed["thinking"]
                dropped.append("thinking")
            return changed, dropped
        case "gemini":
            contents, dropped = _without_signatures(_decoded_list(body, "contents"), is_removed)
            return (Body({**body, "contents": contents}), dropped) if dropped else (body, [])
        case _:
            return body, []


def is_state_refusal(error: UpstreamError) -> bool:
    """Whether a host refused a request because it cannot read the state in it."""
    if not isinstance(error, UpstreamRejected) or error.upstream_status != 400:
        return False
    return error.upstream_code in _REFUSAL_CODES or _REFUSALS.search(error.message) is not None


def _without_items(items: Sequence[Any], is_removed: Callable[[bytes], bool]) -> tuple[list[Any], list[str]]:
    kept: list[Any] = []
    dropped: list[str] = []
    for number, item in enumerate(items):
        match item:
            case {"type": "reasoning", "encrypted_content": str(state)} if is_removed(state.encode()):
                dropped.append(f"input[{number}]")
            case _:
                kept.append(item)
    return kept, dropped


def _without_blocks(messages: Sequence[Any], is_removed: Callable[[bytes], bool]) -> tuple[list[Any], list[str]]:
    kept: list[Any] = []
    dropped: list[str] = []
    for number, message in enumerate(messages):
        match message:
            case {"role": "assistant", "content": [*content]}:
                remaining = [block for block in content if not is_removed(_state_of(block))]
                dropped += [f"messages[{number}].content[{at}]" for at, block in enumerate(content) if is_removed(_state_of(block))]
                if remaining:
                    kept.append({**cast("dict[str, Any]", message), "content": remaining})
            case _:
                kept.append(message)
    return kept, dropped


def _without_signatures(contents: Sequence[Any], is_removed: Callable[[bytes], bool]) -> tuple[list[Any], list[str]]:
    """Thoughts go with their signature; the first call of a content gets Google's own placeholder, which models that require one accept."""
    kept: list[Any] = []
    dropped: list[str] = []
    for number, content in enumerate(contents):
        match content:
            case {"role": "model", "parts": [*parts]}:
                remaining: list[Any] = []
                for at, part in enumerate(parts):
                    match part:
                        case {"thoughtSignature": str(state), **rest} if is_removed(state.encode()):
                            dropped.append(f"contents[{number}].parts[{at}].thoughtSignature")
                            if "functionCall" in rest:
                                remaining.append({**rest, "thoughtSignature": SKIP_SIGNATURE})
                            elif rest.get("text") and not rest.get("thought"):
                                remaining.append(rest)
                        case _:
                            remaining.append(part)
                if remaining:
                    kept.append({**cast("dict[str, Any]", content), "parts": remaining})
            case _:
                kept.append(content)
    return kept, dropped


def _state_of(block: Any) -> bytes:
    """Returns the state of a block, empty if it has none."""
    match block:
        case {"type": "thinking", "signature": str(state)} | {"type": "redacted_thinking", "data": str(state)}:
            return state.encode()
        case _:
            return b""


def _continues_calls_without_thinking(messages: Sequence[Any]) -> bool:
    """Whether the last turn of the assistant has calls, and no longer begins with thinking."""
    for message in reversed(messages):
        match message:
            case {"role": "assistant", "content": [*content]}:
                kinds = [_kind(block) for block in content]
                return "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking")
            case {"role": "assistant"}:
                return False
            case _:
                continue
    return False


def _kind(block: Any) -> str:
    return str(cast("dict[str, Any]", block).get("type")) if isinstance(block, dict) else ""


def _decoded_list(body: Body, key: str) -> list[Any]:
    value = body.get(key)
    if value is None:
        return []
    decoded = msgspec.json.decode(_written(value))
    return cast("list[Any]", decoded) if isinstance(decoded, list) else []


def _written(value: Any) -> bytes:
    return bytes(value) if isinstance(value, msgspec.Raw) else msgspec.json.encode(value)


def _unmark(value: Any) -> Any:
    written = _written(value)
    unmarked = _MARK.sub(b'"', written)
    return value if unmarked is written or len(unmarked) == len(written) else msgspec.Raw(unmarked)
