"""Mistral's own API: OpenAI's chat and embeddings with differences, and 422 extra_forbidden for any undocumented field.

Sources: mistralai/client-python, src/mistralai/client/models (ChatCompletionRequest, AssistantMessage, ThinkChunk, ...), read 2026-11;
docs/sources.md#mistral; recordings mistral/*. Temperatures up to 1.5: its 422 in scottyeager/Pal#28 and
SillyTavern/SillyTavern#4856 (2025-12).
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

import msgspec
from msgspec import Raw

from providers import structured_output
from providers.adapters.openai_compatible import OPENAI_ENFORCED
from providers.adapters.provider import Adapted
from providers.canonical.errors import Unsupported, UpstreamError, UpstreamNotFound, UpstreamRejected
from providers.canonical.extra_fields import as_raw
from providers.canonical.output_format import JsonSchema, OutputFormat
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.reclassify_error import reclassify
from providers.drop_policy import DropPolicy
from providers.fields import ENGINE_FIELDS, HINT_FIELDS, RARE_FIELDS
from providers.hosted.mistral.messages import MessageAdapter
from providers.hosted.rules.foreign_members import drop_foreign_members
from providers.hosted.rules.host_rules import HostRules
from providers.hosted.rules.model_rules import ModelHosting, adapt_to_model
from providers.hosted.rules.rule_based_provider import RuleBasedProvider
from providers.structured_output import Constraint
from providers.structured_output.write_constraint_fields import is_sent_as_strict

_CHAT, _EMBEDDINGS = "openai_chat", "openai_embeddings"
# The only efforts it has: any other is sent as "high", also for a model whose name says nothing.
_EFFORTS = ("none", "high")
_INVALID_MODEL = "1500"
_NO_PARAMETERS = {"type": "object", "properties": dict[str, Any]()}

_decode_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


class Mistral(RuleBasedProvider):
    name: ClassVar[str] = "mistral"
    restricted_fields: Mapping[str, str] = {}
    dialects: ClassVar[tuple[str, ...]] = (_CHAT, _EMBEDDINGS)
    default_base_url: ClassVar[str | None] = "https://api.mistral.ai/v1"
    reports_rate_limits: ClassVar[bool] = True
    # Its streams always report usage, and it does not have stream_options.
    requests_stream_usage: ClassVar[bool] = False
    rules: ClassVar[HostRules] = HostRules(
        max_tokens="max_tokens", developer_role=False, functions_only=True, ranges={"temperature": (0, 1.5)}
    )

    models: ClassVar[ModelHosting] = ModelHosting(makes="Mistral", thinking_off="effort")

    renamed_fields: Mapping[str, str] = {"seed": "random_seed"}
    # `logprobs` was answered with code 3051, "not enabled for this model": recording mistral/23-error-400-a.
    unsupported_fields = (ENGINE_FIELDS | RARE_FIELDS | {"logprobs", "top_logprobs", "logit_bias"}) - {"min_tokens"}
    hint_fields = HINT_FIELDS - {"metadata", "prompt_cache_key", "prediction"}

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return OPENAI_ENFORCED

    def _is_enforced(self, output: OutputFormat) -> bool:
        """Mistral guarantees JSON objects and strict schemas. Schemas without a name are sent as strict.

        Source: https://docs.mistral.ai/capabilities/structured_output, read 2026-11.
        """
        return not isinstance(output, JsonSchema) or self.trusted or is_sent_as_strict(output)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        drop_policy = self.drop_policy(body, may_drop)
        if dialect == _EMBEDDINGS:
            _adapt_embeddings(body, drop_policy)
        elif dialect == _CHAT:
            adapt_to_model(body, dialect, self.models, drop_policy)
            _adapt_effort(body, drop_policy)
            if body.has_value("tools"):
                _adapt_tools(body)
            drop_foreign_members(body, drop_policy)
            if body.has_value("messages"):
                MessageAdapter(body, drop_policy).adapt()
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = drop_policy.dropped
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Mistral answers 400 for an unknown model: that is UpstreamNotFound, so that another target is tried."""
        error = super().read_error(status, headers, body)
        if not isinstance(error, UpstreamRejected) or error.upstream_code != _INVALID_MODEL:
            return error
        return reclassify(error, UpstreamNotFound(error.message, upstream_status=status, param=error.param))


def _adapt_effort(body: Body, drop_policy: DropPolicy) -> None:
    effort: Any = body.value("reasoning_effort")
    if effort is not None and effort not in _EFFORTS:
        body["reasoning_effort"] = "high"
        drop_policy.report_dropped("reasoning_effort")


def _adapt_embeddings(body: Body, drop_policy: DropPolicy) -> None:
    """Mistral embeds only texts, as floats: the gateway itself encodes them for a caller who wants base64."""
    body.pop("encoding_format", None)
    if body.has_value("user"):
        drop_policy.report_dropped("user")
    body.pop("user", None)
    dimensions = body.pop("dimensions", NULL)
    if dimensions != NULL:
        body["output_dimension"] = dimensions
    value: Any = body.value("input")
    texts = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in texts):
        why = "it embeds texts, not token ids or conversations. Send texts, or choose another model."
        raise Unsupported(f"`input` cannot be honoured by Mistral: {why}", param="input")


def _adapt_tools(body: Body) -> None:
    """Adds the empty `parameters` that Mistral requires of a function without any."""
    try:
        tools = _decode_tools(as_raw(body["tools"]))
    except DECODE_ERRORS:
        return
    without_parameters = [tool for tool in tools if "function" in tool and _decode_object(tool["function"]).get("parameters", NULL) == NULL]
    for tool in without_parameters:
        tool["function"] = Raw(msgspec.json.encode({**_decode_object(tool["function"]), "parameters": _NO_PARAMETERS}))
    if without_parameters:
        body["tools"] = tools
