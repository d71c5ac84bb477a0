"""Model families on Bedrock: which features of Converse a model supports, by its id.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html, .../prompt-caching.html and
.../nova/latest/nova2-userguide/extended-thinking.html; pydantic-ai's models/bedrock.py; read 2026-11.
"""

import functools
import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from providers.profiles.claude.models import ClaudeProfile, find_profile, parse_name

CachePosition = Literal["tools", "system", "messages"]

_EVERYWHERE: frozenset[CachePosition] = frozenset({"tools", "system", "messages"})


class Family(Struct, frozen=True, kw_only=True):
    """A model family, and what it supports in Converse."""

    name: str
    # How reasoning is requested; "unknown" if the id does not say.
    reasoning_control: Literal["unknown", "undocumented", "no", "claude", "nova", "effort", "qwen"] = "unknown"
    # Whether schemas of answers and of strict tools are enforced.
    supports_schemas: bool = False
    # Where it takes cache points.
    cache_positions: frozenset[CachePosition] = frozenset()
    # Whether it takes cache points with that lifetime, too.
    caches_for_an_hour: bool = False
    top_k_field: Literal["top_k", "topK"] | None = None
    # The kinds of blocks that it refuses beside results of tools; None: all.
    separated_from_results: frozenset[str] | None = frozenset()
    # Whether results may hold images and documents, and a status.
    media_in_results: bool = True
    audio_input: bool = False
    # What the model accepts wherever it is hosted; None: it is not Claude.
    claude: ClaudeProfile | None = None

    @property
    def is_claude(self) -> bool:
        return self.name == "Claude"


_CLAUDE = Family(
    name="Claude",
    reasoning_control="claude",
    cache_positions=_EVERYWHERE,
    top_k_field="top_k",
    separated_from_results=frozenset({"document", "video"}),
)
# Claude models for which Bedrock's runtime compiles no schemas although Anthropic does.
# Source: providers/_bedrock_model_names.py of pydantic-ai 2.68 and .../bedrock/latest/userguide/structured-output.html, read 2026-11.
_CLAUDE_WITHOUT_SCHEMAS = re.compile(r"claude-(opus-4-1|fable-5)")
# The first with cache points that live an hour: .../prompt-caching.html#prompt-caching-models, read 2026-11.
_FIRST_CLAUDE_WITH_HOUR = (4, 5)


def _nova(reasoning_control: Literal["no", "nova"], *, audio_input: bool = False) -> Family:
    return Family(
        name="Nova",
        reasoning_control=reasoning_control,
        cache_positions=frozenset({"system", "messages"}),
        top_k_field="topK",
        audio_input=audio_input,
    )


_UNKNOWN = Family(name="a model whose id names no known family")
# The first pattern that matches the beginning of an id counts; ids are without their region and ARN.
_FAMILIES: Sequence[tuple[re.Pattern[str], Family]] = tuple(
    (re.compile(pattern), family)
    for pattern, family in (
        (r"anthropic\.claude", _CLAUDE),
        (r"amazon\.nova-2-omni", _nova("nova", audio_input=True)),
        (r"amazon\.nova-2", _nova("nova")),
        (r"amazon\.nova", _nova("no")),
        (r"openai\.gpt-oss", Family(name="gpt-oss", reasoning_control="effort", supports_schemas=True)),
        (r"qwen\.", Family(name="Qwen", reasoning_control="qwen", supports_schemas=True)),
        (r"meta\.llama", Family(name="Llama", reasoning_control="no", separated_from_results=None, media_in_results=False)),
        (
            r"mistral\.voxtral",
            Family(
                name="Voxtral",
                reasoning_control="no",
                supports_schemas=True,
                separated_from_results=None,
                media_in_results=False,
                audio_input=True,
            ),
        ),
        (
            r"mistral\.(mistral-7b|mixtral|mistral-(large|small)-24)",
            Family(name="Mistral", reasoning_control="no", separated_from_results=None, media_in_results=False),
        ),
        (r"mistral\.", Family(name="Mistral", supports_schemas=True, separated_from_results=None, media_in_results=False)),
        (r"deepseek\.r1", Family(name="DeepSeek R1", media_in_results=False)),
        (
            r"(deepseek|google\.gemma|minimax|moonshot(ai)?|nvidia|zai|xai)\.",
            Family(name="an open model", reasoning_control="undocumented", supports_schemas=True, media_in_results=False),
        ),
        (r"(cohere|ai21|writer)\.", Family(name="this model", reasoning_control="no", media_in_results=False)),
    )
)
# Prefixes of inference profiles: https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-support.html, read 2026-11.
_REGION_PREFIX = re.compile(r"(us-gov|us|eu|apac|jp|au|ca|global)\.")
_MODEL_ARN = re.compile(r"arn:[^/]*:(foundation-model|inference-profile)/")


def bare_model_id(model: str) -> str:
    """A model's id without its region and the ARN around it. An ARN that does not name its model stays as it is."""
    arn_match = _MODEL_ARN.match(model)
    model_id = model[arn_match.end() :] if arn_match else model
    region_match = _REGION_PREFIX.match(model_id)
    return model_id[region_match.end() :] if region_match else model_id


@functools.lru_cache(maxsize=1024)
def find_family(model: str) -> Family:
    model_id = bare_model_id(model)
    family = next((family for pattern, family in _FAMILIES if pattern.match(model_id)), _UNKNOWN)
    return _with_claude_rules(family, model_id) if family.is_claude else family


def _with_claude_rules(family: Family, model_id: str) -> Family:
    """The rules of the model itself, without what Bedrock's runtime lacks."""
    rules = find_profile(model_id)
    has_schemas = rules.supports_schemas and _CLAUDE_WITHOUT_SCHEMAS.search(model_id) is None
    _, version = parse_name(model_id) or ("", None)
    return replace(
        family,
        claude=replace(rules, supports_schemas=has_schemas),
        supports_schemas=has_schemas,
        caches_for_an_hour=version is None or version >= _FIRST_CLAUDE_WITH_HOUR,
    )


@functools.lru_cache(maxsize=1024)
def find_converse_rules(model: str) -> ClaudeProfile | None:
    """A Claude model's rules in Converse; None: it is another model.

    No model heeds instructions midway in Converse, although its schema has a role for them (stdapi-ai/stdapi.ai#49, 2026-07).
    """
    rules = find_family(model).claude
    return None if rules is None else replace(rules, mid_system="refused")
