"""SourceRequest: what was requested, from which every translation is made.

A request is translated for as many targets as are tried. What they share is kept here: the canonical chat, which is read once, and media,
which is fetched once. Whatever a target needs differently (tools described in the prompt, a part of the request, other names of tools) is
a SourceRequest of its own: the rooms beside this one make it, and leave the one that it is made of as it was.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from app.gateway.emulation.described_places import DescribedPlaces
from app.gateway.fleet.operator_drops import OperatorDrops
from app.gateway.large_body.large_requests import TeamLargeRequests
from app.gateway.media import body_media
from app.gateway.media.fetcher import ClaimBytes, FetchesMedia, claim_nothing
from app.gateway.request_translation.caller_fields import apply_constraint_fields, caller_field_names
from app.gateway.request_translation.team_salts import TeamSalts
from app.gateway.response_translation.resumable_stream import ResumableStream
from app.store.postgres.vault import SummaryCipher
from providers import structured_output
from providers.canonical.carrier import holds_carrier
from providers.canonical.chat import ChatRequest
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import NULL, Body
from providers.dialect import CallerDialect, InboundRequest
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS
from providers.dialects.openai_responses import tool_paths
from providers.learned_rules.rule import RulesByTarget
from providers.structured_output import Constraint

_FIELDS_WITH_TOOLS = frozenset({"tools", "functions", "additional_tools"})
# In which tools may take free text; not each target that speaks them has such tools.
DIALECTS_WITH_CUSTOM_TOOLS = frozenset({"openai_chat", "openai_responses"})
_NO_HEADERS: Mapping[bytes, bytes] = {}
P = ParamSpec("P")
T = TypeVar("T")


class CallerTerms(Struct, eq=False):
    """The terms of a request, whatever becomes of its body: who sent it, and what is agreed with them."""

    dialect: CallerDialect
    media_fetcher: FetchesMedia
    # Whether the caller, or its key, allows a field to be dropped.
    may_drop: Callable[[str], bool]
    # The caller's `anthropic-beta`.
    betas: bytes = b""
    # How often a response that violates the constraint may be requested again.
    max_repairs: int = 0
    # The caller's, of which a target's credential may be one.
    headers: Mapping[bytes, bytes] = _NO_HEADERS
    team_id: str = ""
    # What the caller's headers say of endpoints: see CallerOptions.
    session: str | None = None
    priority: bytes | None = None
    wants_explanation: bool = False
    # The caller wants no response that could not be checked against the constraint.
    refuses_unvalidated: bool = False
    # Takes the memory for fetched media.
    claim_bytes: ClaimBytes = claim_nothing
    # For engines whose prefix caches teams do not share. None: the request is no team's.
    team_salts: TeamSalts | None = None
    # Encrypts summaries of conversations. None: the request is no caller's.
    summaries: SummaryCipher | None = None
    # What the operator allows to be dropped besides. None: nothing.
    operator_drops: OperatorDrops | None = None
    # The response, if it is a stream that is to go on elsewhere where it breaks off. None: it is not.
    resumable: ResumableStream | None = None
    # What hosts taught by refusing this very request, which grows from attempt to attempt.
    own_rules: RulesByTarget = {}

    def __repr__(self) -> str:
        return f"CallerTerms({self.dialect.name})"  # the headers may hold a credential, which no log may show


class UsedIds(Struct, eq=False):
    """How many ids were made for attempts at one request, in whatever form it is sent."""

    count: int = 0


class SourceRequest(Struct, eq=False):
    """One form of what was requested."""

    terms: CallerTerms
    request: InboundRequest
    # The body as it came, or as the variant of a function makes it.
    raw: bytes
    # On the output.
    constraint: Constraint | None = None
    inference_id: str = ""
    # Where work on the request runs. None: at once, for it is no large one.
    large_requests: TeamLargeRequests | None = None
    # Whether the chat is another than the body says, so that no edit of the body can express it.
    is_rewritten: bool = False
    # Where the parts of the chat were in those that it was made of, the newest first.
    places: Sequence[DescribedPlaces] = ()
    # The caller's names of tools, by those that the target gets. None: they are the same.
    tool_names: Mapping[str, str] | None = None
    # The caller's paths of images that the chat does not have any more.
    left_out_images: Sequence[str] = ()

    # What was found out so far, for later attempts.
    chat: ChatRequest | None = None
    field_names: Mapping[str, str] = {}
    emulable: frozenset[str] | None = None
    names_media: bool | None = None
    holds_carrier: bool | None = None
    # The hosts whose media was left as URLs when the rest was put into the body. None: that was not done yet.
    inlined_for: frozenset[str] | None = None
    # Shared by all forms of the request.
    used_ids: UsedIds = field(default_factory=UsedIds)

    def __repr__(self) -> str:
        return f"SourceRequest({self.inference_id})"  # the body is the caller's, and no log's

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs work on the body, so that other requests are served meanwhile if it is large."""
        return work(*args, **kwargs) if self.large_requests is None else await self.large_requests.run(work, *args, **kwargs)

    async def run_conversion(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs work that converts the constraint as well, which may be slow where the body is small."""
        if self.large_requests is not None:
            return await self.large_requests.run(work, *args, **kwargs)
        if self.constraint is not None and self.constraint.is_slow_to_convert:
            return await asyncio.to_thread(work, *args, **kwargs)
        return work(*args, **kwargs)

    @property
    def is_slow_to_translate(self) -> bool:
        """Whether run_conversion() uses a thread."""
        return self.large_requests is not None or (self.constraint is not None and self.constraint.is_slow_to_convert)

    async def read_chat(self) -> ChatRequest:
        """The canonical chat. Raises InvalidRequest."""
        return await self.run(self.read_chat_now)

    def read_chat_now(self) -> ChatRequest:
        """Reads the canonical chat where this is called, once for all targets. Raises InvalidRequest."""
        if self.chat is None:
            dialect = CALLER_CHAT_DIALECTS[self.terms.dialect.name]
            self.chat = apply_constraint_fields(dialect.read_request(self.request.body))
            self.field_names = caller_field_names(dialect, self.request.body)
            if self.request.has_context_items:
                self.field_names = {**self.field_names, **tool_paths(self.request.body)}
        return self.chat

    @property
    def continues(self) -> bool:
        """Whether the response has begun already, and goes on after its text."""
        return self.chat is not None and self.chat.continues

    @property
    def depends_on_target(self) -> bool:
        """Whether what is sent depends on whom it goes to, beyond what that target takes."""
        return self.terms.operator_drops is not None or self.request.overrides is not None

    @property
    def may_name_media(self) -> bool:
        """Whether the body may name media by URL. Looked up once, and only for engines."""
        if self.names_media is None:
            # Earlier turns that it only refers to are in the body alone.
            refers_to_earlier = self.request.previous_response_id is not None or self.request.references_items
            self.names_media = refers_to_earlier or (not self.request.holds_only_text and body_media.may_name_media(self.raw))
        return self.names_media

    def has_carrier(self) -> bool:
        """Whether the conversation holds a carrier: opaque state of another dialect's engine, in a form that only the gateway reads.

        Earlier turns that the caller only refers to are in the request's body alone. Looked up once.
        """
        if self.holds_carrier is None:
            request = self.request
            refers_to_earlier = request.previous_response_id is not None or request.references_items
            self.holds_carrier = (
                holds_carrier(self.raw) or request.carries_state or (refers_to_earlier and holds_carrier(request.body.write()))
            )
        return self.holds_carrier

    @property
    def has_tools(self) -> bool:
        """Whether the body may have tools of the caller, or calls of tools that it has no more."""
        raw = self.raw
        return (
            not _FIELDS_WITH_TOOLS.isdisjoint(self.request.body)
            or self.has_context_items
            or b'"tool_calls"' in raw
            or b'"function_call"' in raw
            or b'"tool_use"' in raw
        )

    @property
    def has_older_tools(self) -> bool:
        """Whether tools are in OpenAI's first field for them."""
        return self.terms.dialect.name in CALLER_CHAT_DIALECTS and self.request.body.has_value("functions")

    @property
    def has_openai_tools(self) -> bool:
        """Whether tools may be in a form that is OpenAI's alone: in namespaces, to be searched for, or in items of the input."""
        return self.has_openai_items or (self.terms.dialect.name == "openai_responses" and b'"namespace"' in self._raw_tools)

    @property
    def has_openai_items(self) -> bool:
        """Whether tools may be searched for, or come in items of the input: elsewhere they are functions of the request."""
        return self.terms.dialect.name == "openai_responses" and (b'"tool_search"' in self._raw_tools or self.has_context_items)

    @property
    def has_context_items(self) -> bool:
        """Whether the input has items that are no messages, as the Codex CLI sends them."""
        return self.request.has_context_items

    @property
    def may_have_custom_tools(self) -> bool:
        """Whether tools may take free text, in one of DIALECTS_WITH_CUSTOM_TOOLS."""
        return self.request.has_context_items or ("tools" in self.request.body and b'"custom"' in self._raw_tools)

    @property
    def _raw_tools(self) -> bytes:
        return bytes(as_raw(self.request.body.get("tools", NULL)))

    @property
    def has_engine_constraint_fields(self) -> bool:
        """Whether it has engines' constraint fields in a dialect in which no engine reads them."""
        return self.terms.dialect.name in (
            "openai_responses",
            "anthropic_messages",
        ) and not structured_output.CONSTRAINT_FIELDS.isdisjoint(self.request.body)

    def next_upstream_id(self) -> str:
        """A new id for each attempt; none is a prefix of another: SGLang refuses an id that is still running, and aborts by prefix.

        Source: managers/tokenizer_manager.py and scheduler.py of SGLang 0.5.23, read 2026-11.
        """
        self.used_ids.count = number = self.used_ids.count + 1
        return self.inference_id if number == 1 else f"{number}-{self.inference_id}"

    def with_body(self, body: Body) -> "SourceRequest":
        """The same request with another body."""
        return replace(self, request=replace(self.request, body=body), raw=body.write(), chat=None, emulable=None, holds_carrier=None)

    def with_request(self, request: InboundRequest, raw: bytes, constraint: Constraint | None) -> "SourceRequest":
        """Another request of the same caller, as another variant of a function makes it."""
        return replace(
            self,
            request=request,
            raw=raw,
            constraint=constraint,
            is_rewritten=False,
            chat=None,
            emulable=None,
            names_media=None,
            holds_carrier=None,
            inlined_for=None,
        )

    def with_chat(
        self,
        chat: ChatRequest,
        constraint: Constraint | None,
        *,
        places: DescribedPlaces | None = None,
        tool_names: Mapping[str, str] | None = None,
        left_out_images: Sequence[str] | None = None,
    ) -> "SourceRequest":
        """The same request with another chat than the body says.

        `places` says where its parts were in this chat; None means where they are. `tool_names` and `left_out_images` stay as they are here
        if they are None.
        """
        return replace(
            self,
            chat=chat,
            constraint=constraint,
            is_rewritten=True,
            places=self.places if places is None else (places, *self.places),
            tool_names=self.tool_names if tool_names is None else tool_names,
            left_out_images=self.left_out_images if left_out_images is None else left_out_images,
        )
