"""A LangGraph of a model and its tools, with LangChain's model class for the API that SURFACE names."""

# pyright: basic, reportMissingImports=false
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from report import API_KEY, BASE_URL, MODEL, RESULTS, SCENARIO, SURFACE, report

called = []


def get_weather(city: str) -> str:
    """The weather in a city"""
    called.append({"name": "get_weather", "arguments": {"city": city}})
    return RESULTS["get_weather"]


def agent():
    called.clear()
    if SURFACE == "anthropic":
        model = ChatAnthropic(model_name=MODEL, base_url=BASE_URL, api_key=API_KEY)
    else:
        root, by_responses = f"{BASE_URL}/v1", SURFACE == "openai_responses"
        model = ChatOpenAI(model=MODEL, base_url=root, api_key=API_KEY, use_responses_api=by_responses, stream_usage=True)
    with_tools = model.bind_tools([get_weather])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [with_tools.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([get_weather]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


QUESTION = {"messages": [("user", SCENARIO["weather"])]}


def result(messages):
    counts = [message.usage_metadata for message in messages if getattr(message, "usage_metadata", None)]
    usage = {side: sum(each[f"{side}_tokens"] for each in counts) for side in ("input", "output")}
    return {"called": called, "text": messages[-1].text, "usage": usage}


def tools():
    return result(agent().invoke(QUESTION)["messages"])


def tools_streamed():
    pieces, last = 0, None
    for mode, part in agent().stream(QUESTION, stream_mode=["messages", "values"]):
        if mode == "values":
            last = part["messages"]
        else:
            pieces += 1
    return {**result(last), "pieces": pieces}


report({"tools": tools, "tools_streamed": tools_streamed})
