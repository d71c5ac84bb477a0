"""A caller's ask made an engine's. The same dialect: an edit of the bytes. Another: its meaning is read, and written anew."""

import asyncio
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.domain import Target
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.response_translation.translate import AnyDialect, TargetDialect, chat_dialects
from providers import structured_output
from providers.adapters.provider import Provider
from providers.canonical import media
from providers.canonical.carrier import find_carrier
from providers.canonical.chat import ChatRequest, Message, Text
from providers.canonical.errors import ConstraintViolation, InvalidRequest, OperationNotSupported, Unsupported
from providers.canonical.field_names import field_name_translator, rename_field_in_error
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialect import ChatDialect, Dialect, DropPolicy, InboundRequest
from providers.dialects.catalogue import CHAT_DIALECTS, ENGINE_DIALECTS, RAW_PROMPT_DIALECTS
from providers.engine_routes.route import Route
from providers.host_operation import HostOperation
from providers.structured_output import Constraint, ConstraintPlan

P = ParamSpec("P")
T = TypeVar("T")

_MAX_DROPPED_PATHS = 32
# For places in a body, which is read anew for each: so many, and of so many bytes together.
_MAX_PATH_LOOKUPS = 8
_PATH_LOOKUP_BYTES = 4_000_000
_INDEX = re.compile(r"\[\d+\]")


# OpenAI's first words for tools, by which a caller who says them is told what cannot be.
_LEGACY_TOOL_FIELDS: Mapping[str, str] = {"functions": "tools", "function_call": "tool_choice"}

_NO_HEADERS: Mapping[bytes, bytes] = {}
_NO_FIELD_NAMES: Mapping[str, str] = {}


class TranslatedRequest(Struct, frozen=True):
    """What goes to the engine, in which dialect, whether it will be asked to stream, and which of the caller's fields do not go.

    `betas`: the caller's `anthropic-beta`, for an engine that speaks the same. `guiding`: how what constrains the answer is asked for.
    `id`: that by which the engine knows the request, if it is one that takes it. `model`: where the address names it.
    """

    raw: bytes
    dialect: TargetDialect
    stream: bool
    dropped: list[str]
    betas: bytes
    constraint_plan: ConstraintPlan | None
    id: str | None = None
    model: str = ""


