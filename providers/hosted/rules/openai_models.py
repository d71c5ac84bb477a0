"""OpenAIModels: a host of OpenAI's own models, which it knows by their names: their rules, and the API that they want."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted, Provider
from providers.adapters.tool_names import ToolNames
from providers.canonical.raw_json import Body
from providers.dialect_rule import DialectRule
from providers.hosted.rules.long_values import OPENAI_MAX_CHARS, hash_long_values
from providers.profiles.gpt.adapt_request import RULED_FIELDS, adapt_request, tools_rule
from providers.profiles.gpt.models import find_rules
from providers.structured_output import Constraint

_OPTION = "responses_for_tools"
_RESPONSES = "openai_responses"
# What a model that is served at the Responses API only does not have.
_CHAT_DIALECTS = frozenset({"openai_chat", "openai_completions", _RESPONSES})
_LOOKED_AT = RULED_FIELDS | OPENAI_MAX_CHARS.keys()

API_OPTIONS: Mapping[str, str] = {
    _OPTION: "false: requests stay in the API of their callers, though a model takes function tools, or everything, at Responses only; "
    "default: true at OpenAI's and Azure OpenAI's own addresses"
}


class OpenAIModels(OpenAICompatible):
    """An API like OpenAI's that may serve OpenAI's models.

    `is_openai_host` decides whether names are those of OpenAI's models: another server may call its models as it likes.
    """

    known_options: ClassVar[Mapping[str, str]] = {**Provider.known_options, **API_OPTIONS}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        self._has_openai_models = self.is_openai_host  # read by each request
        speaks_responses = not self._dialects or _RESPONSES in self._dialects
        moves_tools = options.get(_OPTION, self.is_openai_host and speaks_responses)
        if not isinstance(moves_tools, bool):
            raise InvalidOption(f"Option {_OPTION} must be true or false.")
        self._chooses_api = moves_tools
        # https://platform.openai.com/docs/api-reference/chat/create, read 2026-11.
        self.tool_names = ToolNames() if self.is_openai_host else None

    def spoken_dialects_for(self, model: str) -> tuple[str, ...]:
        names = super().spoken_dialects_for(model)
        rules = find_rules(model) if self._chooses_api else None
        if rules is None or rules.is_on_chat:
            return names
        return (_RESPONSES, *(name for name in names if name not in _CHAT_DIALECTS))

    def dialect_rule_for(self, model: str) -> DialectRule | None:
        rules = find_rules(model) if self._chooses_api else None
        return None if rules is None or not rules.is_on_chat else tools_rule(rules)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if self._has_openai_models and not _LOOKED_AT.isdisjoint(body):
            drop_policy = self.drop_policy(body, may_drop)
            hash_long_values(body, OPENAI_MAX_CHARS, drop_policy)
            model = body.value("model")
            rules = find_rules(model) if isinstance(model, str) else None
            if rules is not None:
                adapt_request(body, dialect, rules, drop_policy)
            adapted.dropped += drop_policy.dropped
        return adapted
