"""smolagents' agent that calls tools. It ends with a call of its tool `final_answer`, and requires a call in each turn."""

# pyright: basic, reportMissingImports=false
from report import API_KEY, BASE_URL, MODEL, RESULTS, SCENARIO, report
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

called = []


@tool
def get_weather(city: str) -> str:
    """The weather in a city

    Args:
        city: The city
    """
    called.append({"name": "get_weather", "arguments": {"city": city}})
    return RESULTS["get_weather"]


def run(streaming):
    called.clear()
    model = OpenAIServerModel(MODEL, api_base=f"{BASE_URL}/v1", api_key=API_KEY)
    agent = ToolCallingAgent([get_weather], model, stream_outputs=streaming, verbosity_level=0, max_steps=4)
    result = agent.run(SCENARIO["weather"], return_full_result=True)
    assert result.state == "success", result
    usage = {"input": result.token_usage.input_tokens, "output": result.token_usage.output_tokens}
    return {"called": called, "text": str(result.output), "usage": usage}


report({"tools": lambda: run(False), "tools_streamed": lambda: run(True)})
