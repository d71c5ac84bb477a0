"""Translates a caller's request for a target. Same dialect: the bytes are edited. Another: through the canonical chat."""

import asyncio
import copy
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ParamSpec, TypeVar, cast

import msgspec
from msgspec.structs import replace

from app.domain.routing import Capability, Target
from app.gateway.emulation.described_places import DescribedPlaces, own_places
from app.gateway.emulation.emulated_tools import EmulatedTools, demand_call, describe_tools, is_call_demanded
from app.gateway.emulation.emulation import STOP_FIELDS, Emulation, add_field, add_tool_names, add_tools, make_emulation, rewrite_response
from app.gateway.fleet.operator_drops import OperatorDrops
from app.gateway.large_body.large_requests import LARGE_BYTES, TeamLargeRequests
from app.gateway.media import body_media
from app.gateway.media.fetcher import ClaimBytes, FetchesMedia, claim_nothing
from app.gateway.request_translation.caller_fields import (
    OLDER_TOOL_FIELDS,
    apply_constraint_fields,
    caller_field_names,
    has_carrier,
    limit_paths,
    wants_non_text_output,
)
from app.gateway.request_translation.emulable_fields import emulable_fields
from app.gateway.request_translation.learned_adaptation import (
    NO_RULES,
    adapt_betas,
    adapt_to_rules,
    learned_rules_for,
    takes_no_schemas,
    template_rule_for,
)
from app.gateway.request_translation.split_request import split_request
from app.gateway.request_translation.team_salts import TeamSalts
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.response_translation.dialect_pair import AnyDialect, chat_dialects
from app.gateway.response_translation.resumable_stream import ResumableStream, ends_with_part_of
from providers import structured_output
from providers.adapters.content_parts import drop_unsupported_parts
from providers.adapters.provider import Provider
from providers.adapters.tool_names import ToolNames, rename_tools
from providers.canonical import media
from providers.canonical.chat import ChatRequest, Inline, Message, Text
from providers.canonical.errors import ConstraintViolation, InvalidRequest, OperationNotSupported, Unsupported
from providers.canonical.extra_fields import as_raw
from providers.canonical.field_names import field_name_translator, rename_field_in_error
from providers.canonical.instructions import add_instruction, describe_output
from providers.canonical.output_format import JsonObject, JsonSchema
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.template_errors import TemplateRule
from providers.canonical.thinking_fields import write_effort
from providers.dialect import CallerChatDialect, CallerDialect, Dialect, EngineDialect, InboundRequest
from providers.dialect_rule import DialectRule
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS, CHAT_DIALECTS, ENGINE_DIALECTS, RAW_PROMPT_DIALECTS
from providers.drop_policy import DropPolicy
from providers.engine_routes.route import Route
from providers.host_operation import HostOperation
from providers.learned_rules.chat_turns import order_chat
from providers.learned_rules.rule import LearnedRule
from providers.profiles.claude.adapt_chat import move_schemas_to_prompt
from providers.request_overrides.overrides import Scope
from providers.structured_output import Constraint, ConstraintPlan
from providers.structured_output.constraint import SLOW_MIN_BYTES

# Naming the place of a dropped field reads the body anew each time: at most so often, and so many bytes together.
_MAX_PATH_LOOKUPS = 8
_PATH_LOOKUP_BYTES = 4_000_000

# OpenAI's names, of now and of before; Messages and Responses have no others.
_TOOL_FIELDS = frozenset({"tools", "tool_choice", *OLDER_TOOL_FIELDS})
_FIELDS_WITH_TOOLS = frozenset({"tools", "functions", "additional_tools"})
_ALL_MEDIA_KINDS: frozenset[media.MediaKind] = frozenset({"image", "file", "audio"})
P = ParamSpec("P")
T = TypeVar("T")

_NO_HEADERS: Mapping[bytes, bytes] = {}
_NO_FIELD_NAMES: Mapping[str, str] = {}


class _NoFetcher:
    """A stand-in for a MediaFetcher that gives empty media."""

    async def fetch(self, urls: Collection[str], claim_bytes: ClaimBytes = claim_nothing) -> Mapping[str, Inline]:
        return {url: Inline("image/png", "") for url in urls}


