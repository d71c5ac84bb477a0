"""LMDeploy's `min_new_tokens` and `do_preprocess` at every engine: translated, refused or reported, never ignored in silence."""

import json
from typing import Any

import pytest

from app.domain.routing import Target
from app.gateway.request_translation.edit_request import edit_request
from app.gateway.request_translation.recipient import Recipient
from providers.canonical.errors import Unsupported
from providers.catalogue import ADAPTERS, DIALECTS, ENGINE_PROBES
from tests.support.request_translation import MEDIA, drop_everything, drop_nothing, make_source

REQUESTS: dict[str, dict[str, Any]] = {
    "openai_chat": {"messages": [{"role": "user", "content": "Hi"}]},
    "openai_completions": {"prompt": "Hi"},
}
ENGINES = sorted(ENGINE_PROBES.keys() - {"auto"})
ROUTES = [(engine, dialect) for engine in ENGINES for dialect in REQUESTS if dialect in ADAPTERS[engine]("it", {}).spoken_dialects]
# Engines with a minimum, and its name there; all others refuse it.
MINIMUMS = {
    ("vllm", "openai_chat"): {"min_tokens": 3},
    ("vllm", "openai_completions"): {"min_tokens": 3},
    ("sglang", "openai_chat"): {"min_tokens": 3},
    ("sglang", "openai_completions"): {"min_tokens": 3},
    ("sandbox", "openai_chat"): {"min_tokens": 3},
    ("sandbox", "openai_completions"): {"min_tokens": 3},
    ("llamacpp_python", "openai_chat"): {"min_tokens": 3},
    ("llamacpp_python", "openai_completions"): {"min_tokens": 3},
    ("lmdeploy", "openai_chat"): {"min_new_tokens": 3},
    ("transformers", "openai_chat"): {"generation_config": '{"min_new_tokens":3}'},
    ("transformers", "openai_completions"): {"generation_config": '{"min_new_tokens":3}'},
}


def sent_to(engine: str, dialect_name: str, drop: bool = False, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    """Returns what the fields became in the engine's body, and what was reported as dropped."""
    dialect = DIALECTS[dialect_name]
    bodies: list[dict[str, Any]] = []
    dropped: list[str] = []
    for more in ({}, fields):
        request = dialect.parse_request(json.dumps({"model": "m", "max_tokens": 9, **REQUESTS[dialect_name], **more}).encode())
        source = make_source(request, b"", dialect, MEDIA, drop_everything if drop else drop_nothing)
        translated = edit_request(source, Recipient(ADAPTERS[engine]("it", {}, None, "http://engine/v1"), Target("it", "x")))
        assert translated is not None
        bodies.append(json.loads(translated.raw))
        dropped = translated.dropped
    plain, sent = bodies
    return {key: value for key, value in sent.items() if plain.get(key) != value}, dropped


@pytest.mark.parametrize(("engine", "dialect"), ROUTES)
def test_minimum_of_output_tokens_is_translated_or_refused(engine: str, dialect: str):
    if (engine, dialect) in MINIMUMS:
        assert sent_to(engine, dialect, min_new_tokens=3) == sent_to(engine, dialect, min_tokens=3) == (MINIMUMS[engine, dialect], [])
        return
    with pytest.raises(Unsupported) as refused:
        sent_to(engine, dialect, min_new_tokens=3)
    assert refused.value.param == "min_new_tokens"
    assert sent_to(engine, dialect, drop=True, min_new_tokens=3) == ({}, ["min_new_tokens"])
    assert sent_to(engine, dialect, min_new_tokens=0) == ({}, [])


@pytest.mark.parametrize(("engine", "dialect"), [*ROUTES, ("openai", "openai_chat"), ("auto", "openai_chat")])
def test_messages_without_their_template_are_refused(engine: str, dialect: str):
    with pytest.raises(Unsupported) as refused:
        sent_to(engine, dialect, do_preprocess=False)
    assert refused.value.param == "do_preprocess"
    assert sent_to(engine, dialect, drop=True, do_preprocess=False) == ({}, ["do_preprocess"])
    if dialect == "openai_chat":
        assert sent_to(engine, dialect, do_preprocess=True) == ({}, [])
