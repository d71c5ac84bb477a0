"""Probes of llama.cpp and Ollama find out whether their models read images.

The finding is None where they say nothing that can be read.
"""

import json
from typing import Any

import pytest

from providers.adapters.probe import ALL_MODELS, ProbeResponse
from providers.engines.llamacpp.probe import LLAMACPP_PROBE
from providers.engines.ollama.probe import OLLAMA_PROBE


def answers(path: str, body: Any, status: int = 200) -> dict[str, ProbeResponse]:
    return {path: ProbeResponse(status, json.dumps(body).encode())}


@pytest.mark.parametrize(
    ("props", "support"),
    [
        ({"modalities": {"vision": True, "audio": False}}, {ALL_MODELS: True}),
        ({"modalities": {"vision": False, "audio": True}}, {ALL_MODELS: False}),
        ({"modalities": {"audio": True}}, {}),
        ({"modalities": {"vision": "yes"}}, {}),
        ({"modalities": ["vision"]}, {}),
        ({"modalities": None}, {}),
        ({"build_info": "b1"}, {}),
        ([], {}),
    ],
    ids=json.dumps,
)
def test_llamacpp_says_whether_its_model_reads_images(props: Any, support: dict[str, bool]) -> None:
    assert LLAMACPP_PROBE.read_image_support(answers("/props", props)) == support


OLLAMA: list[tuple[Any, dict[str, bool]]] = [
    ([{"name": "llava:latest", "capabilities": ["completion", "vision"]}], {"llava:latest": True, "llava": True}),
    ([{"name": "qwen3:8b", "capabilities": ["completion", "tools"]}], {"qwen3:8b": False}),
    ([{"name": "gemma3n:e2b", "capabilities": ["completion", "audio"]}], {"gemma3n:e2b": False}),
    (
        [{"name": "a:1b", "capabilities": ["vision"]}, {"name": "b:1b"}, {"name": "c:1b", "capabilities": []}, 7],
        {"a:1b": True},
    ),
    ([{"name": 7, "capabilities": ["vision"]}, {"name": "d", "capabilities": "vision"}], {}),
    ({"name": "e"}, {}),
]


@pytest.mark.parametrize(("models", "support"), OLLAMA, ids=json.dumps)
def test_ollama_says_which_of_its_models_read_images(models: Any, support: dict[str, bool]) -> None:
    assert OLLAMA_PROBE.read_image_support(answers("/api/tags", {"models": models})) == support


def test_probe_without_an_answer_says_nothing_about_images() -> None:
    for probe, path, body in (
        (LLAMACPP_PROBE, "/props", {"modalities": {"vision": True}}),
        (OLLAMA_PROBE, "/api/tags", {"models": [{"name": "a", "capabilities": ["vision"]}]}),
    ):
        assert probe.read_image_support({}) == {}
        assert probe.read_image_support(answers(path, body, 503)) == {}
