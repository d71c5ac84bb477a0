"""langchain-openai and langchain-anthropic, on the API that SURFACE names."""

# pyright: basic, reportMissingImports=false
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from report import (
    API_KEY,
    BASE_URL,
    EMBEDDING_MODEL,
    MODEL,
    PICTURE,
    RESULTS,
    SCENARIO,
    SLOW_MODEL,
    SURFACE,
    Person,
    provoked_errors,
    report,
)


def client(model=MODEL, key=API_KEY, thinking=False, **more):
    if SURFACE == "anthropic":
        thinking_options = {"thinking": {"type": "enabled", "budget_tokens": 1024}} if thinking else {}
        return ChatAnthropic(model=model, base_url=BASE_URL, api_key=key, max_tokens=4000, max_retries=0, **thinking_options, **more)
    common = {"model": model, "base_url": f"{BASE_URL}/v1", "api_key": key, "max_retries": 0, **more}
    if SURFACE.startswith("openai_responses"):
        thinking_options = {"reasoning": {"effort": "low", "summary": "auto"}}
        if SURFACE == "openai_responses":
            thinking_options |= {"include": ["reasoning.encrypted_content"], "store": False}
        return ChatOpenAI(use_responses_api=True, output_version="responses/v1", **common, **(thinking_options if thinking else {}))
    return ChatOpenAI(use_responses_api=False, stream_usage=True, **common, **({"reasoning_effort": "low"} if thinking else {}))


@tool
def get_weather(city: str) -> str:
    """The weather in a city"""
    return RESULTS["get_weather"]


@tool
def get_time(city: str) -> str:
    """The time in a city"""
    return RESULTS["get_time"]


def unstreamed(llm, messages):
    return llm.invoke(messages)


def streamed(llm, messages):
    answer = None
    for chunk in llm.stream(messages):
        answer = chunk if answer is None else answer + chunk
    return answer


def usage(answer):
    counts = answer.usage_metadata or {}
    return {"input": counts.get("input_tokens"), "output": counts.get("output_tokens")}


def finish(answer):
    metadata = answer.response_metadata
    return metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("status")


def reasoning_text(answer):
    """The reasoning in langchain's own content blocks; it does not read `reasoning_content` of chat engines."""
    return "".join(block.get("reasoning", "") for block in answer.content_blocks if block["type"] == "reasoning")


def text():
    answer = client().invoke([SystemMessage(SCENARIO["system"]), HumanMessage(SCENARIO["hello"])])
    return {"text": str(answer.text), "finish": finish(answer), "usage": usage(answer)}


def stream():
    answer, pieces = None, 0
    for chunk in client().stream(SCENARIO["hello"]):
        pieces += bool(str(chunk.text))
        answer = chunk if answer is None else answer + chunk
    assert answer is not None
    return {"text": str(answer.text), "finish": finish(answer), "usage": usage(answer), "pieces": pieces}


def tool_loop(complete, question, tools, thinking=False):
    called, reasoning = [], ""
    llm = client(thinking=thinking).bind_tools(tools)
    messages: list[BaseMessage] = [HumanMessage(question)]
    for _ in range(4):
        answer = complete(llm, messages)
        reasoning += reasoning_text(answer)
        messages.append(answer)
        if not answer.tool_calls:
            return {"called": called, "text": str(answer.text), "usage": usage(answer), "reasoning": reasoning}
        for call in answer.tool_calls:
            called.append({"name": call["name"], "arguments": call["args"]})
            messages.append(ToolMessage(RESULTS[call["name"]], tool_call_id=call["id"]))
    raise AssertionError("the loop did not end")


def thinking(complete):
    llm = client(thinking=True)
    first = complete(llm, [HumanMessage(SCENARIO["think"])])
    second = complete(llm, [HumanMessage(SCENARIO["think"]), first, HumanMessage(SCENARIO["again"])])
    return {"reasoning": reasoning_text(first), "text": str(first.text), "again": str(second.text)}


def structured(complete, method):
    answer = complete(client().with_structured_output(Person, method=method), SCENARIO["person"])
    return answer.model_dump()


def last_partial(llm, messages):
    *_, answer = llm.stream(messages)
    return answer


def image():
    content = [{"type": "text", "text": SCENARIO["picture"]}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    return {"text": str(client().invoke([HumanMessage(content)]).text)}


def embeddings():
    client = OpenAIEmbeddings(model=EMBEDDING_MODEL, base_url=f"{BASE_URL}/v1", api_key=API_KEY, check_embedding_ctx_length=False)
    return {"lengths": [len(each) for each in client.embed_documents(["one", "two"])], "input": None}


def structured_request(schema=Person, **fields):
    return client(**fields).with_structured_output(schema, method="json_schema").invoke(SCENARIO["person"])


def abort():
    pieces = 0
    stream = client(SLOW_MODEL).stream(SCENARIO["long"])
    for chunk in stream:
        pieces += bool(str(chunk.text))
        if pieces == 2:
            stream.close()
            break
    return {"pieces": pieces}


invalid_schema = {**Person.model_json_schema(), "properties": {"name": {"type": "strange"}}}
bad_request = {"output_config": {"effort": "strange"}} if SURFACE == "anthropic" else {"schema": invalid_schema}

report(
    {
        "text": text,
        "stream": stream,
        "tools": lambda: tool_loop(unstreamed, SCENARIO["weather"], [get_weather]),
        "tools_streamed": lambda: tool_loop(streamed, SCENARIO["weather"], [get_weather]),
        "parallel": lambda: tool_loop(unstreamed, SCENARIO["weather_and_time"], [get_weather, get_time]),
        "parallel_streamed": lambda: tool_loop(streamed, SCENARIO["weather_and_time"], [get_weather, get_time]),
        "structured": lambda: structured(unstreamed, "json_schema"),
        "structured_streamed": lambda: structured(last_partial, "json_schema"),
        "structured_by_tool": lambda: structured(unstreamed, "function_calling"),
        "reasoning": lambda: thinking(unstreamed),
        "reasoning_streamed": lambda: thinking(streamed),
        "reasoning_over_tools": lambda: tool_loop(unstreamed, SCENARIO["weather"], [get_weather], True),
        "reasoning_over_tools_streamed": lambda: tool_loop(streamed, SCENARIO["weather"], [get_weather], True),
        "image": image,
        "errors": lambda: provoked_errors(structured_request, **bad_request),
        **({} if SURFACE == "anthropic" else {"embeddings": embeddings}),
        "abort": abort,
    }
)
