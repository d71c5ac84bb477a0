"""Anthropic's own API: Claude models."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.provider import Adapted, Provider
from providers.adapters.tool_names import ToolNames
from providers.canonical.chat import ChatRequest
from providers.canonical.errors import UpstreamError
from providers.canonical.output_format import OutputFormat
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.hosted.anthropic.errors import read_anthropic_error
from providers.hosted.anthropic.model_list import MODEL_LIST_PATH, overrule, read_model_list
from providers.hosted.rules.claude_options import CLAUDE_OPTIONS, read_defaults
from providers.profiles.claude import request_body
from providers.profiles.claude.adapt_chat import adapt_claude_chat, is_enforced
from providers.profiles.claude.models import ClaudeProfile, continues_text, find_profile
from providers.profiles.claude.own_rules import ignores_instructions
from providers.structured_output import Constraint


class Anthropic(OpenAICompatible):
    """Anthropic requires `max_tokens`, which is optional in other dialects: the option `max_tokens` is the default for those callers."""

    name: ClassVar[str] = "anthropic"
    restricted_fields: Mapping[str, str] = {}
    dialects: ClassVar[tuple[str, ...]] = ("anthropic_messages", "anthropic_count_tokens")
    default_base_url: ClassVar[str | None] = "https://api.anthropic.com"
    reports_rate_limits: ClassVar[bool] = True
    tool_names = ToolNames(max_chars=128)  # anthropic-sdk-python 2.14, types/tool_param.py
    model_list_path: ClassVar[str | None] = MODEL_LIST_PATH
    adapts_own_dialects: ClassVar[bool] = True
    binding_controls_beta: ClassVar[str | None] = "thinking-binding-controls-2026-08-01"
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        **CLAUDE_OPTIONS,
        "anthropic_version": "the header anthropic-version (2023-06-01)",
    }

    constrained_dialects = frozenset({"anthropic_messages"})
    # The rules of models that its list of models states; see model_list.py. A model without an entry has those of its name.
    listed_profiles: Mapping[str, ClaudeProfile] = {}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        self._defaults = read_defaults(options)
        self._headers = [("anthropic-version", str(options.get("anthropic_version", "2023-06-01")))]
        if self._defaults.betas:
            self._headers.append(("anthropic-beta", ",".join(self._defaults.betas)))

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return [("x-api-key", credential), *self._headers] if credential else list(self._headers)

    def forward_betas(self, body: Body, dialect: str, betas: bytes) -> bytes:
        """The caller's betas without those that the configuration sends with every request."""
        configured = {beta.encode() for beta in self._defaults.betas}
        return b",".join([name for beta in betas.split(b",") if (name := beta.strip()) and name not in configured])

    def _is_enforced(self, output: OutputFormat) -> bool:
        return is_enforced(output)

    def continues_text(self, dialect: str, model: str) -> bool:
        return continues_text(dialect, model)

    def adapt_chat(self, chat: ChatRequest, dialect: str, drop_policy: DropPolicy) -> ChatRequest:
        return adapt_claude_chat(chat, drop_policy, self.listed_profiles.get(chat.model), native="instructions")

    def must_adapt_as_chat(self, body: Body, dialect: str, model: str) -> bool:
        """Returns whether a body has instructions midway that an older model refuses or ignores.

        A caller may not know which model a name stands for.
        """
        return dialect == "anthropic_messages" and ignores_instructions(body, find_profile(model))

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == "anthropic_messages":
            adapted.dropped += request_body.adapt_body(body, self._defaults)
            if adapted.constraint_plan is not None:
                adapted.constraint_plan = request_body.plan_for_body(adapted.constraint_plan, body)
        return adapted

    def next_model_page(self, page: bytes) -> str | None:
        _, last_id = read_model_list(page)
        return None if last_id is None else f"{self.model_list_path}&after_id={quote(last_id, safe='')}"

    def apply_model_list(self, pages: Sequence[bytes]) -> Sequence[str]:
        models = [model for page in pages for model in read_model_list(page)[0]]
        profiles = {model.id: overrule(find_profile(model.id), model) for model in models}
        self.listed_profiles = {id: profile for id, profile in profiles.items() if profile != find_profile(id)}
        return sorted(self.listed_profiles)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        return read_anthropic_error(status, headers, body)
