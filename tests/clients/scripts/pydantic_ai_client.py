"""pydantic-ai, on the API that SURFACE names."""

# pyright: basic, reportMissingImports=false
import asyncio

from pydantic_ai import Agent, BinaryContent, NativeOutput
from pydantic_ai.messages import ModelResponse, ThinkingPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from report import API_KEY, BASE_URL, DESCRIPTIONS, MODEL, RESULTS, SCENARIO, SLOW_MODEL, SURFACE, Person, provoked_errors, report

THINKING = {
    "openai_chat": {"openai_reasoning_effort": "low"},
    "openai_responses": {"openai_reasoning_effort": "low", "openai_reasoning_summary": "auto"},
    "anthropic": {"anthropic_thinking": {"type": "enabled", "budget_tokens": 1024}},
}[SURFACE]
# By their names it would assume that the gateway's models support neither.
PROFILE = {"supports_json_schema_output": True, "openai_supports_encrypted_reasoning_content": True}


def model(name=MODEL, key=API_KEY):
    if SURFACE == "anthropic":
        return AnthropicModel(name, provider=AnthropicProvider(base_url=BASE_URL, api_key=key), profile=PROFILE)
    kind = OpenAIResponsesModel if SURFACE == "openai_responses" else OpenAIChatModel
    return kind(name, provider=OpenAIProvider(base_url=f"{BASE_URL}/v1", api_key=key), profile=PROFILE)


def agent(thinking=False, name=MODEL, key=API_KEY, **more):
    return Agent(model(name, key), model_settings={"max_tokens": 4000, **(THINKING if thinking else {})}, retries=0, **more)


def unstreamed(agent, prompt, **more):
    result = agent.run_sync(prompt, **more)
    return result.output, result


def streamed(agent, prompt, **more):
    async def run():
        async with agent.run_stream(prompt, **more) as stream:
            output = await stream.get_output()
            return output, stream

    return asyncio.run(run())


def usage(result):
    counts = result.usage
    return {"input": counts.input_tokens, "output": counts.output_tokens}


def finish(result):
    return result.all_messages()[-1].finish_reason


def reasoning_text(result):
    answers = [message for message in result.all_messages() if isinstance(message, ModelResponse)]
    return "".join(part.content for answer in answers for part in answer.parts if isinstance(part, ThinkingPart))


def text():
    output, result = unstreamed(agent(system_prompt=SCENARIO["system"]), SCENARIO["hello"])
    return {"text": output, "finish": finish(result), "usage": usage(result)}


def stream():
    async def run():
        pieces = 0
        async with agent().run_stream(SCENARIO["hello"]) as stream:
            content = ""
            async for delta in stream.stream_text(delta=True, debounce_by=None):
                pieces += bool(delta)
                content += delta
            return {"text": content, "finish": finish(stream), "usage": usage(stream), "pieces": pieces}

    return asyncio.run(run())


def tool_loop(complete, question, names, thinking=False):
    called = []

    def tool_function(name):
        def run(city: str) -> str:
            called.append({"name": name, "arguments": {"city": city}})
            return RESULTS[name]

        return run

    tool_agent = agent(thinking)
    for name in names:
        tool_agent.tool_plain(name=name, description=DESCRIPTIONS[name])(tool_function(name))
    output, result = complete(tool_agent, question)
    return {"called": called, "text": output, "usage": usage(result), "reasoning": reasoning_text(result)}


def thinking(complete):
    first, result = complete(agent(True), SCENARIO["think"])
    second, _ = complete(agent(True), SCENARIO["again"], message_history=result.all_messages())
    return {"reasoning": reasoning_text(result), "text": first, "again": second}


def image():
    picture = BinaryContent.from_data_uri(f"data:image/png;base64,{SCENARIO['png']}")
    return {"text": unstreamed(agent(), [SCENARIO["picture"], picture])[0]}


def failing_request(model=MODEL, key=API_KEY, **settings):
    return agent(name=model, key=key).run_sync(SCENARIO["hello"], model_settings=settings or None)


def abort():
    async def run():
        pieces = 0
        async with agent(name=SLOW_MODEL).run_stream(SCENARIO["long"]) as stream:
            async for delta in stream.stream_text(delta=True, debounce_by=None):
                pieces += bool(delta)
                if pieces == 2:
                    break
            await stream.cancel()
        return {"pieces": pieces}

    return asyncio.run(run())


report(
    {
        "text": text,
        "stream": stream,
        "tools": lambda: tool_loop(unstreamed, SCENARIO["weather"], ["get_weather"]),
        "tools_streamed": lambda: tool_loop(streamed, SCENARIO["weather"], ["get_weather"]),
        "parallel": lambda: tool_loop(unstreamed, SCENARIO["weather_and_time"], ["get_weather", "get_time"]),
        "parallel_streamed": lambda: tool_loop(streamed, SCENARIO["weather_and_time"], ["get_weather", "get_time"]),
        "structured": lambda: unstreamed(agent(output_type=NativeOutput(Person)), SCENARIO["person"])[0].model_dump(),
        "structured_streamed": lambda: streamed(agent(output_type=NativeOutput(Person)), SCENARIO["person"])[0].model_dump(),
        "structured_by_tool": lambda: unstreamed(agent(output_type=Person), SCENARIO["person"])[0].model_dump(),
        "reasoning": lambda: thinking(unstreamed),
        "reasoning_streamed": lambda: thinking(streamed),
        "reasoning_over_tools": lambda: tool_loop(unstreamed, SCENARIO["weather"], ["get_weather"], True),
        "reasoning_over_tools_streamed": lambda: tool_loop(streamed, SCENARIO["weather"], ["get_weather"], True),
        "image": image,
        "errors": lambda: provoked_errors(failing_request, temperature="hot"),
        "abort": abort,
    }
)
