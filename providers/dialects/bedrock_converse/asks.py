"""A chat as a request to Converse, and what it cannot say of it.

Source: the service model of Bedrock Runtime in botocore 1.44 (ConverseRequest), and /reference/providers.md part 2, read 2026-11.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.chat import ChatRequest
from providers.dialect import Concessions
from providers.dialects.bedrock_converse.caching import Blocks, hold_most
from providers.dialects.bedrock_converse.families import Family, read_family
from providers.dialects.bedrock_converse.formats import write_format
from providers.dialects.bedrock_converse.thinking import write_thinking
from providers.dialects.bedrock_converse.tools import write_tools
from providers.dialects.bedrock_converse.turns import write_turns
from providers.idle import concede_extra
from providers.wire import Body

# Its own fields for which no other API has a word: whoever says one by its name means it.
_OWN = frozenset({"guardrailConfig", "performanceConfig"})
_FIELDS = "additionalModelRequestFields"
_TIERS = frozenset({"priority", "flex", "reserved"})
_MOST_STOPS = 2500
_MOST_METADATA = 16
_METADATA = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,\-.]{0,256}")
_WHY = "Converse has no such field."

_object = msgspec.json.Decoder(dict[str, Raw])


def write_request(chat: ChatRequest, concessions: Concessions) -> Body:
    """`chat.model`: as Bedrock knows it, for much differs by family."""
    family = read_family(chat.model)
    said = write_turns(chat, family, concessions)
    output, instruction = write_format(chat.output, family, concessions)
    tools = write_tools(chat, family, said.called, concessions)
    fields = {**write_thinking(chat, family, concessions), **_top_k(chat, family, concessions)}
    more = _own_fields(chat)
    if instruction is not None:
        said.system.append({"text": instruction})
    listed: list[Blocks] = [said.system, *(turn["content"] for turn in said.turns)]
    hold_most([tools["tools"], *listed] if tools else listed, concessions)
    body = Body(model=chat.model, messages=said.turns)
    written: dict[str, Any] = {
        "system": said.system,
        "inferenceConfig": _inference(chat, fields, concessions),
        "toolConfig": tools,
        "outputConfig": output,
        _FIELDS: {**fields, **more},
        "requestMetadata": _metadata(chat, concessions),
        "serviceTier": _tier(chat, concessions),
        **{key: chat.extra[key] for key in sorted(_OWN & chat.extra.keys())},
    }
    body.update({key: value for key, value in written.items() if value})
    _unsayable(chat, concessions)
    return body


def _own_fields(chat: ChatRequest) -> dict[str, Raw]:
    """What a caller says to the model itself wins over what we say for it."""
    return _object.decode(chat.extra[_FIELDS]) if _FIELDS in chat.extra else {}


def _top_k(chat: ChatRequest, family: Family, concessions: Concessions) -> dict[str, Any]:
    if chat.top_k is None or chat.top_k <= 0:
        return {}
    match family.top_k:
        case "top_k":
            return {"top_k": chat.top_k}
        case "topK":
            return {"inferenceConfig": {"topK": chat.top_k}}
        case None:
            concessions.without("top_k", f"{family.name} has no field for it.")
            return {}


def _inference(chat: ChatRequest, fields: Mapping[str, Any], concessions: Concessions) -> dict[str, Any]:
    config: dict[str, Any] = {
        "maxTokens": chat.max_tokens,
        "temperature": chat.temperature,
        "topP": chat.top_p,
        "stopSequences": list(chat.stop) or None,
    }
    if chat.max_tokens == 0:
        concessions.without("max_tokens", "it writes one token at least.")
        config["maxTokens"] = None
    if chat.temperature is not None and chat.temperature > 1:
        concessions.without("temperature", "it takes temperatures from 0 to 1.")
        config["temperature"] = None
    if len(chat.stop) > _MOST_STOPS or "" in chat.stop:
        concessions.without("stop", f"it takes at most {_MOST_STOPS} stop sequences, and none that is empty.")
        config["stopSequences"] = None
    if fields.get("reasoningConfig", {}).get("maxReasoningEffort") == "high":
        for key, field in (("maxTokens", "max_tokens"), ("temperature", "temperature"), ("topP", "top_p")):
            if config[key] is not None:
                concessions.without(field, "with a high effort to reason Nova takes it not.")
                config[key] = None
    return {key: value for key, value in config.items() if value is not None}


def _metadata(chat: ChatRequest, concessions: Concessions) -> dict[str, str]:
    """By which its owner finds a request in Bedrock's own log. What does not fit there is a hint that goes."""
    said = dict(chat.metadata or {})
    written = {key: value for key, value in said.items() if key and _METADATA.fullmatch(key) and _METADATA.fullmatch(value)}
    if len(written) < len(said) or len(written) > _MOST_METADATA:
        concessions.hint("metadata")
    written = dict(list(written.items())[:_MOST_METADATA])
    if chat.user is not None:
        if len(written) < _MOST_METADATA and "user" not in written and _METADATA.fullmatch(chat.user):
            written["user"] = chat.user
        else:
            concessions.hint("user")
    return written


def _tier(chat: ChatRequest, concessions: Concessions) -> dict[str, str] | None:
    if chat.service_tier in _TIERS:
        return {"type": chat.service_tier}
    if chat.service_tier not in (None, "auto", "default"):
        concessions.hint("service_tier")
    return None


def _unsayable(chat: ChatRequest, concessions: Concessions) -> None:
    if chat.n is not None and chat.n > 1:
        concessions.without("n", "it answers once.")
    if chat.logit_bias is not None and chat.logit_bias != Raw(b"{}"):
        concessions.without("logit_bias", _WHY)
    if chat.logprobs:
        concessions.without("logprobs", _WHY)
    if chat.top_logprobs:
        concessions.without("top_logprobs", _WHY)
    if chat.verbosity not in (None, "medium"):
        concessions.without("verbosity", _WHY)
    for field in ("seed", "frequency_penalty", "presence_penalty"):
        if getattr(chat, field) is not None and not (field != "seed" and getattr(chat, field) == 0):
            concessions.without(field, _WHY)
    for field in ("safety_identifier", "store", "cache_key"):
        if getattr(chat, field) is not None:
            concessions.hint(field)
    concede_extra(chat.extra, concessions, _WHY, {*_OWN, _FIELDS})
