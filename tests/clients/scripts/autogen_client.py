"""AutoGen's assistant agent, on Chat."""

# pyright: basic, reportMissingImports=false
import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from report import API_KEY, BASE_URL, MODEL, RESULTS, SCENARIO, report

# It requires these for models whose names it does not know.
CAPABILITIES = {"vision": True, "function_calling": True, "json_output": True, "structured_output": True, "family": "unknown"}


def model():
    return OpenAIChatCompletionClient(model=MODEL, base_url=f"{BASE_URL}/v1", api_key=API_KEY, model_info=CAPABILITIES)


def run(streaming):
    called = []

    async def get_weather(city: str) -> str:
        """The weather in a city"""
        called.append({"name": "get_weather", "arguments": {"city": city}})
        return RESULTS["get_weather"]

    async def conversation():
        agent = AssistantAgent(
            "assistant", model(), tools=[get_weather], model_client_stream=streaming, reflect_on_tool_use=True, max_tool_iterations=3
        )
        pieces, last = 0, None
        async for message in agent.run_stream(task=SCENARIO["weather"]):
            pieces += isinstance(message, ModelClientStreamingChunkEvent)
            last = message
        assert last is not None
        return {"called": called, "text": last.messages[-1].content, "pieces": pieces}

    return asyncio.run(conversation())


report({"tools": lambda: run(False), "tools_streamed": lambda: run(True)})
