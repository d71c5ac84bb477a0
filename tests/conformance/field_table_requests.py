"""The callers' APIs, their fields and the targets of the tables in docs/fields.md."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from providers.fields import ENGINE_FIELDS
from tests.conformance.engine_table_requests import ENGINES
from tests.support.field_handling import FIELD_VALUES, HI, NEUTRAL_FIELD_VALUES, TOOL


class TableTarget(Struct, frozen=True):
    """A column: an adapter, its options, the detected version of the engine, and a model where names matter."""

    title: str
    adapter: str
    model: str = "m"
    embedding_model: str = "m"
    version: tuple[int, ...] | None = None
    options: Mapping[str, Any] = {}
    is_hosted: bool = False


class FieldSample(Struct, frozen=True):
    """A row: a field, by its path in the body, with a value that asks for something."""

    path: str
    value: Any
    neutral_values: tuple[Any, ...] = ()  # those that ask for nothing
    beside: Mapping[str, Any] = {}  # fields without which it means nothing
    is_content: bool = False  # whether it is a part of the least that a request holds, or stands in its place
    is_for_gateway: bool = False  # whether the gateway reads it before it translates the request

    @property
    def fields(self) -> dict[str, Any]:
        """The field as it stands in the body."""
        return self._at_path(self.value)

    @property
    def neutral_fields(self) -> list[dict[str, Any]]:
        return [self._at_path(value) for value in self.neutral_values]

    @property
    def root(self) -> str:
        return self.path.partition(".")[0]

    def _at_path(self, value: Any) -> dict[str, Any]:
        for name in reversed(self.path.split(".")[1:]):
            value = {name: value}
        context = self.beside.get(self.root)
        return {self.root: {**context, **value} if isinstance(context, Mapping) and isinstance(value, Mapping) else value}


class CallerApi(Struct, frozen=True):
    """An API of callers. `content`: the least that a request holds beside the model."""

    title: str
    dialect: str
    content: Mapping[str, Any]
    samples: tuple[FieldSample, ...]


def _hosted(title: str, adapter: str, model: str = "m", embedding_model: str = "m", **options: Any) -> TableTarget:
    return TableTarget(title, adapter, model, embedding_model, options=options, is_hosted=True)


# Versions of vLLM whose fields have other names: what they are sent is in docs/engines.md.
_OTHER_VERSIONS = ("vLLM < 0.12", "vLLM of unknown version")
ENGINE_TARGETS = (
    *(
        TableTarget(engine.title, engine.adapter, version=engine.version, options=engine.options)
        for engine in ENGINES
        if engine.title not in _OTHER_VERSIONS
    ),
    TableTarget("sandbox", "sandbox"),
)
HOSTED_TARGETS = (
    _hosted("OpenAI, GPT-5", "openai", "gpt-5-mini", "text-embedding-3-small"),
    _hosted("OpenAI, GPT-4.1", "openai", "gpt-4.1", "text-embedding-3-small"),
    _hosted("Azure", "azure", "gpt-5-mini", "text-embedding-3-small"),
    _hosted("Anthropic, Claude 4.5", "anthropic", "claude-sonnet-4-5"),
    _hosted("Anthropic, Claude 5", "anthropic", "claude-opus-5"),
    _hosted("Foundry, Claude", "azure", "claude-opus-5", api="anthropic", resource="r"),
    _hosted("Bedrock, Claude", "bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.titan-embed-text-v2:0", region="us-east-1"),
    _hosted("Bedrock, Nova", "bedrock", "amazon.nova-pro-v1:0", "cohere.embed-v4:0", region="us-east-1"),
    _hosted("Bedrock, Llama", "bedrock", "meta.llama3-3-70b-instruct-v1:0", "cohere.embed-english-v3", region="us-east-1"),
    _hosted("Gemini 2.5", "gemini", "gemini-2.5-flash", "gemini-embedding-001"),
    _hosted("Gemini 3.7", "gemini", "gemini-3.7-pro", "gemini-embedding-001"),
    _hosted("Vertex, Gemini", "vertex", "gemini-2.5-flash", "gemini-embedding-001"),
    _hosted("Vertex, Claude", "vertex", "claude-sonnet-4-5", "text-multilingual-embedding-002"),
    _hosted("Cohere", "cohere", "command-a-03-2025", "embed-v4.0"),
    _hosted("Mistral", "mistral", "mistral-large-latest", "mistral-embed"),
    _hosted("DeepSeek", "deepseek", "deepseek-chat"),
    _hosted("xAI", "xai", "grok-4"),
    _hosted("Groq", "groq", "openai/gpt-oss-120b"),
    _hosted("Together", "together", "openai/gpt-oss-120b"),
    _hosted("Fireworks", "fireworks", "accounts/fireworks/models/gpt-oss-120b"),
    _hosted("OpenRouter", "openrouter", "openai/gpt-5-mini"),
    _hosted("Perplexity", "perplexity", "sonar"),
    _hosted("Cerebras", "cerebras", "gpt-oss-120b"),
    _hosted("Hyperbolic", "hyperbolic", "openai/gpt-oss-120b"),
    _hosted("Moonshot", "moonshot", "kimi-k3"),
    _hosted("Z.ai", "zai", "glm-5.3"),
    _hosted("Alibaba", "alibaba", "qwen3.8-max", "text-embedding-v4"),
    _hosted("SageMaker", "sagemaker", region="us-east-1"),
)

_OBJECT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
_RESPONSES_TOOL: dict[str, Any] = {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}, "strict": False}
_MESSAGES_TOOL: dict[str, Any] = {"name": "now", "input_schema": {"type": "object"}}

# Neutral values beside those of one field of a chat (tests/support/field_handling.py), in every API of OpenAI that has the field.
_MORE_NEUTRAL_VALUES: Mapping[str, tuple[Any, ...]] = {
    "temperature": (1,),
    "top_p": (1,),
    "store": (False,),
    "metadata": ({},),
    "parallel_tool_calls": (True,),
    "service_tier": ("auto", "default"),
    "tool_choice": ("auto",),
    "function_call": ("auto",),
    "functions": ([],),
    "modalities": (["text"],),
    "verbosity": ("medium",),
    "top_logprobs": (0,),
    "stream": (False,),
    "stream_options": ({}, {"include_usage": False}),
    "echo": (False,),
    "suffix": ("",),
    "truncation": ("disabled",),
    "background": (False,),
    "include": ([],),
    "top_k": (-1, 0),
    "top_a": (0,),
    "typical_p": (1,),
    "tfs_z": (1,),
    "no_repeat_ngram_size": (0,),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "allowed_token_ids": ([],),
    "include_stop_str_in_output": (False,),
    "spaces_between_special_tokens": (True,),
    "chat_template_kwargs": ({},),
    "mm_processor_kwargs": ({},),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "separate_reasoning": (True,),
    "priority": (0,),
}


def _neutral_values(path: str) -> tuple[Any, ...]:
    shared = (NEUTRAL_FIELD_VALUES[path],) if path in NEUTRAL_FIELD_VALUES else ()
    return (*shared, *(value for value in _MORE_NEUTRAL_VALUES.get(path, ()) if value not in shared))


def _sample(path: str, value: Any, *neutral: Any, beside: Mapping[str, Any] | None = None) -> FieldSample:
    return FieldSample(path, value, neutral or _neutral_values(path), beside or {})


def _listed(names: Iterable[str]) -> tuple[FieldSample, ...]:
    return tuple(_sample(name, FIELD_VALUES[name]) for name in names)


def _content(path: str, value: Any, **beside: Any) -> FieldSample:
    return FieldSample(path, value, beside=beside, is_content=True)


_FOR_GATEWAY = (
    FieldSample("episode_id", "01990000-0000-7000-8000-00000000000a", is_for_gateway=True),
    FieldSample("tensorzero::episode_id", "01990000-0000-7000-8000-00000000000a", is_for_gateway=True),
    FieldSample("tensorzero::tags", {"a": "b"}, is_for_gateway=True),
)
_STREAM = (
    _sample("stream", True),
    _sample("stream_options", {"include_usage": True}, beside={"stream": True}),
)
_CONSTRAINT_FIELDS = (
    *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "structural_tag"),
    *("regex", "ebnf", "grammar", "json_schema"),
)
_TEMPLATE_FIELDS = ("chat_template", "chat_template_kwargs", "mm_processor_kwargs")
_GUIDED_HINTS = (
    _sample("guided_decoding_backend", "xgrammar", beside={"guided_json": _OBJECT_SCHEMA}),
    _sample("guided_whitespace_pattern", "[ ]?", beside={"guided_json": _OBJECT_SCHEMA}),
)
# Fields of a chat that mean nothing alone, and those that they stand beside.
_WITH_OTHER_FIELDS = {
    *("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "top_logprobs"),
    *("guided_decoding_backend", "guided_whitespace_pattern"),
}
_CHAT = CallerApi(
    "Chat",
    "openai_chat",
    {"messages": HI},
    (
        _content("messages", HI),
        _content("prompt", "Once upon"),
        *_STREAM,
        _sample("tools", [TOOL]),
        _sample("tool_choice", "required", beside={"tools": [TOOL]}),
        _sample("parallel_tool_calls", False, beside={"tools": [TOOL]}),
        _sample("functions", [{"name": "now", "parameters": {"type": "object", "properties": {}}}]),
        _sample("function_call", {"name": "now"}, beside={"functions": [{"name": "now"}]}),
        _sample("top_logprobs", 2, beside={"logprobs": True}),
        *_GUIDED_HINTS,
        _sample("prompt_cache_options", {"mode": "explicit"}),
        _sample("moderation", {"model": "omni-moderation-latest"}),
        *_listed(name for name in FIELD_VALUES if name not in _WITH_OTHER_FIELDS),
        *_FOR_GATEWAY,
    ),
)
_COMPLETIONS = CallerApi(
    "Completions",
    "openai_completions",
    {"prompt": "Once upon"},
    (
        _content("prompt", "Once upon"),
        *_STREAM,
        *_listed(("max_tokens", "temperature", "top_p", "frequency_penalty", "presence_penalty", "seed", "n", "best_of", "stop")),
        FieldSample("logprobs", 2),
        _sample("echo", True),
        _sample("suffix", " the end."),
        _sample("logit_bias", {"1": 5}),
        _sample("response_format", {"type": "json_object"}),
        *_listed(("user", "metadata")),
        *_listed(_CONSTRAINT_FIELDS),
        *_GUIDED_HINTS,
        *_listed(sorted(ENGINE_FIELDS & FIELD_VALUES.keys() - {"best_of", "guided_decoding_backend", "guided_whitespace_pattern"})),
        *_FOR_GATEWAY,
    ),
)
_RESPONSES = CallerApi(
    "Responses",
    "openai_responses",
    {"input": "Hello!"},
    (
        _content("input", "Hello!"),
        _sample("instructions", "Be brief."),
        _sample("stream", True),
        _sample("stream_options", {"include_obfuscation": False}, {}, beside={"stream": True}),
        _sample("tools", [_RESPONSES_TOOL]),
        _sample("tool_choice", "required", beside={"tools": [_RESPONSES_TOOL]}),
        _sample("parallel_tool_calls", False, beside={"tools": [_RESPONSES_TOOL]}),
        _sample("max_tool_calls", 3),
        _sample("text.format", {"type": "json_schema", "name": "x", "schema": _OBJECT_SCHEMA, "strict": True}, {"type": "text"}),
        _sample("text.verbosity", "low", "medium"),
        _sample("reasoning.effort", "low"),
        _sample("reasoning.summary", "auto"),
        _sample("reasoning.generate_summary", "auto"),
        _sample("include", ["reasoning.encrypted_content"]),
        _sample("max_output_tokens", 70),
        _sample("temperature", 0.5),
        _sample("top_p", 0.5),
        _sample("top_logprobs", 2),
        *_listed(("top_k", "seed", "frequency_penalty", "presence_penalty")),
        FieldSample("previous_response_id", "resp_1", is_for_gateway=True),
        FieldSample("store", False, is_for_gateway=True),
        _sample("conversation", "conv_1"),
        _sample("prompt", {"id": "pmpt_1"}),
        _sample("background", True),
        _sample("truncation", "auto"),
        *_listed(("user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "metadata", "service_tier")),
        _sample("prompt_cache_options", {"mode": "explicit"}),
        _sample("context_management", [{"type": "compaction", "compact_threshold": 100_000}], []),
        _sample("moderation", {"model": "omni-moderation-latest"}),
        _sample("access_programs", ["x"], []),
        _sample("image", {"quality": "low"}),
        *_listed(_TEMPLATE_FIELDS),
        *_listed(_CONSTRAINT_FIELDS),
        *_FOR_GATEWAY,
    ),
)
_MESSAGES = CallerApi(
    "Messages",
    "anthropic_messages",
    {"messages": HI, "max_tokens": 4096},
    (
        _content("messages", HI, max_tokens=4096),
        _content("max_tokens", 4096, messages=HI),
        _sample("system", "Be brief."),
        _sample("stream", True),
        _sample("tools", [_MESSAGES_TOOL]),
        _sample("tool_choice.type", "any", "auto", beside={"tools": [_MESSAGES_TOOL]}),
        _sample("tool_choice.disable_parallel_tool_use", True, False, beside={"tools": [_MESSAGES_TOOL], "tool_choice": {"type": "auto"}}),
        _sample("thinking", {"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}),
        _sample("output_config.effort", "low"),
        _sample("output_config.format", {"type": "json_schema", "schema": _OBJECT_SCHEMA}),
        _sample("output_format", {"type": "json_schema", "schema": _OBJECT_SCHEMA}),
        _sample("temperature", 0.5),
        _sample("top_p", 0.5),
        _sample("top_k", 5, 0),
        _sample("stop_sequences", ["END"], []),
        _sample("metadata", {"user_id": "u"}, {}),
        _sample("service_tier", "standard_only", "auto"),
        _sample("cache_control", {"type": "ephemeral"}),
        _sample("context_management", {"edits": [{"type": "clear_tool_uses_20250919"}]}, {}, {"edits": []}),
        _sample("container", "container_1"),
        _sample("mcp_servers", [{"type": "url", "name": "x", "url": "https://example.org/mcp"}], []),
        _sample("inference_geo", "us"),
        _sample("speed", "fast", "standard"),
        _sample("compaction", {"enabled": True}),
        _sample("diagnostics", {"previous_message_id": None}),
        _sample("billing_policy", "x"),
        _sample("fallbacks", [{"model": "claude-haiku-4-5"}], []),
        _sample("fallback_credit_token", "x"),
        _sample("thread", {"id": "thread_1"}),
        _sample("user_profile_id", "x"),
        _sample("workspace_id", "x"),
        *_FOR_GATEWAY,
    ),
)
_EMBEDDINGS = CallerApi(
    "Embeddings",
    "openai_embeddings",
    {"input": "hi"},
    (
        _content("input", "hi"),
        _content("messages", HI),
        _sample("dimensions", 256),
        _sample("encoding_format", "base64", "float"),
        _sample("embed_dtype", "float16", "float32"),
        _sample("endianness", "big", "native"),
        _sample("stream", False),
        *_listed(("user", "metadata")),
        _sample("truncate_prompt_tokens", 5),
        *_FOR_GATEWAY,
    ),
)

_GEMINI_HI = [{"role": "user", "parts": [{"text": "Hello!"}]}]
_GEMINI_TOOLS = [{"functionDeclarations": [{"name": "now", "parametersJsonSchema": {"type": "object"}}]}]
_CONFIG = "generationConfig"
_JSON_BESIDE: Mapping[str, Any] = {_CONFIG: {"responseMimeType": "application/json"}}
_GEMINI = CallerApi(
    "Gemini",
    "gemini",
    {"contents": _GEMINI_HI},
    (
        _content("contents", _GEMINI_HI),
        _sample("stream", True),
        _sample("systemInstruction", {"parts": [{"text": "Be brief."}]}),
        _sample("tools", _GEMINI_TOOLS),
        _sample("toolConfig.functionCallingConfig", {"mode": "ANY"}, {"mode": "AUTO"}, beside={"tools": _GEMINI_TOOLS}),
        _sample("safetySettings", [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}], []),
        _sample("cachedContent", "cachedContents/1"),
        _sample("labels", {"tenant": "a"}, {}),
        _sample("store", True),
        _sample("serviceTier", "FLEX", "STANDARD"),
        _sample(f"{_CONFIG}.temperature", 0.5),
        _sample(f"{_CONFIG}.topP", 0.5),
        _sample(f"{_CONFIG}.topK", 5),
        _sample(f"{_CONFIG}.candidateCount", 2, 1),
        _sample(f"{_CONFIG}.maxOutputTokens", 7),
        _sample(f"{_CONFIG}.stopSequences", ["END"], []),
        _sample(f"{_CONFIG}.seed", 3),
        _sample(f"{_CONFIG}.responseMimeType", "application/json", "text/plain"),
        _sample(f"{_CONFIG}.responseSchema", {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}, beside=_JSON_BESIDE),
        _sample(f"{_CONFIG}.responseJsonSchema", _OBJECT_SCHEMA, beside=_JSON_BESIDE),
        _sample(f"{_CONFIG}.responseLogprobs", True, False),
        _sample(f"{_CONFIG}.logprobs", 2, beside={_CONFIG: {"responseLogprobs": True}}),
        _sample(f"{_CONFIG}.presencePenalty", 0.5, 0),
        _sample(f"{_CONFIG}.frequencyPenalty", 0.5, 0),
        _sample(f"{_CONFIG}.thinkingConfig", {"thinkingLevel": "LOW"}, {}),
        _sample(f"{_CONFIG}.mediaResolution", "MEDIA_RESOLUTION_LOW"),
        _sample(f"{_CONFIG}.responseModalities", ["IMAGE"]),
        _sample(f"{_CONFIG}.speechConfig", {"languageCode": "en-US"}),
        *_FOR_GATEWAY,
    ),
)

CALLER_APIS = (_CHAT, _COMPLETIONS, _RESPONSES, _MESSAGES, _GEMINI, _EMBEDDINGS)
