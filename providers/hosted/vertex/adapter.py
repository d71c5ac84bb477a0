"""Google Cloud's Vertex AI: Gemini, Claude and open models, each in the dialect of its publisher, which the model's name determines.

Sources: https://cloud.google.com/vertex-ai/generative-ai/docs (model-reference/inference, partner-models/claude/use-claude,
maas/call-open-model-apis); lib/vertex/_client.py of Anthropic's SDK 2.11; docs/sources.md#gemini-and-vertex; read 2026-11.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import httpx2

from providers.adapters.messages import write_custom_calls_as_functions
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted, Provider
from providers.adapters.tool_names import ToolNames
from providers.adapters.urls import server_root
from providers.canonical.chat import ChatRequest
from providers.canonical.errors import UpstreamError
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.credentials import CredentialError, Fetch, Signer, google
from providers.dialects.gemini.errors import read_google_error
from providers.dialects.gemini.media import media_type_of_url
from providers.drop_policy import DropPolicy
from providers.host_operation import HostOperation
from providers.hosted.gemini import own_rules
from providers.hosted.gemini.structured_output import plan_gemini_constraint, without_dropped_output
from providers.hosted.rules.claude_hosts import VERTEX
from providers.hosted.rules.claude_options import CLAUDE_OPTIONS, read_defaults
from providers.hosted.rules.model_rules import ModelHosting, adapt_to_model, why_no_images
from providers.hosted.vertex.count_tokens import VERTEX_COUNT_TOKENS
from providers.hosted.vertex.embeddings import VERTEX_EMBEDDINGS
from providers.hosted.vertex.models import GEMINI, parse_model
from providers.profiles.claude import request_body
from providers.profiles.claude.adapt_chat import adapt_claude_chat, is_enforced
from providers.profiles.claude.models import continues_text, find_profile
from providers.profiles.claude.own_rules import breaks_rules
from providers.profiles.gemini import find_profile as find_gemini_profile
from providers.structured_output import Constraint, ConstraintPlan

_GLOBAL_BASE_URL = "https://aiplatform.googleapis.com"
# Multi-region locations have their own host names.
_BASE_URLS: Mapping[str, str] = {
    "global": _GLOBAL_BASE_URL,
    "us": "https://aiplatform.us.rep.googleapis.com",
    "eu": "https://aiplatform.eu.rep.googleapis.com",
}
_ANTHROPIC_VERSION = "vertex-2023-10-16"
_ANTHROPIC_MESSAGES = "anthropic_messages"
_CLAUDE_DIALECTS = frozenset({_ANTHROPIC_MESSAGES, "anthropic_count_tokens"})
_INLINE_MEDIA_KINDS: Mapping[str, frozenset[MediaKind]] = {
    _ANTHROPIC_MESSAGES: frozenset({"image", "file"}),
    GEMINI: frozenset({"image", "file", "audio"}),
}
# How its open models are told not to think differs by model, and is left to callers:
# https://docs.cloud.google.com/vertex-ai/generative-ai/docs/maas/capabilities/thinking, read 2026-11.
_OPEN_MODELS = ModelHosting()
_PROJECT_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_LOCATION_PATTERN = re.compile(r"[a-z0-9-]+")
# Stands for the project in a URL until complete_url() has it from the credential.
_UNKNOWN_PROJECT = "/projects/-/"


class Vertex(OpenAICompatible):
    name: ClassVar[str] = "vertex"
    restricted_fields: Mapping[str, str] = own_rules.RESTRICTED_FIELDS
    dialects: ClassVar[tuple[str, ...]] = (GEMINI, _ANTHROPIC_MESSAGES, "anthropic_count_tokens", "openai_chat")
    default_base_url: ClassVar[str | None] = _GLOBAL_BASE_URL
    tool_names = ToolNames("[a-zA-Z0-9_.:-]")  # FunctionDeclaration.name: https://ai.google.dev/api/caching#FunctionDeclaration
    model_in_url: ClassVar[bool] = True
    adapts_own_dialects: ClassVar[bool] = True
    claude_host = VERTEX
    credential_chains: ClassVar[frozenset[str]] = frozenset({"google"})
    host_operations: Mapping[str, HostOperation] = {
        "openai_embeddings": VERTEX_EMBEDDINGS,
        "anthropic_count_tokens": VERTEX_COUNT_TOKENS,
    }
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        **CLAUDE_OPTIONS,
        "project": "the Google Cloud project; default: that of the credential, if it is a service account",
        "location": "a region, us, eu or global (global)",
    }
    # Schemas that Claude on Vertex does not refuse are enforced: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude
    # /structured_outputs, read 2026-11.
    constrained_dialects = frozenset({GEMINI, _ANTHROPIC_MESSAGES})

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        self._defaults = read_defaults(options)
        self._project = _read_option(options, "project", _PROJECT_PATTERN)
        self._location = _read_option(options, "location", _LOCATION_PATTERN) or "global"

    def spoken_dialects_for(self, model: str) -> tuple[str, ...]:
        return self._dialects or parse_model(model).dialects

    def display_url(self, base_url: str) -> str:
        """The default base URL becomes the one of the configured location."""
        if base_url.rstrip("/") != _GLOBAL_BASE_URL:
            return base_url
        return _BASE_URLS.get(self._location, f"https://{self._location}-aiplatform.googleapis.com")

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx2.URL:
        vertex_model = parse_model(model)
        location_path = f"/{vertex_model.version}/projects/{self._project or '-'}/locations/{self._location}"
        return httpx2.URL(server_root(self.display_url(base_url)) + location_path + vertex_model.path(dialect, stream))

    def complete_url(self, url: httpx2.URL, credential: str | None) -> httpx2.URL:
        if self._project is not None:
            return url
        project = google.read_project(credential)
        if project is None or not _PROJECT_PATTERN.fullmatch(project):
            raise CredentialError(f"{self.configured_as} needs a project, and its credential does not name one: set its option project.")
        return httpx2.URL(str(url).replace(_UNKNOWN_PROJECT, f"/projects/{project}/", 1))

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        """Betas go into a header, as at Anthropic; Vertex reports those that it does not support."""
        return [("anthropic-beta", ",".join(self._defaults.betas))] if dialect in _CLAUDE_DIALECTS and self._defaults.betas else []

    def signer(self, credential: str | None, fetch: Fetch) -> Signer | None:
        return google.signer(credential, fetch) if credential else None

    def inline_media_kinds_in(self, dialect: str) -> frozenset[MediaKind]:
        """Claude on Vertex fetches no URLs: https://github.com/BerriAI/litellm/issues/18430, read 2026-11."""
        return _INLINE_MEDIA_KINDS.get(dialect, frozenset())

    def accepts_media_url(self, address: str, dialect: str) -> bool:
        """Gemini on Vertex fetches http(s):// and gs:// URLs, but needs their media type, which only the URL can tell."""
        return dialect == GEMINI and address.startswith(("https://", "http://", "gs://")) and media_type_of_url(address) is not None

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        if dialect == GEMINI:
            return plan_gemini_constraint(constraint, trusted=self.trusted)
        if dialect == _ANTHROPIC_MESSAGES and constraint.output is not None and not is_enforced(constraint.output):
            return ConstraintPlan("validated", constraint.output)
        return super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)

    def continues_text(self, dialect: str, model: str) -> bool:
        return continues_text(dialect, model)

    def adapt_chat(self, chat: ChatRequest, dialect: str, drop_policy: DropPolicy) -> ChatRequest:
        """Claude's rules are the same on every host."""
        return adapt_claude_chat(chat, drop_policy, native="all") if dialect == _ANTHROPIC_MESSAGES else chat

    def why_no_images(self, model: str) -> str | None:
        return why_no_images(model)

    def must_adapt_as_chat(self, body: Body, dialect: str, model: str) -> bool:
        if dialect == GEMINI:
            return own_rules.breaks_rules(body, find_gemini_profile(model))
        return dialect == _ANTHROPIC_MESSAGES and breaks_rules(body, find_profile(model))

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        said_otherwise = self._adapt_open_model(body, may_drop) if dialect == "openai_chat" else []
        adapted = super().adapt_request(
            body, dialect, may_drop, without_dropped_output(constraint, body) if dialect == GEMINI else constraint
        )
        adapted.dropped[:0] = said_otherwise
        if dialect == _ANTHROPIC_MESSAGES:
            adapted.dropped += request_body.adapt_body(body, self._defaults)
            drop_policy = self.drop_policy(body, may_drop)
            VERTEX.adapt_body(body, str(body.value("model") or ""), drop_policy)
            adapted.dropped += drop_policy.dropped
            if adapted.constraint_plan is not None:
                adapted.constraint_plan = request_body.plan_for_body(adapted.constraint_plan, body)
        return adapted

    def _adapt_open_model(self, body: Body, may_drop: Callable[[str], bool]) -> list[str]:
        drop_policy = self.drop_policy(body, may_drop)
        adapt_to_model(body, "openai_chat", _OPEN_MODELS, drop_policy)
        write_custom_calls_as_functions(body)
        return drop_policy.dropped

    def set_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        vertex_model = parse_model(model)
        if dialect in _CLAUDE_DIALECTS:
            request_body.adapt_for_cloud(body, _ANTHROPIC_VERSION, keeps_stream=True)
        name = vertex_model.name if dialect == "anthropic_count_tokens" else vertex_model.name_in_body if dialect == "openai_chat" else None
        if name is None:
            body.pop("model", None)
        else:
            body["model"] = name

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Errors are in Google's envelope or in the publisher's own; both are read."""
        return read_google_error(status, headers, body)


def _read_option(options: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str | None:
    value = options.get(key)
    if value is not None and not (isinstance(value, str) and pattern.fullmatch(value)):
        raise InvalidOption(f"Option {key} is not a valid Google Cloud {key}.")
    return value
