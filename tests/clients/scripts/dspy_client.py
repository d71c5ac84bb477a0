"""DSPy's ReAct, whose protocol is text in the prompt, or JSON where the text cannot be parsed."""

# pyright: basic, reportMissingImports=false
import dspy
from report import API_KEY, BASE_URL, MODEL, RESULTS, SCENARIO, SURFACE, report


def run():
    called = []

    def get_weather(city: str) -> str:
        """The weather in a city"""
        called.append({"name": "get_weather", "arguments": {"city": city}})
        return RESULTS["get_weather"]

    with dspy.context(lm=dspy.LM(f"{SURFACE}/{MODEL}", api_base=f"{BASE_URL}/v1", api_key=API_KEY, cache=False)):
        answer = dspy.ReAct("question -> answer", tools=[get_weather], max_iters=4)(question=SCENARIO["weather"])
    return {"called": called, "text": answer.answer}


report({"tools": run})
