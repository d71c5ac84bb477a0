"""Haystack's agent, with its generator for the API that SURFACE names."""

# pyright: basic, reportMissingImports=false
import os
from typing import Annotated

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool
from haystack.utils import Secret
from haystack_integrations.components.generators.anthropic import AnthropicChatGenerator
from report import API_KEY, BASE_URL, MODEL, RESULTS, SCENARIO, SURFACE, report

KEY = Secret.from_token(API_KEY)
called = []


@tool
def get_weather(city: Annotated[str, "The city"]) -> str:
    """The weather in a city"""
    called.append({"name": "get_weather", "arguments": {"city": city}})
    return RESULTS["get_weather"]


def generator():
    match SURFACE:
        case "openai_chat":
            return OpenAIChatGenerator(api_key=KEY, model=MODEL, api_base_url=f"{BASE_URL}/v1")
        case "openai_responses":
            return OpenAIResponsesChatGenerator(api_key=KEY, model=MODEL, api_base_url=f"{BASE_URL}/v1")
        case _:
            # It has no parameter for the address; Anthropic's SDK reads this variable.
            os.environ["ANTHROPIC_BASE_URL"] = BASE_URL
            return AnthropicChatGenerator(api_key=KEY, model=MODEL)


def run(**more):
    called.clear()
    agent = Agent(chat_generator=generator(), tools=[get_weather])
    return {"called": called, "text": agent.run(messages=[ChatMessage.from_user(SCENARIO["weather"])], **more)["last_message"].text}


def streamed():
    pieces = []
    return {**run(streaming_callback=pieces.append), "pieces": len(pieces)}


report({"tools": run, "tools_streamed": streamed})
