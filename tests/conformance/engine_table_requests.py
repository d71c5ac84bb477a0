"""The engines and the requests of the tables in docs/engines.md."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Engine(Struct, frozen=True):
    """A column of the tables: an adapter, its options, and the detected version of the engine."""

    title: str
    adapter: str
    evidence_tests: tuple[str, ...]  # the tests that check what the tables claim, those with real engines first
    version: tuple[int, ...] | None = None
    options: Mapping[str, Any] = {}


class EngineRequest(Struct, frozen=True):
    """A row of the tables: a request of a caller who speaks `dialect`; `body` lacks the model."""

    name: str
    body: Mapping[str, Any]
    dialect: str = "openai_chat"


_SMALL_ENGINE_TESTS = tuple(f"engines/small/test_{topic}_through_narthex.py" for topic in ("structured_output", "tools", "chat"))

ENGINES = (
    Engine(
        "vLLM",
        "vllm",
        (
            *(
                "engines/vllm/test_vllm_through_narthex_structured_output.py",
                "engines/vllm/test_vllm_through_narthex.py",
                "engines/vllm/test_vllm_tokenize_routes.py",
            ),
            *("integration/engines/test_engine_vllm.py", "unit/engines/test_vllm_constraint_fields.py"),
        ),
        (0, 32, 0),
    ),
    Engine("vLLM < 0.12", "vllm", ("integration/engines/test_engine_vllm.py", "unit/engines/test_vllm_constraint_fields.py"), (0, 11, 0)),
    Engine(
        "vLLM of unknown version", "vllm", ("integration/engines/test_engine_routers.py", "unit/engines/test_vllm_constraint_fields.py")
    ),
    Engine("SGLang", "sglang", ("integration/engines/test_engine_sglang.py", "unit/engines/test_sglang.py"), (0, 5, 23)),
    Engine("LMDeploy", "lmdeploy", ("integration/engines/test_engine_lmdeploy.py", "unit/engines/test_lmdeploy.py"), (0, 18, 0)),
    Engine("TGI", "tgi", ("integration/engines/test_engine_tgi.py", "unit/engines/test_tgi.py"), (3, 3, 6)),
    Engine("llama.cpp", "llamacpp", (*_SMALL_ENGINE_TESTS, "unit/engines/test_llamacpp_adapters.py")),
    Engine("llama-cpp-python", "llamacpp_python", (*_SMALL_ENGINE_TESTS, "unit/engines/test_llamacpp_adapters.py")),
    Engine("Ollama", "ollama", ("integration/engines/test_engine_ollama.py", "unit/engines/test_ollama_adapter.py")),
    Engine("mini-sglang", "mini_sglang", ("integration/engines/test_engine_mini_sglang.py", "unit/engines/test_mini_sglang.py")),
    Engine("transformers serve", "transformers", (*_SMALL_ENGINE_TESTS, "unit/engines/test_transformers.py"), (5, 23, 0)),
    Engine("any OpenAI-compatible", "openai", ("integration/attempts/test_structured_output.py", "unit/adapters/test_provider.py")),
)

_HI = {"messages": [{"role": "user", "content": "hi"}]}
_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
_GBNF = 'root ::= "a" | "b"'
_LARK = 'start: "a" | "b"'
_TAG = {
    "type": "structural_tag",
    "structures": [{"begin": "<a>", "schema": {"type": "object"}, "end": "</a>"}],
    "triggers": ["<a>"],
}
_PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def _chat(name: str, **fields: Any) -> EngineRequest:
    return EngineRequest(name, {**_HI, **fields})


def _chat_with_parts(name: str, *parts: Any) -> EngineRequest:
    return EngineRequest(name, {"messages": [{"role": "user", "content": list(parts)}]})


def _tool(**more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "parameters": _SCHEMA, **more}}


_CALL: Any = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}

ENGINE_REQUESTS: Mapping[str, tuple[EngineRequest, ...]] = {
    "Guided decoding": (
        _chat("JSON schema", response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": _SCHEMA}}),
        _chat("JSON object", response_format={"type": "json_object"}),
        _chat("regex", guided_regex="[0-9]+"),
        _chat("choice", guided_choice=["yes", "no"]),
        _chat("grammar in GBNF or EBNF", guided_grammar=_GBNF),
        _chat("grammar in Lark", guided_grammar=_LARK),
        _chat("structural tag", response_format=_TAG),
        _chat("schema and whitespace pattern", guided_json=_SCHEMA, guided_whitespace_pattern="[ ]?"),
        EngineRequest(
            "schema, in Responses",
            {"input": "hi", "text": {"format": {"type": "json_schema", "name": "x", "schema": _SCHEMA}}},
            "openai_responses",
        ),
        EngineRequest(
            "schema, in Messages",
            {**_HI, "max_tokens": 9, "output_config": {"format": {"type": "json_schema", "schema": _SCHEMA}}},
            "anthropic_messages",
        ),
        EngineRequest("regex, in Completions", {"prompt": "hi", "guided_regex": "[0-9]+"}, "openai_completions"),
    ),
    "Tools": (
        _chat("tools", tools=[_tool()]),
        _chat("`tool_choice` none", tools=[_tool()], tool_choice="none"),
        _chat("`tool_choice` required", tools=[_tool()], tool_choice="required"),
        _chat("`tool_choice` by name", tools=[_tool()], tool_choice={"type": "function", "function": {"name": "f"}}),
        _chat("`strict` tools", tools=[_tool(strict=True)]),
        _chat("`parallel_tool_calls: false`", tools=[_tool()], parallel_tool_calls=False),
        _chat(
            "tools and a schema", tools=[_tool()], response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": _SCHEMA}}
        ),
        EngineRequest(
            "tool results",
            {
                "messages": [
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": None, "tool_calls": [_CALL]},
                    {"role": "tool", "tool_call_id": "c1", "content": "1"},
                ],
                "tools": [_tool()],
            },
        ),
    ),
    "Messages and media": (
        EngineRequest("system message", {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]}),
        EngineRequest(
            "developer message", {"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}]}
        ),
        _chat_with_parts("text parts", {"type": "text", "text": "a"}, {"type": "text", "text": "b"}),
        _chat_with_parts("image as data", {"type": "image_url", "image_url": {"url": _PIXEL}}),
        _chat_with_parts("audio as data", {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
        _chat_with_parts(
            "file as data", {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}
        ),
        EngineRequest(
            "reasoning of earlier turns",
            {
                "messages": [
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": "Hello.", "reasoning_content": "A greeting."},
                    {"role": "user", "content": "bye"},
                ]
            },
        ),
        EngineRequest("raw prompt in a chat", {"prompt": "Once upon"}),
    ),
    "Sampling and output": (
        _chat("`max_completion_tokens`", max_completion_tokens=9),
        _chat("`stop`", stop=["x"]),
        _chat("`seed`", seed=1),
        _chat("`n: 2`", n=2),
        _chat("`logprobs`", logprobs=True, top_logprobs=2),
        _chat("`logit_bias`", logit_bias={"1": 5}),
        _chat("`presence_penalty`", presence_penalty=0.5),
        _chat("`top_k`", top_k=5),
        _chat("`min_p`", min_p=0.1),
        _chat("`repetition_penalty`", repetition_penalty=1.1),
        _chat("`min_tokens`", min_tokens=2),
        _chat("`min_new_tokens`", min_new_tokens=2),
        _chat("`do_preprocess: false`", do_preprocess=False),
        _chat("`stop_token_ids`", stop_token_ids=[2]),
        _chat("`ignore_eos`", ignore_eos=True),
        _chat("`reasoning_effort`", reasoning_effort="low"),
        _chat("`chat_template_kwargs`", chat_template_kwargs={"enable_thinking": False}),
        _chat("`priority`", priority=1),
        _chat("`cache_salt`", cache_salt="s"),
        _chat("`user`", user="u"),
        _chat("`stream`, with usage", stream=True, stream_options={"include_usage": True}),
    ),
    "Other APIs": (
        EngineRequest("Responses", {"input": "hi"}, "openai_responses"),
        EngineRequest("Messages", {**_HI, "max_tokens": 9}, "anthropic_messages"),
        EngineRequest("Completions", {"prompt": "hi"}, "openai_completions"),
        EngineRequest("Embeddings", {"input": "hi"}, "openai_embeddings"),
        EngineRequest("Messages' `count_tokens`", dict(_HI), "anthropic_count_tokens"),
        EngineRequest("vLLM's generate", {"token_ids": [1], "sampling_params": {}}, "vllm_generate"),
    ),
}
