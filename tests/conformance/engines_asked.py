"""What each engine is asked for the tables of docs/engines.md, and which engines there are."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Engine(Struct, frozen=True):
    """An adapter, as it is configured and found. `proved`: the tests that hold it to what the tables say, real engines' first."""

    title: str
    adapter: str
    proved: tuple[str, ...]
    version: tuple[int, ...] | None = None
    options: Mapping[str, Any] = {}


class Asking(Struct, frozen=True):
    """One ask: `body` without a model."""

    name: str
    body: Mapping[str, Any]
    dialect: str = "openai_chat"


_SMALL = tuple(f"engines/small/test_{what}_through_narthex.py" for what in ("guided", "tools", "chat"))

ENGINES = (
    Engine(
        "vLLM",
        "vllm",
        (
            *("engines/test_vllm_through_narthex_guided.py", "engines/test_vllm_through_narthex.py", "engines/test_vllm_routes.py"),
            *("stories/test_engine_vllm.py", "laws/test_vllm_words.py"),
        ),
        (0, 32, 0),
    ),
    Engine("vLLM < 0.12", "vllm", ("stories/test_engine_vllm.py", "laws/test_vllm_words.py"), (0, 11, 0)),
    Engine("vLLM of unknown version", "vllm", ("stories/test_engine_routers.py", "laws/test_vllm_words.py")),
    Engine("SGLang", "sglang", ("stories/test_engine_sglang.py", "laws/test_sglang.py"), (0, 5, 23)),
    Engine("LMDeploy", "lmdeploy", ("stories/test_engine_lmdeploy.py", "laws/test_lmdeploy.py"), (0, 18, 0)),
    Engine("TGI", "tgi", ("stories/test_engine_tgi.py", "laws/test_tgi.py"), (3, 3, 6)),
    Engine("llama.cpp", "llamacpp", (*_SMALL, "laws/test_llamacpp.py")),
    Engine("llama-cpp-python", "llamacpp_python", (*_SMALL, "laws/test_llamacpp.py")),
    Engine("Ollama", "ollama", ("stories/test_engine_ollama.py", "laws/test_ollama.py")),
    Engine("mini-sglang", "mini_sglang", ("stories/test_engine_mini_sglang.py", "laws/test_mini_sglang.py")),
    Engine("transformers serve", "transformers", (*_SMALL, "laws/test_transformers.py"), (5, 23, 0)),
    Engine("any OpenAI-compatible", "openai", ("stories/test_guided.py", "laws/test_provider.py")),
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


def _chat(name: str, **fields: Any) -> Asking:
    return Asking(name, {**_HI, **fields})


def _says(name: str, *parts: Any) -> Asking:
    return Asking(name, {"messages": [{"role": "user", "content": list(parts)}]})


def _tool(**more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "parameters": _SCHEMA, **more}}


_CALL: Any = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}

ASKED: Mapping[str, tuple[Asking, ...]] = {
    "Guided decoding": (
        _chat("JSON schema", response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": _SCHEMA}}),
        _chat("JSON object", response_format={"type": "json_object"}),
        _chat("regex", guided_regex="[0-9]+"),
        _chat("choice", guided_choice=["yes", "no"]),
        _chat("grammar in GBNF (or EBNF)", guided_grammar=_GBNF),
        _chat("grammar in Lark", guided_grammar=_LARK),
        _chat("structural tag", response_format=_TAG),
        _chat("schema and whitespace", guided_json=_SCHEMA, guided_whitespace_pattern="[ ]?"),
        Asking(
            "schema, said in Responses",
            {"input": "hi", "text": {"format": {"type": "json_schema", "name": "x", "schema": _SCHEMA}}},
            "openai_responses",
        ),
        Asking(
            "schema, said in Messages",
            {**_HI, "max_tokens": 9, "output_config": {"format": {"type": "json_schema", "schema": _SCHEMA}}},
            "anthropic_messages",
        ),
        Asking("regex, said in completions", {"prompt": "hi", "guided_regex": "[0-9]+"}, "openai_completions"),
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
        Asking(
            "results of calls",
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
    "What is said": (
        Asking("system message", {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]}),
        Asking("developer message", {"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}]}),
        _says("texts in parts", {"type": "text", "text": "a"}, {"type": "text", "text": "b"}),
        _says("image in bytes", {"type": "image_url", "image_url": {"url": _PIXEL}}),
        _says("audio in bytes", {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
        _says("file in bytes", {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}),
        Asking(
            "reasoning of earlier turns",
            {
                "messages": [
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": "Hello.", "reasoning_content": "A greeting."},
                    {"role": "user", "content": "bye"},
                ]
            },
        ),
        Asking("raw prompt in a chat", {"prompt": "Once upon"}),
    ),
    "How it is answered": (
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
        Asking("Responses", {"input": "hi"}, "openai_responses"),
        Asking("Messages", {**_HI, "max_tokens": 9}, "anthropic_messages"),
        Asking("Completions", {"prompt": "hi"}, "openai_completions"),
        Asking("Embeddings", {"input": "hi"}, "openai_embeddings"),
        Asking("Messages' `count_tokens`", dict(_HI), "anthropic_count_tokens"),
        Asking("vLLM's generate", {"token_ids": [1], "sampling_params": {}}, "vllm_generate"),
    ),
}
