"""CrewAI: a crew of one agent with one task."""

# pyright: basic, reportMissingImports=false
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from report import API_KEY, BASE_URL, MODEL, RESULTS, SCENARIO, SURFACE, report

called = []


@tool("get_weather")
def get_weather(city: str) -> str:
    """The weather in a city"""
    called.append({"name": "get_weather", "arguments": {"city": city}})
    return RESULTS["get_weather"]


def run(streaming):
    called.clear()
    root = BASE_URL if SURFACE == "anthropic" else f"{BASE_URL}/v1"
    model = LLM(model=MODEL, provider=SURFACE, base_url=root, api_key=API_KEY, stream=streaming)
    agent = Agent(role="Reporter", goal="Report the weather", backstory="You are brief.", llm=model, tools=[get_weather])
    task = Task(description=SCENARIO["weather"], expected_output="One sentence", agent=agent)
    result = Crew(agents=[agent], tasks=[task], tracing=False).kickoff()
    usage = {"input": result.token_usage.prompt_tokens, "output": result.token_usage.completion_tokens}
    return {"called": called, "text": result.raw, "usage": usage}


report({"tools": lambda: run(False), "tools_streamed": lambda: run(True)})