class RequestTranslator:
    """Translates one request, for as many targets as are tried. The canonical chat is read once, when a target first needs it.

    edit_request(), translate_chat(), translate_route() and translate_host_operation() give what is sent to a target;
    choose_dialect.translate_request() chooses among them.

    `may_drop`: whether the caller allows a field to be dropped. `betas`: the caller's `anthropic-beta`. `constraint`: on the output.
    `max_repairs`: how often a response that violates the constraint may be requested again.
    `headers`: the caller's, of which a target's credential may be one. `team_id`: the caller's. `refuses_unvalidated`: the caller wants no
    response that could not be checked against the constraint. `claim_bytes`: takes the memory for fetched media. `large_requests`: None:
    this is not one. `team_salts`: for engines whose prefix caches teams do not share; None: the request is no team's.
    `serving`: whom the request goes to next, for the caller's overrides. `capabilities`: those that the configuration states of that model;
    empty: none are stated.
    `operator_drops`: what the operator allows besides, for apply_operator_drops(); None: nothing.
    `own_rules`: what a host taught by refusing this very request.
    `resumable`: the response, if it is a stream that is to go on elsewhere where it breaks off; None: it is not.
    """

    __slots__ = (
        *("_betas", "_caller_may_drop", "_chat", "_chat_dialect", "_claim_bytes", "_emulable", "_field_names"),
        *("_has_engine_constraint_fields",),
        *("capabilities", "_left_out_images"),
        *("_id_count", "_inference_id", "_inlined_for", "_is_rewritten", "_large_requests", "_max_path_lookups", "_may_drop"),
        *("_may_name_media", "_media_fetcher", "_places", "_raw", "_tool_names"),
        *("caller_dialect", "constraint", "headers", "max_repairs", "operator_drops", "own_rules", "refuses_unvalidated", "request"),
        *("resumable", "serving", "team_id", "team_salts"),
    )

    def __init__(
        self,
        request: InboundRequest,
        raw: bytes,
        dialect: CallerDialect,
        media_fetcher: FetchesMedia,
        may_drop: Callable[[str], bool],
        betas: bytes = b"",
        constraint: Constraint | None = None,
        inference_id: str = "",
        max_repairs: int = 0,
        headers: Mapping[bytes, bytes] = _NO_HEADERS,
        team_id: str = "",
        refuses_unvalidated: bool = False,
        claim_bytes: ClaimBytes = claim_nothing,
        large_requests: TeamLargeRequests | None = None,
        team_salts: TeamSalts | None = None,
        operator_drops: OperatorDrops | None = None,
        resumable: ResumableStream | None = None,
    ) -> None:
        self.request = request
        self.resumable = resumable
        self.serving = Scope()
        self.headers = headers
        self.caller_dialect = dialect
        self._may_drop = self._caller_may_drop = may_drop
        self.operator_drops = operator_drops
        self.own_rules = NO_RULES
        self._betas = betas
        self._max_path_lookups = min(_MAX_PATH_LOOKUPS, 1 + _PATH_LOOKUP_BYTES // (len(raw) + 1))
        self._media_fetcher = media_fetcher
        self._raw = raw
        self._may_name_media: bool | None = None
        self._inlined_for: frozenset[str] | None = None
        self._chat_dialect = CALLER_CHAT_DIALECTS.get(dialect.name)
        self.constraint = constraint
        self.max_repairs = max_repairs
        self.team_id = team_id
        self.team_salts = team_salts
        self._claim_bytes = claim_bytes
        self.refuses_unvalidated = refuses_unvalidated
        self._inference_id = inference_id
        self._large_requests = large_requests
        self._id_count = 0
        self._is_rewritten = False
        self._places: Sequence[DescribedPlaces] = ()
        self.capabilities: Sequence[Capability] = ()
        self._left_out_images: Sequence[str] = ()
        # Engines' constraint fields, in a dialect in which no engine reads them.
        self._has_engine_constraint_fields = dialect.name in (
            "openai_responses",
            "anthropic_messages",
        ) and not structured_output.CONSTRAINT_FIELDS.isdisjoint(request.body)
        self._chat: ChatRequest | None = None
        self._field_names: Mapping[str, str] = {}
        self._emulable: frozenset[str] | None = None
        self._tool_names: Mapping[str, str] | None = None

    def split(self, reason: Unsupported) -> "list[RequestTranslator]":
        """Translators of the parts into which the request can be split, as a target refuses all of it for this reason; else empty."""
        return [self._for_part(number, part) for number, part in enumerate(split_request(self.request, reason), 1)]

    def _for_part(self, number: int, request: InboundRequest) -> "RequestTranslator":
        part = copy.copy(self)
        part.request = request
        part._inference_id = f"part{number}.{self._next_upstream_id()}"
        part._id_count, part._emulable = 0, None
        if self._chat is not None and self.caller_dialect.name == "openai_chat":
            # It holds media that was fetched, once for all parts, and what a repair has added.
            part._chat = replace(self._chat, n=None, seed=request.body.value("seed"))
        else:
            part._chat = None
        return part

    def with_body(self, body: Body) -> "RequestTranslator":
        """A translator of the same request with another body."""
        other = copy.copy(self)
        other.request = replace(self.request, body=body)
        other._raw = body.write()
        other._chat, other._emulable = None, None
        return other

    def with_request(self, request: InboundRequest, raw: bytes, constraint: Constraint | None) -> "RequestTranslator":
        """A translator of another request of the same caller, as another variant of a function makes it."""
        other = copy.copy(self)
        other.request, other._raw, other.constraint = request, raw, constraint
        other._chat, other._emulable, other._may_name_media, other._inlined_for = None, None, None, None
        other._is_rewritten = False
        other._may_drop = other._caller_may_drop
        return other

    def without_fetching(self) -> "RequestTranslator":
        """A translator of the same request that only tells whether a target takes it: whatever media it needs counts as fetched."""
        other = copy.copy(self)
        other._media_fetcher = _NoFetcher()
        return other

    async def continue_text(self, text: str, written_tokens: int) -> "RequestTranslator | None":
        """A translator of the chat whose response has begun with `text`, which has about so many tokens. None: it cannot go on."""
        if self.constraint is not None:
            return None  # the engine would apply it to the rest alone
        chat = await self._read_chat_in_turn()
        if chat.max_tokens is not None:
            chat = replace(chat, max_tokens=max(1, chat.max_tokens - written_tokens))
        if not text:
            return self._for_chat(chat, self.constraint)
        if ends_with_part_of(text, chat.stop):
            return None  # the engine would not find a stop string of which the caller has the beginning
        if chat.prompt is not None:
            return self._for_chat(replace(chat, prompt=chat.prompt + text, continues=True), self.constraint)
        messages, last = chat.messages, chat.messages[-1]
        if last.role == "assistant":
            if not last.parts or not isinstance(last.parts[-1], Text):
                return None
            beginning = last.parts[-1]
            parts = (*last.parts[:-1], replace(beginning, text=beginning.text + text))
            messages, last = messages[:-1], replace(last, parts=parts)
        else:
            last = Message("assistant", (Text(text),))
        return self._for_chat(replace(chat, messages=(*messages, last), continues=True), self.constraint)

    @property
    def continues(self) -> bool:
        """Whether the response has begun already, and goes on after its text."""
        return self._chat is not None and self._chat.continues

    def may_continue_in(self, dialect_name: str, provider: Provider, model: str) -> bool:
        """Whether a target goes on in this dialect exactly where the response broke off, as every engine does with a raw prompt."""
        if self._chat is not None and self._chat.prompt is not None:
            return dialect_name in RAW_PROMPT_DIALECTS
        return provider.continues_text(dialect_name, model)

    @property
    def has_tools(self) -> bool:
        """Whether the body may have tools of the caller, or calls of tools that it has no more."""
        raw = self._raw
        return (
            not _FIELDS_WITH_TOOLS.isdisjoint(self.request.body)
            or b'"tool_calls"' in raw
            or b'"function_call"' in raw
            or b'"tool_use"' in raw
        )

    async def rename_tools(self, tool_names: ToolNames, dialect_names: Sequence[str]) -> "RequestTranslator":
        """A translator of the chat with names of tools that the target takes, which speaks these dialects; this one, if it takes them."""
        shares_dialect = self.caller_dialect.name in dialect_names  # a namespace is then sent as it is
        if self._chat_dialect is None or not (tool_names.may_be_violated(self._raw) or (self._has_namespaces and not shares_dialect)):
            return self
        try:
            chat = await self._read_chat_in_turn()
        except InvalidRequest:
            return self
        renamed = rename_tools(chat, tool_names)
        if renamed is None:
            return self
        renaming = self._for_chat(renamed[0], self.constraint)
        renaming._tool_names = renamed[1]
        return renaming

    def may_emulate_tools(self, provider: Provider, refused: Collection[str]) -> bool:
        """Whether emulate_tools() may help, as this target cannot be sent the fields `refused`."""
        body = self.request.body
        return (
            self._chat_dialect is not None
            and self.caller_dialect.name != "openai_completions"
            and (
                "tools" in provider.unsupported_fields
                or (
                    (body.has_value("tools") or body.has_value("functions"))
                    and any(field.partition(".")[0] in _TOOL_FIELDS for field in refused)
                )
            )
        )

    async def emulate_tools(self, provider: Provider, *, may_replace_output: bool) -> "list[tuple[RequestTranslator, EmulatedTools]]":
        """Translators of the chat with its tools, or the demand for a call, in the prompt: best first; empty: that is not possible.

        `may_replace_output`: an output format may be left out where a call is demanded.
        """
        chat = await self._read_chat_in_turn()
        if self.is_slow_to_translate:
            return await self.run_in_thread(self._emulate_tools, chat, provider, may_replace_output)
        return self._emulate_tools(chat, provider, may_replace_output)

    def _emulate_tools(
        self, chat: ChatRequest, provider: Provider, may_replace_output: bool
    ) -> "list[tuple[RequestTranslator, EmulatedTools]]":
        constraint, has_output = self.constraint, chat.output is not None
        if has_output and may_replace_output and is_call_demanded(chat):
            # The format is that of a text, and there will be a call instead: instructor sends both.
            chat = replace(chat, output=None)
            constraint = None if constraint is None else replace(constraint, output=None, whitespace=None)
        described = describe_tools(chat)
        if described is None:
            return []
        described_chat, tools = described
        has_tools = "tools" not in provider.unsupported_fields
        emulated: list[tuple[ChatRequest, Constraint | None, EmulatedTools]] = []
        if has_tools and has_output and (demanded := demand_call(chat, in_prompt=False)) is not None:
            emulated.append((demanded[0], constraint, demanded[1]))
        if tools.is_demanded and (provider.is_self_hosted or not has_tools):  # an engine that enforces schemas is made to write a call
            schema = tools.call_schema
            is_slow = len(bytes(schema.schema)) > SLOW_MIN_BYTES
            of_call = Constraint(schema, "tool_choice", uncovered_paths=frozenset({"tool_choice"}), is_slow_to_convert=is_slow)
            emulated.append((replace(described_chat, output=schema), of_call, tools))
        if has_tools and (demanded := demand_call(chat, in_prompt=True)) is not None:
            emulated.append((demanded[0], constraint, demanded[1]))
        emulated.append((described_chat, None, tools))
        fields = {"output"} if has_output else set[str]()
        return [
            (self._for_chat(chat, constraint, tools.places), replace(tools, fields=tools.fields | fields))
            for chat, constraint, tools in emulated
        ]

    async def instruct_output(self) -> "RequestTranslator | None":
        """A translator of the chat whose prompt demands the output format, for targets that have no field for it.

        None: that is not possible, as this is a raw prompt, or the format is one that no prompt can demand, or has a white-space pattern.
        """
        constraint = self.constraint
        if constraint is None or constraint.output is None or constraint.whitespace is not None or self._chat_dialect is None:
            return None
        instruction = describe_output(constraint.output)
        if instruction is None or self.caller_dialect.name == "openai_completions":
            return None
        chat = await self._read_chat_in_turn()
        if chat.output is None or chat.prompt is not None:
            return None
        places: DescribedPlaces | None = None
        if not is_call_demanded(chat):  # with a call there is no text
            beside_tools = " Calls of functions are not meant by this." if chat.tools else ""
            messages = add_instruction(chat.messages, instruction + beside_tools)
            places = own_places(chat.messages).after_instruction(len(chat.messages), len(messages))
            chat = replace(chat, messages=messages)
        return self._for_chat(replace(chat, output=None), replace(constraint, output=None), places)

    def add_instructed_output(self, translated: TranslatedRequest) -> TranslatedRequest:
        """Adds what is to be done with the response to what a translator of instruct_output() translated."""
        assert self.constraint is not None and self.constraint.output is not None
        plan = ConstraintPlan("validated", self.constraint.output, is_instructed=True)
        return replace(translated, constraint_plan=plan, emulation=add_field(translated.emulation, self.constraint.field))

    def add_emulated_tools(self, translated: TranslatedRequest, tools: EmulatedTools) -> TranslatedRequest:
        """Adds what is to be done with the response to what a translator of emulate_tools() translated."""
        emulation = add_tools(translated.emulation, self.caller_dialect.name, self._field_names, tools)
        return replace(translated, constraint_plan=None, emulation=emulation)

    def _for_chat(self, chat: ChatRequest, constraint: Constraint | None, places: DescribedPlaces | None = None) -> "RequestTranslator":
        """`places`: where the parts of the chat were in the one that it is made of; None: where they are."""
        changed = copy.copy(self)
        if places is not None:
            changed._places = (places, *self._places)
        changed._chat, changed._is_rewritten, changed.constraint = chat, True, constraint
        return changed

    async def _read_chat_in_turn(self) -> ChatRequest:
        """The canonical chat; a large one is read in a thread."""
        caller_dialect = CALLER_CHAT_DIALECTS[self.caller_dialect.name]
        if self._large_requests is None:
            return self._read_chat(caller_dialect)
        return await self._large_requests.run(self._read_chat, caller_dialect)

    @property
    def depends_on_target(self) -> bool:
        """Whether what is sent depends on whom it goes to, beyond what that target takes."""
        return self.operator_drops is not None or self.request.overrides is not None

    def apply_operator_drops(self, models: Iterable[str], provider: str) -> None:
        """Lets the next target drop whatever its provider and these models may drop, too: see OperatorDrops."""
        if self.operator_drops is not None:
            self._may_drop = self.operator_drops.extend(self._caller_may_drop, models, provider)

    async def is_under(self, rule: DialectRule) -> bool:
        """Whether the model that has this rule takes the request in the rule's dialect, which is another one than the caller's."""
        if self._chat_dialect is None or self.caller_dialect.name == rule.dialect or rule.fields.isdisjoint(self.request.body):
            return False
        try:
            return rule.applies(await self._read_chat_in_turn())
        except InvalidRequest:  # the host says so, or a translation
            return False

    def report_rule(self, translated: TranslatedRequest, rule: DialectRule) -> TranslatedRequest:
        """The translation, reported with the caller's field for which it went to another API of the host."""
        field = next((name for name in self.request.body if name in rule.fields), "")
        return replace(translated, emulation=add_field(translated.emulation, f"{field} ({rule.dialect})"))

    def candidate_dialects(self, provider: Provider, dialect_names: Sequence[str], *, ignores_caller: bool = False) -> Sequence[AnyDialect]:
        """Those of a target's dialects in which this request can be sent, best first. Raises OperationNotSupported if there is none.

        `ignores_caller`: they are in the order of a rule of the model, whatever the caller speaks.
        """
        caller_dialect_name = self.caller_dialect.name
        has_output_constraint = self.constraint is not None and self.constraint.output is not None
        if self.request.raw_prompt:
            raw_prompt_dialects = [
                name
                for name in dialect_names
                if name in RAW_PROMPT_DIALECTS or (provider.accepts_raw_prompt and name == caller_dialect_name)
            ]
            # A target with chats alone gets the prompt as a user's message.
            dialect_names = raw_prompt_dialects or [name for name in dialect_names if name in ENGINE_DIALECTS]
        elif (
            not ignores_caller
            and caller_dialect_name in dialect_names
            and (
                not has_output_constraint
                or caller_dialect_name == "openai_completions"
                or self._is_best_enforced_in(caller_dialect_name, provider, dialect_names)
            )
        ):
            return (self._shared_dialect,)
        elif self._chat_dialect is None:
            dialect_names = ()
        elif caller_dialect_name == "openai_completions":
            raw_prompt_dialects = [name for name in dialect_names if name in RAW_PROMPT_DIALECTS]
            dialect_names = raw_prompt_dialects or [name for name in dialect_names if name in ENGINE_DIALECTS]
        else:
            dialect_names = [name for name in dialect_names if name in ENGINE_DIALECTS and name not in RAW_PROMPT_DIALECTS]
            if has_output_constraint and not ignores_caller:
                dialect_names.sort(key=lambda name: name not in provider.constrained_dialects)
        if not dialect_names:
            request_kind = "raw prompts" if self.request.raw_prompt else f"such requests ({caller_dialect_name})"
            raise OperationNotSupported(
                f"{provider.configured_as} ({provider.name}), which serves {self.request.model!r:.100}, has no API for {request_kind}.",
                param="model",
            )
        return [ENGINE_DIALECTS[name] for name in dialect_names]

    def _is_best_enforced_in(self, caller_dialect_name: str, provider: Provider, dialect_names: Sequence[str]) -> bool:
        """Whether the constraint is enforced in the caller's dialect, or in no dialect at all."""
        return provider.constrained_dialects.isdisjoint(dialect_names) or (
            caller_dialect_name in provider.constrained_dialects and not self._has_engine_constraint_fields
        )

    @property
    def _shared_dialect(self) -> Dialect:
        """The caller's dialect, where the target speaks it too."""
        return cast("Dialect", self.caller_dialect)

    @property
    def may_name_media(self) -> bool:
        """Whether the body may name media by URL. Looked up once, and only for engines."""
        if self._may_name_media is None:
            # Earlier turns that it only refers to are in the body alone.
            refers_to_earlier = self.request.previous_response_id is not None or self.request.references_items
            self._may_name_media = refers_to_earlier or (not self.request.holds_only_text and body_media.may_name_media(self._raw))
        return self._may_name_media

    async def leave_out_images(self, provider: Provider, target: Target) -> "RequestTranslator":
        """A translator of the chat without images, for a target whose model reads none; this one, where it has none or they are read.

        Raises Unsupported, at the caller's own place, unless the caller allows dropping: before anything is fetched.
        """
        why = self._why_no_images(provider, target)
        if why is None or self._chat_dialect is None:
            return self
        try:
            chat = await self._read_chat_in_turn()
        except InvalidRequest:
            return self
        drop_policy = self._drop_policy_for(self._chat_dialect, provider)
        without_images = drop_unsupported_parts(chat, {"image_url": why}, drop_policy)
        if without_images is chat:
            return self
        translator = self._for_chat(without_images, self.constraint)
        translator._left_out_images = drop_policy.dropped
        return translator

    def _why_no_images(self, provider: Provider, target: Target) -> str | None:
        """Returns why the target reads no images, or None if it may.

        The adapter or its probe says so; for an engine, whose model's name says nothing, also the
        `capabilities` that its operator states.
        """
        why = provider.why_no_images(target.model)
        if why is None and provider.is_self_hosted and "chat" in self.capabilities and "vision" not in self.capabilities:
            return "its model reads no images: `capabilities` of the model in the gateway's configuration have no `vision`."
        return why

    def _drop_policy_for(self, caller_dialect: CallerChatDialect, provider: Provider) -> DropPolicy:
        caller_path = functools.partial(_caller_path, caller_dialect, self.request, self._places)
        return DropPolicy(self._may_leave_out, self._field_names, provider.target_name, caller_path, max_paths=self._max_path_lookups)

    async def inline_media_for_engine(self, provider: Provider) -> None:
        """Puts the bytes of media in place of URLs that this engine may not read itself; also for the targets tried after it.

        Raises InvalidRequest for media that is named otherwise than by http, https and data URLs, or that cannot be fetched.
        """
        if self._inlined_for is not None and self._inlined_for <= provider.media_hosts:
            return
        if self._large_requests is not None:
            fields, slots = await self._large_requests.run(body_media.decode_media, self.request.body)
        else:
            fields, slots = body_media.decode_media(self.request.body)
        urls = body_media.urls_to_fetch(slots, provider.media_hosts)
        if self._left_out_images and self._chat is not None:
            urls &= media.media_urls(self._chat, _ALL_MEDIA_KINDS)
        if urls:
            fetched = await self._media_fetcher.fetch(urls, self._claim_bytes)
            body_media.write_inline(slots, fetched)
            self.request = replace(self.request, body=Body({**self.request.body, **fields}))
            if self._is_rewritten and self._chat is not None:
                self._chat = media.inline_media(self._chat, _ALL_MEDIA_KINDS, fetched)
            else:
                self._chat = None
        self._inlined_for = provider.media_hosts

    def edit_request(self, provider: Provider, target: Target) -> TranslatedRequest | None:
        """The caller's bytes, edited, for a target that speaks the caller's dialect; None where an edit is not enough.

        Raises Unsupported for what the target cannot honour, InvalidRequest for what turns out to be wrong.
        """
        if self._has_engine_constraint_fields or self._is_rewritten:
            return None
        if self.request.raw_prompt and not provider.accepts_raw_prompt and self.caller_dialect.name not in RAW_PROMPT_DIALECTS:
            return None
        # Opaque state must go back to the kind of engine that signed it, or be left out: no engine reads our carriers.
        if self._chat_dialect is not None and has_carrier(self.request, self._raw):
            return None
        if provider.adapts_own_dialects and provider.must_adapt_as_chat(self.request.body, self.caller_dialect.name, target.model):
            return None
        if self.constraint is not None and self._is_refused_schemas(provider, target, self.caller_dialect.name):
            return None
        may_hold_media = self._chat_dialect is not None and self.caller_dialect.name != "openai_completions"
        if may_hold_media and (kinds := provider.inline_media_kinds_in(self.caller_dialect.name)) and self._has_media_urls(kinds):
            return None
        if b'"input_image"' in self._raw and provider.why_no_images(target.model) is not None:
            return None  # translate_chat() refuses images of Responses at their place, or leaves them out
        try:
            edited = self._finish_request(self._shared_dialect, Body(self.request.body), provider, target, [], self.constraint, None)
        except Unsupported as reason:
            if self._has_older_tools:
                return None  # translate_chat() writes them, and calls in the history, as tools
            if self._has_namespaces and (reason.param or "").startswith("tools["):
                return None  # translate_chat() writes the functions of namespaces
            raise reason if self.request.repair is None else rename_field_in_error(reason, self.request.repair.original_path) from None
        is_without_tools = self._has_older_tools and not OLDER_TOOL_FIELDS.keys().isdisjoint(edited.dropped)
        return None if is_without_tools else edited

    def _is_refused_schemas(self, provider: Provider, target: Target, dialect_name: str) -> bool:
        """Whether the request demands a schema of a target that has refused one."""
        if self.constraint is None or not self.constraint.demands_schema or not (provider.learned_rules.has_any or self.own_rules):
            return False
        return takes_no_schemas(provider, target, self.own_rules, dialect_name)

    def _has_media_urls(self, kinds: frozenset[media.MediaKind]) -> bool:
        """Whether the body names media by URL that must be sent as bytes. False for a body that cannot be read: the host refuses it."""
        if not any(b"url" in bytes(value) for value in self.request.body.values() if isinstance(value, msgspec.Raw)):
            return False
        try:
            return bool(media.media_urls(CALLER_CHAT_DIALECTS[self.caller_dialect.name].read_request(self.request.body), kinds))
        except InvalidRequest:
            return False

    def translate_route(self, route: Route, provider: Provider, target: Target) -> TranslatedRequest:
        """The request for a route that each engine has in its own form. Raises OperationNotSupported and Unsupported."""
        if target.dialect is not None:
            raise OperationNotSupported(
                f"{provider.configured_as}, which serves {self.request.model!r:.100}, is configured to be used in {target.dialect} only.",
                param="model",
            )
        body = Body(self.request.body)
        restricted = provider.restricted.drop_or_refuse(body, provider.target_name, self._may_drop)
        binding, dropped = route.translate_request(body, provider, self.request.model, target.model, self._may_drop)
        if target.lora is not None and not route.is_free_of_charge:
            if not binding.sends_model:
                raise provider.unsupported_error("model", f"its {binding.name} cannot use a LoRA adapter.")
            body["model"] = provider.select_lora_adapter(target.model, target.lora, body)
        if self.team_salts is not None and provider.salted_dialects and binding.reads_salt:
            body["cache_salt"] = self.team_salts.salt(self.team_id, body.value("cache_salt"))
        id = None
        if route.generates_text and provider.request_id_field is not None:
            id = body[provider.request_id_field] = self._next_upstream_id()
        return TranslatedRequest(body.write(), binding, self.request.stream, restricted + dropped, b"", None, id)

    def translate_host_operation(self, host_operation: HostOperation, provider: Provider, target: Target) -> TranslatedRequest:
        """The request for an operation that a host has in a form of its own. Raises Unsupported and InvalidRequest."""
        body, dropped = host_operation.write_request(Body(self.request.body), target.model, self._may_drop)
        provider.set_model(body, host_operation.name, target.model, False)
        url_model = target.model if provider.model_in_url else ""
        return TranslatedRequest(body.write(), host_operation, False, dropped, b"", None, None, url_model)

    @property
    def _has_older_tools(self) -> bool:
        return self._chat_dialect is not None and self.request.body.has_value("functions")

    @property
    def _has_namespaces(self) -> bool:
        """Whether tools may be in namespaces, as the Codex CLI sends them."""
        return self.caller_dialect.name == "openai_responses" and b'"namespace"' in bytes(as_raw(self.request.body.get("tools", NULL)))

    async def translate_chat(self, dialect: AnyDialect, provider: Provider, target: Target) -> TranslatedRequest:
        """The request, read into the canonical chat and written in `dialect`.

        Raises as edit_request() does, and InvalidRequest for media that cannot be fetched.
        """
        caller_dialect, target_dialect = chat_dialects(self.caller_dialect, dialect)
        why_no_images = self._why_no_images(provider, target) if not self.request.holds_only_text else None
        kinds = provider.inline_media_kinds_in(target_dialect.name) | target_dialect.inline_media_kinds
        if why_no_images is not None:
            kinds -= {"image"}  # they are refused or dropped below, and need not be fetched for that
        chat = await self._inline_media(caller_dialect, provider, target_dialect.name, kinds)
        is_sent_as_chat = (
            (caller_dialect.name == "openai_completions" or self.request.raw_prompt)
            and target_dialect.name not in RAW_PROMPT_DIALECTS
            and not (provider.accepts_raw_prompt and target_dialect.name == "openai_chat")
        )
        if is_sent_as_chat and chat.prompt is not None:
            chat = replace(chat, prompt=None, messages=(Message("user", (Text(chat.prompt),)),))
        drop_policy = self._drop_policy_for(caller_dialect, provider)
        if self._left_out_images:
            for path in self._left_out_images:
                drop_policy.report_dropped(path)
        if why_no_images is not None:
            chat = drop_unsupported_parts(chat, {"image_url": why_no_images}, drop_policy)
        if self.constraint is not None and self._is_refused_schemas(provider, target, target_dialect.name):
            chat = move_schemas_to_prompt(chat, drop_policy)
        template_rule: TemplateRule | None = None
        if provider.learned_rules.has_any or self.own_rules or provider.template_rule is not None:
            template_rule = template_rule_for(provider, target, self.own_rules, target_dialect.name)
        try:
            if self._large_requests is not None:
                body = await self._large_requests.run(_write_body, chat, target_dialect, provider, target, drop_policy, template_rule)
            else:
                body = _write_body(chat, target_dialect, provider, target, drop_policy, template_rule)
        except DECODE_ERRORS as fault:
            # A carrier, or a field that is not validated, does not hold what it should.
            raise InvalidRequest(f"Something in the request cannot be written for {provider.target_name}: {fault}.") from None
        if chat.continues and chat.prompt is None:
            provider.continue_text(body, target_dialect.name)
        if chat.prompt is not None and chat.max_tokens is None and caller_dialect.name != target_dialect.name == "openai_completions":
            if provider.no_limit_fields is None:
                drop_policy.drop_or_refuse("max_tokens", "its completions need one: without it they stop after 16 tokens.")
            else:
                body.update(provider.no_limit_fields)
        constraint = self.constraint
        if constraint is not None and isinstance(constraint.output, JsonSchema | JsonObject):
            constraint = replace(constraint, is_openai_format=True)  # write_request() has just written it in that format
        target_chat_dialect = CHAT_DIALECTS.get(target_dialect.name)
        caller_field_name = field_name_translator(
            caller_dialect.name,
            self._field_names,
            target_dialect.name,
            target_chat_dialect.field_names if target_chat_dialect is not None else _NO_FIELD_NAMES,
        )
        try:
            arguments = dialect, body, provider, target, drop_policy.dropped, constraint, caller_field_name
            if self.is_slow_to_translate:
                translated = await self.run_in_thread(self._finish_request, *arguments)
            else:
                translated = self._finish_request(*arguments)
        except Unsupported as fault:
            raise rename_field_in_error(fault, caller_field_name) from None
        if dialect is self.caller_dialect and (self._has_older_tools or self._has_namespaces):
            translated = replace(translated, emulation=rewrite_response(translated.emulation))
        if self._tool_names is not None:
            translated = replace(translated, emulation=add_tool_names(translated.emulation, self._tool_names))
        return replace(translated, emulation=add_field(translated.emulation, "prompt")) if is_sent_as_chat else translated

    def _read_chat(self, caller_dialect: CallerChatDialect) -> ChatRequest:
        if self._chat is None:
            self._chat = apply_constraint_fields(caller_dialect.read_request(self.request.body))
            self._field_names = caller_field_names(caller_dialect, self.request.body)
        return self._chat

    async def _inline_media(
        self, caller_dialect: CallerChatDialect, provider: Provider, dialect_name: str, kinds: frozenset[media.MediaKind]
    ) -> ChatRequest:
        """The chat with the bytes of all media of these kinds that the target does not accept by URL, fetched once for all targets."""
        if self._large_requests is not None:
            chat, urls = await self._large_requests.run(self._read_chat_and_urls, caller_dialect, provider, dialect_name, kinds)
        else:
            chat, urls = self._read_chat_and_urls(caller_dialect, provider, dialect_name, kinds)
        if urls:
            chat = self._chat = media.inline_media(chat, kinds, await self._media_fetcher.fetch(urls, self._claim_bytes))
        return chat

    def _read_chat_and_urls(
        self, caller_dialect: CallerChatDialect, provider: Provider, dialect_name: str, kinds: frozenset[media.MediaKind]
    ) -> tuple[ChatRequest, set[str]]:
        """The chat, and the URLs of the media whose bytes the target needs."""
        chat = self._read_chat(caller_dialect)
        return chat, {url for url in media.media_urls(chat, kinds) if not provider.accepts_media_url(url, dialect_name)}

    @property
    def is_slow_to_translate(self) -> bool:
        """Whether a thread should translate it, so that other requests are served meanwhile."""
        return self._large_requests is not None or (self.constraint is not None and self.constraint.is_slow_to_convert)

    async def run_in_thread(self, translate: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        run = asyncio.to_thread if self._large_requests is None else self._large_requests.run
        return await run(translate, *args, **kwargs)

    async def add_repair_messages(self, violation: ConstraintViolation, large_requests: TeamLargeRequests) -> None:
        """Continues the chat with the response that violated the constraint and a message that says so. Raw prompts stay as they are.

        `large_requests`: the team's; a small request is a large one with a large response in it.
        """
        if len(violation.response_text) > LARGE_BYTES:
            self._large_requests = large_requests
        chat = await self._read_chat_in_turn()
        if chat.prompt is not None:
            return
        repair_messages = (
            Message("assistant", (Text(violation.response_text),)),
            Message("user", (Text(f"This answer does not obey what constrains it: {violation.reason} Answer again, and obey it."),)),
        )
        self._chat = replace(chat, messages=(*chat.messages, *repair_messages))
        self._is_rewritten = True

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
        """`caller_field_name`: the caller's name of a field of the body; None: the body is in the caller's dialect."""
        body["model"] = target.model  # hosts' rules about their models go by this name
        overrides = self.request.overrides
        if overrides is not None:
            overrides.apply(body, self.serving)
        if not provider.restricted.top_level_names.isdisjoint(body):
            dropped += provider.restricted.drop_or_refuse(body, provider.target_name, self._may_drop)
        reported_thinking: Sequence[str] = ()
        if ("thinking" in body or "reasoning" in body) and dialect.name == "openai_chat" and provider.thinking_fields is not None:
            reported_thinking = write_effort(body, provider.thinking_fields)
        if caller_field_name is None:
            adapted = provider.adapt_request(body, dialect.name, self._may_leave_out, constraint)
            dropped += adapted.dropped
        else:
            adapted = provider.adapt_request(
                body, dialect.name, lambda field: self._may_leave_out(field) or self._may_leave_out(caller_field_name(field)), constraint
            )
            dropped += map(caller_field_name, adapted.dropped)
        dropped += reported_thinking
        rules: tuple[LearnedRule, ...] = ()
        if provider.learned_rules.has_any or self.own_rules or provider.template_rule is not None:
            rules = learned_rules_for(provider, target, self.own_rules, body, dialect.name)
        if rules:
            dropped += self._adapt_to_rules(rules, body, dialect.name, provider, caller_field_name)
        if provider.leaves_stop_in_text:
            dropped += self._find_emulable().intersection(STOP_FIELDS.values())
        repair = self.request.repair
        if repair is not None:
            if caller_field_name is None:
                dropped = [repair.original_path(path) for path in dropped]
            dropped += repair.paths
        emulation = self._take_emulated(dropped) if dropped else None
        model = target.model if target.lora is None else provider.select_lora_adapter(target.model, target.lora, body)
        if dialect.name in provider.salted_dialects and self.team_salts is not None:
            body["cache_salt"] = self.team_salts.salt(self.team_id, body.value("cache_salt"))
        id = self._next_upstream_id() if provider.request_id_field is not None else None
        if provider.request_id_field is not None:
            body[provider.request_id_field] = id
        stream = self.request.stream
        if provider.streams != "both" and dialect.name in ENGINE_DIALECTS:
            stream = provider.streams == "only"
        if stream != self.request.stream and wants_non_text_output(body):
            raise provider.unsupported_error(
                "modalities", "a response that is more than text cannot be converted between streaming and non-streaming."
            )
        dialect.prepare_upstream_body(body, stream, include_usage=provider.stream_usage)
        if self.resumable is not None:
            provider.request_usage_throughout(body, dialect.name)
        provider.set_model(body, dialect.name, model, stream)
        betas = self._betas
        if betas and dialect is not self.caller_dialect:
            dropped.append("anthropic-beta")
            betas = b""
        if betas and provider.claude_host is not None:
            betas, are_fewer = provider.claude_host.select_betas(betas)
            if are_fewer:
                dropped.append("anthropic-beta")
        if betas:
            betas = provider.forward_betas(body, dialect.name, betas)
        if rules:
            betas = adapt_betas(rules, body, dialect.name, provider, betas, dropped)
        header_lines = b""
        if overrides is not None:
            added = dict(overrides.headers_for(self.serving))
            own_betas = added.pop("anthropic-beta", None)
            if own_betas is not None and dialect.name != AnthropicMessages.name:
                dropped.append("anthropic-beta")
            elif own_betas is not None:
                betas = b", ".join(filter(None, (betas, provider.forward_betas(body, dialect.name, own_betas.encode()))))
            header_lines = b"".join([f"{name}: {value}\r\n".encode() for name, value in added.items()])
        raw = body.write() if self._large_requests is None else body.write_in_steps()
        model_in_url = target.model if provider.model_in_url else ""
        constraint_plan = adapted.constraint_plan
        return TranslatedRequest(
            raw, dialect, stream, limit_paths(dropped), betas, constraint_plan, id, model_in_url, emulation, header_lines=header_lines
        )

    def _adapt_to_rules(
        self,
        rules: Sequence[LearnedRule],
        body: Body,
        dialect_name: str,
        provider: Provider,
        caller_field_name: Callable[[str], str] | None,
    ) -> list[str]:
        """The fields that are dropped, in the caller's names. Raises Unsupported for one that may not be."""
        if caller_field_name is None:
            return adapt_to_rules(rules, body, dialect_name, provider, self._may_leave_out)
        caller_name = caller_field_name

        def may_drop(field: str) -> bool:
            return self._may_leave_out(field) or self._may_leave_out(caller_name(field))

        dropped = adapt_to_rules(rules, body, dialect_name, provider, may_drop)
        # The caller's messages have other places; order_chat() has reported them by their own.
        return [caller_name(field) for field in dropped if not field.endswith("].role")]

    def _may_leave_out(self, field: str) -> bool:
        """Whether a target may be sent the request without this field: it may be dropped, or the gateway does what it asks for."""
        return field in self._find_emulable() or self._may_drop(field)

    def _find_emulable(self) -> frozenset[str]:
        if self._emulable is None:
            self._emulable = emulable_fields(self.caller_dialect.name, self.request.body, self.constraint)
        return self._emulable

    def _take_emulated(self, dropped: list[str]) -> Emulation | None:
        """Returns what the gateway does for those fields of `dropped` that it can honour itself.

        They are removed from the list. Returns None if there are none.
        """
        fields = self._find_emulable().intersection(dropped)
        if not fields:
            return None
        dropped[:] = [field for field in dropped if field not in fields]
        emulation = make_emulation(self._read_chat(CALLER_CHAT_DIALECTS[self.caller_dialect.name]), fields)
        if self.constraint is not None and self.constraint.caller_paths:
            emulation.fields = tuple(map(self.constraint.caller_path, emulation.fields))
        return emulation

    def _next_upstream_id(self) -> str:
        """A new id for each attempt; none is a prefix of another: SGLang refuses an id that is still running, and aborts by prefix.

        Source: managers/tokenizer_manager.py and scheduler.py of SGLang 0.5.23, read 2026-11.
        """
        self._id_count += 1
        return self._inference_id if self._id_count == 1 else f"{self._id_count}-{self._inference_id}"


def _caller_path(caller_dialect: CallerChatDialect, request: InboundRequest, places: Sequence[DescribedPlaces], path: str) -> str:
    """The path in the body that the caller sent."""
    for each in places:
        path = each.original_path(path)
    body_path = caller_dialect.caller_path(request.body, path)
    return body_path if request.repair is None else request.repair.original_path(body_path)


def _write_body(
    chat: ChatRequest,
    target_dialect: EngineDialect,
    provider: Provider,
    target: Target,
    drop_policy: DropPolicy,
    template_rule: TemplateRule | None,
) -> Body:
    if template_rule is not None and chat.prompt is None:
        chat = order_chat(chat, template_rule, drop_policy)
    # Some hosts' rules differ by model, which they know by its own name.
    chat = replace(chat, model=target.model, cache_marks=provider.cache_marks)
    return target_dialect.write_request(provider.adapt_chat(chat, target_dialect.name, drop_policy), drop_policy)
