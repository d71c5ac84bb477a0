"""litellm as a library, with the provider that SURFACE names."""

# pyright: basic, reportMissingImports=false
import asyncio
import gc
import json

import litellm
from report import (
    API_KEY,
    BASE_URL,
    DESCRIPTIONS,
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

ROOT = BASE_URL if SURFACE == "anthropic" else f"{BASE_URL}/v1"
THINKING = (
    {"thinking": {"type": "enabled", "budget_tokens": 1024}, "allowed_openai_params": ["thinking"]}
    if SURFACE == "anthropic"
    else {"reasoning_effort": "low", "allowed_openai_params": ["reasoning_effort"]}
)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


litellm.suppress_debug_info = True
# LiteLLM leaves streams to the garbage collector. If that runs while the thread is in httpcore's pool, closing them waits for a lock which
# the same thread holds, for ever.
gc.disable()


def completion(messages, model=MODEL, key=API_KEY, **more):
    return litellm.completion(
        model=f"{SURFACE}/{model}", api_base=ROOT, api_key=key, messages=messages, max_tokens=4000, num_retries=0, max_retries=0, **more
    )


def user_messages(content):
    return [{"role": "user", "content": content}]


def tool_definitions(names):
    return [{"type": "function", "function": {"name": name, "description": DESCRIPTIONS[name], "parameters": PARAMETERS}} for name in names]


def unstreamed(messages, **more):
    return completion(messages, **more)


def streamed(messages, **more):
    chunks = list(completion(messages, stream=True, stream_options={"include_usage": True}, **more))
    return litellm.stream_chunk_builder(chunks, messages=messages)


def usage(answer):
    return {"input": answer.usage.prompt_tokens, "output": answer.usage.completion_tokens}


def text():
    answer = unstreamed([{"role": "system", "content": SCENARIO["system"]}, *user_messages(SCENARIO["hello"])])
    return {"text": answer.choices[0].message.content, "finish": answer.choices[0].finish_reason, "usage": usage(answer)}


def stream():
    pieces, finish, content, counts = 0, None, "", {}
    for chunk in completion(user_messages(SCENARIO["hello"]), stream=True, stream_options={"include_usage": True}):
        if chunk.choices:
            content += chunk.choices[0].delta.content or ""
            pieces += bool(chunk.choices[0].delta.content)
            finish = chunk.choices[0].finish_reason or finish
        if getattr(chunk, "usage", None):
            counts = usage(chunk)
    return {"text": content, "finish": finish, "usage": counts, "pieces": pieces}


def tool_loop(complete, question, names, **more):
    called, reasoning, messages = [], "", user_messages(question)
    for _ in range(4):
        answer = complete(messages, tools=tool_definitions(names), **more)
        message = answer.choices[0].message
        reasoning += getattr(message, "reasoning_content", None) or ""
        messages.append(message)
        if not message.tool_calls:
            return {"called": called, "text": message.content, "usage": usage(answer), "reasoning": reasoning}
        for call in message.tool_calls:
            called.append({"name": call.function.name, "arguments": json.loads(call.function.arguments)})
            messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.function.name]})
    raise AssertionError("the loop did not end")


def thinking(complete):
    first = complete(user_messages(SCENARIO["think"]), **THINKING).choices[0].message
    second = complete([*user_messages(SCENARIO["think"]), first, *user_messages(SCENARIO["again"])], **THINKING).choices[0].message
    return {"reasoning": getattr(first, "reasoning_content", None) or "", "text": first.content, "again": second.content}


def structured(complete):
    return json.loads(complete(user_messages(SCENARIO["person"]), response_format=Person).choices[0].message.content)


def image():
    content = [{"type": "text", "text": SCENARIO["picture"]}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    return {"text": unstreamed(user_messages(content)).choices[0].message.content}


def embeddings():
    answer = litellm.embedding(model=f"openai/{EMBEDDING_MODEL}", api_base=ROOT, api_key=API_KEY, input=["one", "two"])
    return {"lengths": [len(each["embedding"]) for each in answer.data], "input": answer.usage.prompt_tokens}


def responses():
    answer = litellm.responses(model=f"openai/{MODEL}", api_base=ROOT, api_key=API_KEY, input=SCENARIO["hello"])
    output_text = "".join(part.text for item in answer.output if item.type == "message" for part in item.content)
    return {"text": output_text, "usage": {"input": answer.usage.input_tokens, "output": answer.usage.output_tokens}}


def abort():
    async def run():
        pieces = 0
        stream = await litellm.acompletion(
            model=f"{SURFACE}/{SLOW_MODEL}", api_base=ROOT, api_key=API_KEY, messages=user_messages(SCENARIO["long"]), stream=True
        )
        async for chunk in stream:
            pieces += bool(chunk.choices[0].delta.content)
            if pieces == 2:
                break
        await stream.aclose()
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
        "structured": lambda: structured(unstreamed),
        "structured_streamed": lambda: structured(streamed),
        "reasoning": lambda: thinking(unstreamed),
        "reasoning_streamed": lambda: thinking(streamed),
        "reasoning_over_tools": lambda: tool_loop(unstreamed, SCENARIO["weather"], ["get_weather"], **THINKING),
        "reasoning_over_tools_streamed": lambda: tool_loop(streamed, SCENARIO["weather"], ["get_weather"], **THINKING),
        "image": image,
        "errors": lambda: provoked_errors(lambda **fields: completion(user_messages(SCENARIO["hello"]), **fields), temperature="hot"),
        **({"embeddings": embeddings, "responses": responses} if SURFACE == "openai" else {}),
        "abort": abort,
    }
)
