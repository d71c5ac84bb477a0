"""Mistral's own API: OpenAI's chat and embeddings, with bends, and without any field that it does not document (422 extra_forbidden).

Sources: mistralai/client-python, src/mistralai/client/models (ChatCompletionRequest, AssistantMessage, ThinkChunk, ...), read 2026-11;
/reference/providers.md parts 2 to 6; /shared/exchanges/mistral. Temperatures up to 1.5: its 422 in scottyeager/Pal#28 and
SillyTavern/SillyTavern#4856 (2025-12).
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

import msgspec
from msgspec import Raw

from providers import structured_output
from providers.adapters.provider import HINT_FIELDS, OPENAI_ENFORCED, Adapted
from providers.adapters.unsupported_fields import UNKNOWN_FIELDS, UNKNOWN_HINTS, UnsupportedFields
from providers.canonical.chat import ENGINE_FIELDS
from providers.canonical.errors import Unsupported, UpstreamError, UpstreamNotFound, UpstreamRejected
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.hosted.mistral.messages import MessageAdapter
from providers.hosted.rules.host_rules import HostRules
from providers.hosted.rules.rule_based_provider import RuleBasedProvider
from providers.structured_output import Constraint, JsonSchema, OutputFormat

_CHAT, _EMBEDDINGS = "openai_chat", "openai_embeddings"
# Its words for what is said without effort, or with it: it knows no degrees.
_EFFORTS = ("none", "high")
_INVALID_MODEL = "1500"
_NO_PARAMETERS = {"type": "object", "properties": dict[str, Any]()}

_decode_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


class Mistral(RuleBasedProvider):
    name: ClassVar[str] = "mistral"
    dialects: ClassVar[tuple[str, ...]] = (_CHAT, _EMBEDDINGS)
    default_base_url: ClassVar[str | None] = "https://api.mistral.ai/v1"
    reports_rate_limits: ClassVar[bool] = True
    # Its streams tell usage unasked, and stream_options is none of its fields.
    requests_stream_usage: ClassVar[bool] = False
    rules: ClassVar[HostRules] = HostRules(
        max_tokens="max_tokens", developer_role=False, functions_only=True, ranges={"temperature": (0, 1.5)}
    )

    renamed_fields: Mapping[str, str] = {"seed": "random_seed"}
    # `logprobs` was answered with code 3051, "not enabled for this model": /shared/exchanges/mistral/23-error-400-a.
    unsupported_fields = (ENGINE_FIELDS | UNKNOWN_FIELDS | {"logprobs", "top_logprobs", "logit_bias"}) - {"min_tokens"}
    hint_fields = (HINT_FIELDS | UNKNOWN_HINTS) - {"metadata", "prompt_cache_key", "prediction"}

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return OPENAI_ENFORCED

    def _is_enforced(self, output: OutputFormat) -> bool:
        """JSON it guarantees, and schemas that are strict; unnamed ones, which are asked for in engines' words, it is told as strict ones.

        Source: https://docs.mistral.ai/capabilities/structured_output, read 2026-11.
        """
        if not isinstance(output, JsonSchema) or self.trusted:
            return True
        return output.strict is True or (output.strict is None and output.name is None)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        unsupported_fields = UnsupportedFields(self, body, may_drop)
        if dialect == _EMBEDDINGS:
            _adapt_embeddings(body, unsupported_fields)
        elif dialect == _CHAT:
            _adapt_effort(body, unsupported_fields)
            if body.has_value("tools"):
                _adapt_tools(body)
            if body.has_value("messages"):
                MessageAdapter(body, unsupported_fields).adapt()
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = unsupported_fields.dropped
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """A model that it does not have is a 400 there, which others may have none the less."""
        error = super().read_error(status, headers, body)
        if not isinstance(error, UpstreamRejected) or error.upstream_code != _INVALID_MODEL:
            return error
        not_found = UpstreamNotFound(error.message, upstream_status=status, param=error.param)
        not_found.upstream_code = error.upstream_code
        return not_found


def _adapt_effort(body: Body, unsupported_fields: UnsupportedFields) -> None:
    effort: Any = body.value("reasoning_effort")
    if effort is not None and effort not in _EFFORTS:
        body["reasoning_effort"] = "high"
        unsupported_fields.dropped.append("reasoning_effort")


def _adapt_embeddings(body: Body, unsupported_fields: UnsupportedFields) -> None:
    """It embeds texts alone; numbers are made base64 here, where that is asked for."""
    body.pop("encoding_format", None)
    if body.has_value("user"):
        unsupported_fields.dropped.append("user")
    body.pop("user", None)
    dimensions = body.pop("dimensions", NULL)
    if dimensions != NULL:
        body["output_dimension"] = dimensions
    value: Any = body.value("input")
    texts = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in texts):
        why = "it embeds texts, and neither token ids nor conversations. Ask otherwise, or choose another model."
        raise Unsupported(f"`input` cannot be honoured by Mistral: {why}", param="input")


def _adapt_tools(body: Body) -> None:
    """It demands `parameters`, even where there are none."""
    try:
        tools = _decode_tools(as_raw(body["tools"]))
    except DECODE_ERRORS:
        return
    without_parameters = [tool for tool in tools if "function" in tool and _decode_object(tool["function"]).get("parameters", NULL) == NULL]
    for tool in without_parameters:
        tool["function"] = Raw(msgspec.json.encode({**_decode_object(tool["function"]), "parameters": _NO_PARAMETERS}))
    if without_parameters:
        body["tools"] = tools
