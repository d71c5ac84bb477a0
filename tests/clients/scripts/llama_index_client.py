"""LlamaIndex's function agent, with its model class for the API that SURFACE names."""

# pyright: basic, reportMissingImports=false
import asyncio

from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from report import API_KEY, BASE_URL, MODEL, RESULTS, SCENARIO, SURFACE, report

CONTEXT = {"context_window": 32_000, "is_function_calling_model": True}


def model():
    match SURFACE:
        case "openai_chat":
            return OpenAILike(model=MODEL, api_base=f"{BASE_URL}/v1", api_key=API_KEY, is_chat_model=True, **CONTEXT)
        case _:
            # Its sizes of contexts are by OpenAI's names.
            return OpenAIResponses(model=MODEL, api_base=f"{BASE_URL}/v1", api_key=API_KEY, context_window=32_000)


def run(streaming):
    called = []

    def get_weather(city: str) -> str:
        """The weather in a city"""
        called.append({"name": "get_weather", "arguments": {"city": city}})
        return RESULTS["get_weather"]

    async def conversation():
        handler = FunctionAgent(tools=[get_weather], llm=model(), streaming=streaming).run(user_msg=SCENARIO["weather"])
        pieces = 0
        async for event in handler.stream_events():
            pieces += isinstance(event, AgentStream) and bool(event.delta)
        return {"called": called, "text": str(await handler), "pieces": pieces}

    return asyncio.run(conversation())


report({"tools": lambda: run(False), "tools_streamed": lambda: run(True)})
