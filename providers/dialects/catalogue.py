"""Dialect name -> dialect: the only list of them."""

from collections.abc import Mapping

from providers.dialect import CallerChatDialect, ChatDialect, Dialect, EngineDialect
from providers.dialects.anthropic_count_tokens import AnthropicCountTokens
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.bedrock_converse import BedrockConverse
from providers.dialects.bedrock_llama import BedrockLlama
from providers.dialects.cohere_chat import CohereChat
from providers.dialects.gemini import Gemini
from providers.dialects.ollama_chat import OllamaChat
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_completions import OpenAICompletions
from providers.dialects.openai_embeddings import OpenAIEmbeddings
from providers.dialects.openai_responses import OpenAIResponses
from providers.dialects.tensorzero_inference import TensorZeroInference
from providers.dialects.tgi_generate import LMIGenerate, TGIGenerate
from providers.dialects.vllm_generate import VLLMGenerate

# Chats of callers and of engines: a caller of one reaches an engine of another.
CHAT_DIALECTS: Mapping[str, ChatDialect] = {
    each.name: each for each in (OpenAIChat(), OpenAIResponses(), AnthropicMessages(), Gemini(), OpenAICompletions())
}

# Those in which callers send chats. No engine speaks those that are not in CHAT_DIALECTS.
CALLER_CHAT_DIALECTS: Mapping[str, CallerChatDialect] = {**CHAT_DIALECTS, TensorZeroInference.name: TensorZeroInference()}

# Those in which engines receive chats. No caller uses those that are not in CHAT_DIALECTS.
ENGINE_DIALECTS: Mapping[str, EngineDialect] = {
    **CHAT_DIALECTS,
    OllamaChat.name: OllamaChat(),
    CohereChat.name: CohereChat(),
    BedrockConverse.name: BedrockConverse(),
    BedrockLlama.name: BedrockLlama(),
    TGIGenerate.name: TGIGenerate(),
    LMIGenerate.name: LMIGenerate(),
}

# Those that can express a raw prompt, a text to continue, which is not a chat.
RAW_PROMPT_DIALECTS = frozenset({OpenAICompletions.name, TGIGenerate.name, LMIGenerate.name, BedrockLlama.name})

# Those in which callers send requests and engines receive them. Engine routes come on top: providers/catalogue.py.
CALLER_DIALECTS: Mapping[str, Dialect] = {
    **CHAT_DIALECTS,
    **{each.name: each for each in (OpenAIEmbeddings(), AnthropicCountTokens(), VLLMGenerate())},
}
