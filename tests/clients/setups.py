"""How users set each client up, in the words of its own configuration; docs/clients.md shows it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Setup:
    """How a client is set up, as the page shows it."""

    title: str
    clients: tuple[str, ...]  # those of tests/clients/clients.py that it is for
    packages: tuple[str, ...]  # those whose versions the page names
    configuration: str  # Markdown. HOST is the gateway's address, KEY a key, NAME a model.


SETUPS = (
    Setup("OpenAI SDK (npm), Chat", ("openai_chat",), ("openai",), "`new OpenAI({ baseURL: 'http://HOST/v1', apiKey: 'KEY' })`"),
    Setup("OpenAI SDK (npm), Responses", ("openai_responses",), ("openai",), "the same, `client.responses`"),
    Setup(
        "Anthropic SDK (npm)",
        ("anthropic",),
        ("@anthropic-ai/sdk",),
        "`new Anthropic({ baseURL: 'http://HOST', apiKey: 'KEY' })`, without `/v1`",
    ),
    Setup(
        "Vercel AI SDK, OpenAI",
        ("ai-openai_chat", "ai-openai_responses", "ai-openai_responses_stored"),
        ("ai", "@ai-sdk/openai"),
        "`createOpenAI({ baseURL: 'http://HOST/v1', apiKey })`; `provider(NAME)` uses Responses, `provider.chat(NAME)` uses Chat",
    ),
    Setup(
        "Vercel AI SDK, Anthropic",
        ("ai-anthropic",),
        ("ai", "@ai-sdk/anthropic"),
        "`createAnthropic({ baseURL: 'http://HOST/v1', apiKey })`, with `/v1`",
    ),
    Setup(
        "Vercel AI SDK, compatible",
        ("ai-compatible",),
        ("ai", "@ai-sdk/openai-compatible"),
        "`createOpenAICompatible({ name, baseURL: 'http://HOST/v1', apiKey, includeUsage: true, supportsStructuredOutputs: true })`",
    ),
    Setup(
        "LangChain, OpenAI",
        ("langchain-openai_chat", "langchain-openai_responses", "langchain-openai_responses_stored"),
        ("langchain-openai",),
        '`ChatOpenAI(base_url="http://HOST/v1", api_key=KEY, stream_usage=True)`; for Responses `use_responses_api=True`. '
        "`OpenAIEmbeddings(base_url=..., api_key=KEY, check_embedding_ctx_length=False)`: otherwise it downloads a tokenizer and sends "
        "token ids",
    ),
    Setup(
        "LangChain, Anthropic",
        ("langchain-anthropic",),
        ("langchain-anthropic",),
        '`ChatAnthropic(base_url="http://HOST", api_key=KEY)`',
    ),
    Setup(
        "LangGraph",
        ("langgraph-openai_chat", "langgraph-openai_responses", "langgraph-anthropic"),
        ("langgraph",),
        "the models of LangChain",
    ),
    Setup(
        "LlamaIndex",
        ("llama_index-openai_chat", "llama_index-openai_responses"),
        ("llama-index-core", "llama-index-llms-openai-like"),
        '`OpenAILike(model=NAME, api_base="http://HOST/v1", api_key=KEY, is_chat_model=True, is_function_calling_model=True, '
        "context_window=32_000)`; for Responses `OpenAIResponses(..., context_window=32_000)`",
    ),
    Setup(
        "Haystack",
        ("haystack-openai_chat", "haystack-openai_responses", "haystack-anthropic"),
        ("haystack-ai", "anthropic-haystack"),
        '`OpenAIChatGenerator(api_key=Secret.from_token(KEY), model=NAME, api_base_url="http://HOST/v1")`, '
        "`OpenAIResponsesChatGenerator` likewise; `AnthropicChatGenerator` with `ANTHROPIC_BASE_URL=http://HOST`",
    ),
    Setup(
        "AutoGen",
        ("autogen-openai_chat",),
        ("autogen-agentchat",),
        '`OpenAIChatCompletionClient(model=NAME, base_url="http://HOST/v1", api_key=KEY, model_info={"function_calling": True, '
        '"vision": True, "json_output": True, "structured_output": True, "family": "unknown"})`',
    ),
    Setup(
        "smolagents",
        ("smolagents-openai_chat",),
        ("smolagents",),
        '`OpenAIServerModel(NAME, api_base="http://HOST/v1", api_key=KEY)`',
    ),
    Setup(
        "CrewAI",
        ("crewai-openai", "crewai-anthropic"),
        ("crewai",),
        '`LLM(model=NAME, provider="openai", base_url="http://HOST/v1", api_key=KEY)`, or `provider="anthropic"` without `/v1`',
    ),
    Setup(
        "DSPy",
        ("dspy-openai", "dspy-anthropic"),
        ("dspy",),
        '`dspy.LM("openai/NAME", api_base="http://HOST/v1", api_key=KEY)`, or `"anthropic/NAME"`',
    ),
    Setup(
        "pydantic-ai",
        ("pydantic_ai-openai_chat", "pydantic_ai-openai_responses", "pydantic_ai-anthropic"),
        ("pydantic-ai-slim",),
        '`OpenAIProvider(base_url="http://HOST/v1", api_key=KEY)`, `AnthropicProvider(base_url="http://HOST", api_key=KEY)`',
    ),
    Setup(
        "instructor",
        ("instructor-openai_chat", "instructor-openai_responses", "instructor-anthropic"),
        ("instructor",),
        "the SDK that it wraps, in any of its modes",
    ),
    Setup(
        "LiteLLM (library)",
        ("litellm-openai", "litellm-anthropic"),
        ("litellm",),
        '`openai/NAME` with `api_base="http://HOST/v1"`, or `anthropic/NAME` with `api_base="http://HOST"`',
    ),
    Setup(
        "Claude Code",
        ("claude_code",),
        ("@anthropic-ai/claude-code",),
        "`ANTHROPIC_BASE_URL=http://HOST`, `ANTHROPIC_AUTH_TOKEN=KEY`, `ANTHROPIC_MODEL=NAME`",
    ),
    Setup(
        "Codex CLI",
        ("codex",),
        ("@openai/codex",),
        'in `~/.codex/config.toml`: `model = "NAME"`, `model_provider = "narthex"`, and under `[model_providers.narthex]` '
        '`name = "Narthex"`, `base_url = "http://HOST/v1"`, `env_key = "NARTHEX_API_KEY"`, `wire_api = "responses"`',
    ),
    Setup(
        "Cline (CLI)",
        ("cline",),
        ("cline",),
        "`cline auth --provider openai-compatible --apikey KEY --modelid NAME --baseurl http://HOST/v1`; it has no address to set for "
        "other providers",
    ),
    Setup(
        "Continue (CLI)",
        ("continue_openai", "continue_anthropic"),
        ("@continuedev/cli",),
        'in `~/.continue/config.yaml`, under `models`: `- {name: NAME, provider: openai, model: NAME, apiBase: "http://HOST/v1", '
        "apiKey: KEY, roles: [chat], capabilities: [tool_use]}`; `provider: anthropic` likewise, with `/v1`",
    ),
    Setup(
        "LibreChat",
        ("librechat-openai", "librechat-anthropic"),
        ("@librechat/agents",),
        'in `librechat.yaml`, under `endpoints.custom`: `- {name: Narthex, apiKey: KEY, baseURL: "http://HOST/v1", models: {default: '
        "[NAME], fetch: true}}`; or `ANTHROPIC_REVERSE_PROXY=http://HOST` and `ANTHROPIC_API_KEY=KEY`. What runs here is the library by "
        "which its server runs agents, as the server itself needs MongoDB",
    ),
    Setup(
        "Open WebUI",
        ("open_webui-openai",),
        ("open-webui",),
        "`OPENAI_API_BASE_URLS=http://HOST/v1`, `OPENAI_API_KEYS=KEY`, `ENABLE_OLLAMA_API=False`; for tools *Function Calling: Native* "
        "among the advanced parameters of the model",
    ),
    Setup(
        "opencode",
        ("opencode_compatible", "opencode_responses", "opencode_anthropic"),
        ("opencode-ai",),
        'in `opencode.json`: `{"provider": {"narthex": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "http://HOST/v1", '
        '"apiKey": "KEY"}, "models": {"NAME": {}}}}}`; `@ai-sdk/openai` (Responses) and `@ai-sdk/anthropic` likewise',
    ),
    Setup(
        "aider",
        ("aider_openai", "aider_anthropic"),
        ("aider-chat",),
        "`OPENAI_API_BASE=http://HOST/v1`, `OPENAI_API_KEY=KEY`, `aider --model openai/NAME`; or `ANTHROPIC_API_BASE=http://HOST`, "
        "`ANTHROPIC_API_KEY=KEY`, `--model anthropic/NAME`",
    ),
)