class RequestTranslator:
    """A caller's ask, and its meaning once somebody wants it. `fetching` gets what a target must have in bytes, once.

    `id`: the inference's. `headers`: the caller's, of which a target's credential may be one.
    `repairs`: how often an answer that does not obey `constraint` may be asked for again.
    """

    __slots__ = (
        *(
            "_betas",
            "_has_carrier",
            "_chat",
            "_media_fetcher",
            "_has_foreign_constraint",
            "_inference_id",
            "_id_count",
            "_repaired",
            "_may_drop",
            "_max_path_lookups",
            "_chat_dialect",
        ),
        *("_field_names", "request", "constraint", "caller_dialect", "headers", "max_repairs"),
    )

    def __init__(
        self,
        request: InboundRequest,
        raw: bytes,
        dialect: Dialect,
        media_fetcher: MediaFetcher,
        may_drop: Callable[[str], bool],
        betas: bytes = b"",
        constraint: Constraint | None = None,
        inference_id: str = "",
        max_repairs: int = 0,
        headers: Mapping[bytes, bytes] = _NO_HEADERS,
    ) -> None:
        self.request = request
        self.headers = headers
        self.caller_dialect = dialect
        self._may_drop = may_drop
        self._betas = betas
        self._max_path_lookups = min(_MAX_PATH_LOOKUPS, 1 + _PATH_LOOKUP_BYTES // (len(raw) + 1))
        self._media_fetcher = media_fetcher
        self._chat_dialect = CHAT_DIALECTS.get(dialect.name)
        # What another dialect's engine sealed must be given back to it as its own, or left out: no engine reads our carriers.
        self._has_carrier = self._chat_dialect is not None and _has_carrier(request, raw)
        self.constraint = constraint
        self.max_repairs = max_repairs
        self._inference_id = inference_id
        self._id_count = 0
        self._repaired = False
        # Engines' words for guided decoding, in a dialect in which no engine reads them.
        self._has_foreign_constraint = dialect.name in (
            "openai_responses",
            "anthropic_messages",
        ) and not structured_output.CONSTRAINT_FIELDS.isdisjoint(request.body)
        self._chat: ChatRequest | None = None
        self._field_names: Mapping[str, str] = {}

    def candidate_dialects(self, provider: Provider, dialect_names: Sequence[str]) -> Sequence[AnyDialect]:
        """Of those spoken there, in which this may be asked, best first. Raises NotOffered if in none."""
        caller_dialect_name = self.caller_dialect.name
        has_output_constraint = self.constraint is not None and self.constraint.output is not None
        if self.request.raw_prompt:
            dialect_names = [
                name
                for name in dialect_names
                if name in RAW_PROMPT_DIALECTS or (provider.accepts_raw_prompt and name == caller_dialect_name)
            ]
        elif caller_dialect_name in dialect_names and (
            not has_output_constraint
            or caller_dialect_name == "openai_completions"
            or self._is_enforced_in(caller_dialect_name, provider, dialect_names)
        ):
            return (self.caller_dialect,)
        elif self._chat_dialect is None:
            dialect_names = ()
        elif caller_dialect_name == "openai_completions":
            dialect_names = [name for name in dialect_names if name in RAW_PROMPT_DIALECTS]
        else:
            dialect_names = [name for name in dialect_names if name in ENGINE_DIALECTS and name not in RAW_PROMPT_DIALECTS]
            if has_output_constraint:
                dialect_names.sort(key=lambda name: name not in provider.constrained_dialects)
        if not dialect_names:
            request_kind = "raw prompts" if self.request.raw_prompt else f"such requests ({caller_dialect_name})"
            raise OperationNotSupported(
                f"{provider.configured_as} ({provider.name}), which serves {self.request.model!r:.100}, has no API for {request_kind}.",
                param="model",
            )
        return [ENGINE_DIALECTS[name] for name in dialect_names]

    def _is_enforced_in(self, caller_dialect_name: str, provider: Provider, dialect_names: Sequence[str]) -> bool:
        """Or as well as in any other."""
        return provider.constrained_dialects.isdisjoint(dialect_names) or (
            caller_dialect_name in provider.constrained_dialects and not self._has_foreign_constraint
        )

    def edit_request(self, provider: Provider, target: Target) -> TranslatedRequest | None:
        """An edit of the caller's bytes, for an engine that speaks the caller's dialect; None where that is not enough.

        Raises Unsupported for what cannot be honoured there, Malformed for what shows to be wrong.
        """
        holds_media = self._chat_dialect is not None and self.caller_dialect.name != "openai_completions"
        if self._has_carrier or self._has_foreign_constraint or self._repaired:
            return None
        if holds_media and (kinds := provider.inline_media_kinds_in(self.caller_dialect.name)) and self._has_media_urls(kinds):
            return None
        return self._finish_request(self.caller_dialect, Body(self.request.body), provider, target, [], self.constraint, None)

    def _has_media_urls(self, kinds: frozenset[media.MediaKind]) -> bool:
        """Whether the body names by its address what must go in bytes. What cannot be read is the host's to refuse."""
        if not any(b"url" in bytes(value) for value in self.request.body.values() if isinstance(value, msgspec.Raw)):
            return False
        try:
            return bool(media.media_urls(CHAT_DIALECTS[self.caller_dialect.name].read_request(self.request.body), kinds))
        except InvalidRequest:
            return False

    def translate_route(self, route: Route, provider: Provider, target: Target) -> TranslatedRequest:
        """For a route that each engine has in its own way. Raises NotOffered and Unsupported."""
        if target.dialect is not None:
            raise OperationNotSupported(
                f"{provider.configured_as}, which serves {self.request.model!r:.100}, is asked in {target.dialect} alone.", param="model"
            )
        body = Body(self.request.body)
        binding, dropped = route.translate_request(body, provider, self.request.model, target.model, self._may_drop)
        if target.lora is not None and not route.is_free_of_charge:
            if not binding.sends_model:
                raise provider.unsupported_error("model", f"its {binding.name} cannot be asked for a LoRA adapter.")
            body["model"] = provider.select_lora_adapter(target.model, target.lora, body)
        return TranslatedRequest(body.write(), binding, False, dropped, b"", None)

    def translate_host_operation(self, host_operation: HostOperation, provider: Provider, target: Target) -> TranslatedRequest:
        """For what a host is asked in a shape of its own. Raises Unsupported and Malformed."""
        body, dropped = host_operation.write_request(Body(self.request.body), target.model, self._may_drop)
        provider.set_model(body, host_operation.name, target.model, False)
        url_model = target.model if provider.model_in_url else ""
        return TranslatedRequest(body.write(), host_operation, False, dropped, b"", None, None, url_model)

    async def translate_chat(self, dialect: AnyDialect, provider: Provider, target: Target) -> TranslatedRequest:
        """Raises as edited() does, and for media that cannot be fetched."""
        caller_dialect, target_dialect = chat_dialects(self.caller_dialect, dialect)
        if self._chat is None:
            self._chat = apply_constraint_fields(caller_dialect.read_request(self.request.body))
            self._field_names = caller_field_names(caller_dialect, self.request.body)
        inline_media_kinds = provider.inline_media_kinds_in(target_dialect.name) | target_dialect.inline_media_kinds
        chat = self._chat
        media_urls = {
            each for each in media.media_urls(chat, inline_media_kinds) if not provider.accepts_media_url(each, target_dialect.name)
        }
        if media_urls:
            chat = self._chat = media.inline_media(chat, inline_media_kinds, await self._media_fetcher.fetch(media_urls))
        caller_path = functools.partial(caller_dialect.caller_path, self.request.body)
        provider_label = f"{provider.configured_as} ({provider.name})"
        drop_policy = DropPolicy(self._may_drop, self._field_names, provider_label, caller_path, max_paths=self._max_path_lookups)
        try:
            # Some hosts' rules differ by model: it is named as they know it.
            body = target_dialect.write_request(
                provider.adapt_chat(replace(chat, model=target.model), target_dialect.name, drop_policy), drop_policy
            )
        except DECODE_ERRORS as fault:
            # What came in a carrier, or beside what is checked, and is not what it says.
            raise InvalidRequest(f"Something in the request cannot be said to {provider_label}: {fault}.") from None
        if chat.prompt is not None and chat.max_tokens is None and caller_dialect.name != target_dialect.name == "openai_completions":
            if provider.no_limit_fields is None:
                drop_policy.drop_or_refuse("max_tokens", "its completions need one: it writes 16 tokens where nobody says how many.")
            else:
                body.update(provider.no_limit_fields)
        constraint = self.constraint
        if constraint is not None and isinstance(constraint.output, structured_output.JsonSchema | structured_output.JsonObject):
            constraint = replace(constraint, is_openai_format=True)  # as it was written just now
        target_chat_dialect = CHAT_DIALECTS.get(target_dialect.name)
        caller_field_name = field_name_translator(
            caller_dialect.name,
            self._field_names,
            target_dialect.name,
            target_chat_dialect.field_names if target_chat_dialect is not None else _NO_FIELD_NAMES,
        )
        try:
            return await self.run_in_thread_if_slow(
                self._finish_request, dialect, body, provider, target, _limit_paths(drop_policy.dropped), constraint, caller_field_name
            )
        except Unsupported as fault:
            raise rename_field_in_error(fault, caller_field_name) from None

    async def run_in_thread_if_slow(self, prepare: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """On a thread where the constraint is one whose conversion takes long: others are to be served meanwhile."""
        if self.constraint is None or not self.constraint.is_slow_to_convert:
            return prepare(*args, **kwargs)
        return await asyncio.to_thread(prepare, *args, **kwargs)

    def add_repair_messages(self, violation: ConstraintViolation) -> None:
        """From now on the ask goes on from an answer that did not obey, with a word about that."""
        if self._chat is None:
            caller_dialect = CHAT_DIALECTS[self.caller_dialect.name]
            self._chat = apply_constraint_fields(caller_dialect.read_request(self.request.body))
            self._field_names = caller_field_names(caller_dialect, self.request.body)
        if self._chat.prompt is not None:
            return
        repair_messages = (
            Message("assistant", (Text(violation.response_text),)),
            Message("user", (Text(f"This answer does not obey what constrains it: {violation.reason} Answer again, and obey it."),)),
        )
        self._chat = replace(self._chat, messages=(*self._chat.messages, *repair_messages))
        self._repaired = True

    def _finish_request(
        self,
        dialect: AnyDialect,
        body: Body,
        provider: Provider,
        target: Target,
        dropped: list[str],
        constraint: Constraint | None,
        caller_field_name: Callable[[str], str] | None,
    ) -> TranslatedRequest:
        """`name`: what the caller calls a field of the body, where that is another word."""
        body["model"] = target.model  # hosts' rules are of their models, by their names
        if caller_field_name is None:
            adapted = provider.adapt_request(body, dialect.name, self._may_drop, constraint)
            dropped += adapted.dropped
        else:
            adapted = provider.adapt_request(
                body, dialect.name, lambda field: self._may_drop(field) or self._may_drop(caller_field_name(field)), constraint
            )
            dropped += map(caller_field_name, adapted.dropped)
        model = target.model if target.lora is None else provider.select_lora_adapter(target.model, target.lora, body)
        id = self._next_upstream_id() if provider.request_id_field is not None else None
        if provider.request_id_field is not None:
            body[provider.request_id_field] = id
        stream = self.request.stream
        if provider.streams != "both" and dialect.name in ENGINE_DIALECTS:
            stream = provider.streams == "only"
        if stream != self.request.stream and _wants_non_text_output(body):
            raise provider.unsupported_error(
                "modalities", "such an answer reaches its caller only as the host tells it: streamed, or whole."
            )
        dialect.prepare_upstream_body(body, stream, tell_usage=provider.stream_usage)
        provider.set_model(body, dialect.name, model, stream)
        betas = self._betas
        if betas and dialect is not self.caller_dialect:
            dropped.append("anthropic-beta")
            betas = b""
        if betas:
            betas = provider.forward_betas(body, dialect.name, betas)
        return TranslatedRequest(
            body.write(), dialect, stream, dropped, betas, adapted.constraint_plan, id, target.model if provider.model_in_url else ""
        )

    def _next_upstream_id(self) -> str:
        """Another for each attempt, of which none begins with another: SGLang refuses one that it still works on, and aborts by prefix.

        Source: managers/tokenizer_manager.py and scheduler.py of SGLang 0.5.23, read 2026-11.
        """
        self._id_count += 1
        return self._inference_id if self._id_count == 1 else f"{self._id_count}-{self._inference_id}"


def _wants_non_text_output(body: Body) -> bool:
    """Whether the answer is to be more than text, which nothing but OpenAI's chat itself has a place for."""
    modalities: Any = body.value("modalities")
    return isinstance(modalities, list) and modalities != ["text"] and modalities != []


def _has_carrier(request: InboundRequest, raw: bytes) -> bool:
    """What was said before an answer that the ask goes on from, or refers to, is in the ask alone."""
    return find_carrier(raw) is not None or (
        (request.previous_response_id is not None or request.references_items) and find_carrier(request.body.write()) is not None
    )


def _limit_paths(dropped: list[str]) -> list[str]:
    """Of a long conversation, not each place by itself: clients bound the headers that they take."""
    return dropped if len(dropped) <= _MAX_DROPPED_PATHS else sorted({_INDEX.sub("[]", each) for each in dropped})[:_MAX_DROPPED_PATHS]


def caller_field_names(caller_dialect: ChatDialect, body: Body) -> Mapping[str, str]:
    """What the caller calls the meaning's fields: a constraint, by the word of those that it sent; tools, by the one of old if it did."""
    constraint = min(structured_output.CONSTRAINT_FIELDS & body.keys(), default=None)
    if constraint is None and _LEGACY_TOOL_FIELDS.keys().isdisjoint(body):
        return caller_dialect.field_names
    legacy_names = {
        current: legacy for legacy, current in _LEGACY_TOOL_FIELDS.items() if body.has_value(legacy) and not body.has_value(current)
    }
    return {**caller_dialect.field_names, **legacy_names, **({} if constraint is None else {"output": constraint})}


def apply_constraint_fields(chat: ChatRequest) -> ChatRequest:
    """Engines' words for guided decoding, which callers of any dialect may send, as the output that they ask for."""
    constraint_fields = structured_output.CONSTRAINT_FIELDS & chat.extra.keys()
    if not constraint_fields:
        return chat
    output = structured_output.read_output_format(Body(chat.extra))
    if output is not None and chat.output is not None:
        raise InvalidRequest("Two fields constrain the answer: send one of them.", param=min(constraint_fields))
    remaining = {key: value for key, value in chat.extra.items() if key not in constraint_fields}
    return replace(chat, output=output or chat.output, extra=remaining)
