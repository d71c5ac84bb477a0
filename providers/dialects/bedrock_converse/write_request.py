"""A chat as a request to Converse; what the API cannot express is dropped or refused.

Source: the service model of Bedrock Runtime in botocore 1.44 (ConverseRequest), and docs/sources.md#bedrock, read 2026-11.
"""

import re
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import ChatRequest
from providers.canonical.raw_json import Body
from providers.dialects.bedrock_converse.cache_points import Blocks, limit_cache_points
from providers.dialects.bedrock_converse.history import write_history
from providers.dialects.bedrock_converse.output_format import write_format
from providers.dialects.bedrock_converse.thinking import write_thinking
from providers.dialects.bedrock_converse.tools import write_tools
from providers.drop_policy import DropPolicy
from providers.fields import drop_extra_fields
from providers.profiles.bedrock.families import Family, find_family
from providers.profiles.claude.thinking import EFFORT_BESIDE_NO_THINKING
from providers.unsupported import check_unsupported

# Converse's own fields, which callers of any dialect may send.
_NATIVE_FIELDS = frozenset({"guardrailConfig", "performanceConfig"})
_MODEL_FIELDS = "additionalModelRequestFields"
_TIERS = frozenset({"priority", "flex", "reserved"})
_MAX_STOPS = 2500
_MAX_METADATA = 16
_METADATA_PATTERN = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,\-.]{0,256}")
_NO_SUCH_FIELD = "Converse has no such field."
_UNSUPPORTED_FIELDS = {
    "n": "it gives one answer.",
    **dict.fromkeys(
        ("logit_bias", "logprobs", "top_logprobs", "verbosity", "seed", "frequency_penalty", "presence_penalty"), _NO_SUCH_FIELD
    ),
}

_object = msgspec.json.Decoder(dict[str, Raw])


def write_request(chat: ChatRequest, drop_policy: DropPolicy) -> Body:
    """Writes a request. Its `chat.model` must be Bedrock's own id: the rules depend on the model family."""
    family = find_family(chat.model)
    history = write_history(chat, family, drop_policy)
    output, instruction = write_format(chat.output, family, drop_policy)
    tools = write_tools(chat, family, history.called_tools, drop_policy)
    fields = {**write_thinking(chat, family, drop_policy), **_top_k(chat, family, drop_policy)}
    caller_fields = _caller_model_fields(chat)
    if instruction is not None:
        history.system.append({"text": instruction})
    block_lists: list[Blocks] = [history.system, *(turn["content"] for turn in history.turns)]
    limit_cache_points([tools["tools"], *block_lists] if tools else block_lists, drop_policy)
    body = Body(model=chat.model, messages=history.turns)
    optional_fields: dict[str, Any] = {
        "system": history.system,
        "inferenceConfig": _inference_config(chat, drop_policy),
        "toolConfig": tools,
        "outputConfig": output,
        _MODEL_FIELDS: {**fields, **caller_fields},
        "requestMetadata": _metadata(chat, drop_policy),
        "serviceTier": _service_tier(chat, drop_policy),
        **{key: chat.extra[key] for key in sorted(_NATIVE_FIELDS & chat.extra.keys())},
    }
    body.update({key: value for key, value in optional_fields.items() if value})
    check_unsupported(chat, drop_policy, _UNSUPPORTED_FIELDS, ("safety_identifier", "store", "cache_key"))
    written = {*_NATIVE_FIELDS, _MODEL_FIELDS, *({EFFORT_BESIDE_NO_THINKING} if family.is_claude else ())}
    drop_extra_fields(chat.extra, drop_policy, _NO_SUCH_FIELD, written)
    return body


def _caller_model_fields(chat: ChatRequest) -> dict[str, Raw]:
    """The caller's own additionalModelRequestFields, which win over those that are written here."""
    return _object.decode(chat.extra[_MODEL_FIELDS]) if _MODEL_FIELDS in chat.extra else {}


def _top_k(chat: ChatRequest, family: Family, drop_policy: DropPolicy) -> dict[str, Any]:
    if chat.top_k is None or chat.top_k <= 0:
        return {}
    match family.top_k_field:
        case "top_k":
            return {"top_k": chat.top_k}
        case "topK":
            return {"inferenceConfig": {"topK": chat.top_k}}
        case None:
            drop_policy.drop_or_refuse("top_k", f"{family.name} has no field for it.")
            return {}


def _inference_config(chat: ChatRequest, drop_policy: DropPolicy) -> dict[str, Any]:
    config: dict[str, Any] = {
        "maxTokens": chat.max_tokens,
        "temperature": chat.temperature,
        "topP": chat.top_p,
        "stopSequences": list(chat.stop) or None,
    }
    if chat.max_tokens == 0:
        drop_policy.drop_or_refuse("max_tokens", "it writes at least one token.")
        config["maxTokens"] = None
    if chat.temperature is not None and chat.temperature > 1:
        drop_policy.drop_or_refuse("temperature", "it takes temperatures from 0 to 1.")
        config["temperature"] = None
    if len(chat.stop) > _MAX_STOPS or "" in chat.stop:
        drop_policy.drop_or_refuse("stop", f"it takes at most {_MAX_STOPS} stop sequences, none of them empty.")
        config["stopSequences"] = None
    return {key: value for key, value in config.items() if value is not None}


def _metadata(chat: ChatRequest, drop_policy: DropPolicy) -> dict[str, str]:
    """The requestMetadata, by which Bedrock's own log can be searched. Entries that Bedrock would refuse are dropped as hints."""
    metadata = dict(chat.metadata or {})
    written = {
        key: value for key, value in metadata.items() if key and _METADATA_PATTERN.fullmatch(key) and _METADATA_PATTERN.fullmatch(value)
    }
    if len(written) < len(metadata) or len(written) > _MAX_METADATA:
        drop_policy.drop_hint("metadata")
    written = dict(list(written.items())[:_MAX_METADATA])
    if chat.user is not None:
        if len(written) < _MAX_METADATA and "user" not in written and _METADATA_PATTERN.fullmatch(chat.user):
            written["user"] = chat.user
        else:
            drop_policy.drop_hint("user")
    return written


def _service_tier(chat: ChatRequest, drop_policy: DropPolicy) -> dict[str, str] | None:
    if chat.service_tier in _TIERS:
        return {"type": chat.service_tier}
    if chat.service_tier not in (None, "auto", "default"):
        drop_policy.drop_hint("service_tier")
    return None
