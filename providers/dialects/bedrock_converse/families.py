"""Families: what of Converse a model honours, which Converse itself leaves to the model. Told by the model's id.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html, .../prompt-caching.html and
.../nova/latest/nova2-userguide/extended-thinking.html; pydantic-ai's models/bedrock.py; read 2026-11.
"""

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Place = Literal["tools", "system", "messages"]

_EVERYWHERE: frozenset[Place] = frozenset({"tools", "system", "messages"})


class Family(Struct, frozen=True, kw_only=True):
    """`thinks`: how it is asked to reason; "unknown": its id does not tell. `structured`: it holds answers, and strict tools, to schemas.

    `caches`: where it takes cache points. `top_k`: its own field for that. `apart`: kinds of blocks that it refuses beside the results of
    tools; None: all. `shows`: it takes images and documents in results, and their status. `hears`: it takes audio.
    """

    name: str
    thinks: Literal["unknown", "no", "adaptive", "budget", "nova", "effort", "qwen"] = "unknown"
    structured: bool = False
    caches: frozenset[Place] = frozenset()
    top_k: Literal["top_k", "topK"] | None = None
    apart: frozenset[str] | None = frozenset()
    shows: bool = True
    hears: bool = False

    @property
    def is_claude(self) -> bool:
        return self.name == "Claude"


def _claude(thinks: Literal["no", "adaptive", "budget"], *, structured: bool) -> Family:
    return Family(
        name="Claude", thinks=thinks, structured=structured, caches=_EVERYWHERE, top_k="top_k", apart=frozenset({"document", "video"})
    )


def _nova(thinks: Literal["no", "nova"], *, hears: bool = False) -> Family:
    return Family(name="Nova", thinks=thinks, caches=frozenset({"system", "messages"}), top_k="topK", hears=hears)


_UNKNOWN = Family(name="a model whose id does not tell its family")
# The first that matches the beginning of an id, without what says where it runs.
_FAMILIES: Sequence[tuple[re.Pattern[str], Family]] = tuple(
    (re.compile(pattern), family)
    for pattern, family in (
        (r"anthropic\.claude-(v\d|instant|3-(?!7))", _claude("no", structured=False)),
        (r"anthropic\.claude-(3-7|(sonnet|opus)-4-(20|1-))", _claude("budget", structured=False)),
        (r"anthropic\.claude-(sonnet|opus|haiku)-4-5", _claude("budget", structured=True)),
        (r"anthropic\.claude", _claude("adaptive", structured=True)),
        (r"amazon\.nova-2-omni", _nova("nova", hears=True)),
        (r"amazon\.nova-2", _nova("nova")),
        (r"amazon\.nova", _nova("no")),
        (r"openai\.gpt-oss", Family(name="gpt-oss", thinks="effort", structured=True)),
        (r"qwen\.", Family(name="Qwen", thinks="qwen", structured=True)),
        (r"meta\.llama", Family(name="Llama", thinks="no", apart=None, shows=False)),
        (r"mistral\.voxtral", Family(name="Voxtral", thinks="no", structured=True, apart=None, shows=False, hears=True)),
        (r"mistral\.(mistral-7b|mixtral|mistral-(large|small)-24)", Family(name="Mistral", thinks="no", apart=None, shows=False)),
        (r"mistral\.", Family(name="Mistral", structured=True, apart=None, shows=False)),
        (r"deepseek\.r1", Family(name="DeepSeek R1", shows=False)),
        (r"(deepseek|google\.gemma|minimax|moonshot(ai)?|nvidia)\.", Family(name="an open model", structured=True, shows=False)),
        (r"(cohere|ai21|writer)\.", Family(name="a model of few abilities", thinks="no", shows=False)),
    )
)
# Of inference profiles: https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-support.html, read 2026-11.
_WHERE = re.compile(r"(us-gov|us|eu|apac|jp|au|ca|global)\.")
_NAMED = re.compile(r"arn:[^/]*:(foundation-model|inference-profile)/")


def plain_id(model: str) -> str:
    """A model's id without the ARN around it and what says where it runs; an ARN that does not tell its model stays as it is."""
    named = _NAMED.match(model)
    id = model[named.end() :] if named else model
    where = _WHERE.match(id)
    return id[where.end() :] if where else id


def read_family(model: str) -> Family:
    id = plain_id(model)
    return next((family for pattern, family in _FAMILIES if pattern.match(id)), _UNKNOWN)
