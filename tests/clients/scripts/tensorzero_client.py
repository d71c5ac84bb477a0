"""TensorZero's client over HTTP: SURFACE names its synchronous or its asynchronous one, which make the same calls."""

# pyright: basic, reportMissingImports=false
import asyncio
import json
import os
import sys

from report import API_KEY, BASE_URL, MODEL, RESULTS, SCENARIO, SURFACE, report
from tensorzero import AsyncTensorZeroGateway, TensorZeroError, TensorZeroGateway, ToolResult

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
}
OF_MODEL = {"model_name": MODEL}
OF_FUNCTION = {"function_name": "tzc-greet"}


class Synchronous:
    def __init__(self, key=API_KEY):
        self._client = TensorZeroGateway.build_http(gateway_url=BASE_URL, api_key=key)

    def inference(self, **fields):
        return self._client.inference(**fields)

    def chunks(self, **fields):
        return list(self._client.inference(stream=True, **fields))

    def feedback(self, **fields):
        return self._client.feedback(**fields)


class Asynchronous:
    """Each call has an event loop of its own."""

    def __init__(self, key=API_KEY):
        self._key = key

    def _run(self, call):
        async def with_client():
            async with await AsyncTensorZeroGateway.build_http(gateway_url=BASE_URL, api_key=self._key) as client:
                return await call(client)

        return asyncio.run(with_client())

    def inference(self, **fields):
        return self._run(lambda client: client.inference(**fields))

    def chunks(self, **fields):
        async def read(client):
            return [chunk async for chunk in await client.inference(stream=True, **fields)]

        return self._run(read)

    def feedback(self, **fields):
        return self._run(lambda client: client.feedback(**fields))


Gateway = {"sync": Synchronous, "async": Asynchronous}[SURFACE]
gateway = Gateway()


def user(content, **more):
    return {"messages": [{"role": "user", "content": content}], **more}


def described(response):
    """Returns what whole responses and chunks have in common."""
    return {
        "class": type(response).__name__,
        "inference": str(response.inference_id),
        "episode": str(response.episode_id),
        "variant": response.variant_name,
        "finish": response.finish_reason and response.finish_reason.value,
        "usage": response.usage and {"input": response.usage.input_tokens, "output": response.usage.output_tokens},
        "cost": response.usage and response.usage.cost,
    }


def chat(**fields):
    response = gateway.inference(**fields)
    return {**described(response), "text": "".join(block.text for block in response.content if block.type == "text")}


def chat_streamed(**fields):
    chunks = gateway.chunks(**fields)
    texts = [block.text for chunk in chunks for block in chunk.content if block.type == "text"]
    assert len({(chunk.inference_id, chunk.episode_id, chunk.variant_name) for chunk in chunks}) == 1
    return {**described(chunks[-1]), "text": "".join(texts), "pieces": len(texts)}


def function(call, name="Ada", **fields):
    return call(**OF_FUNCTION, input=user(SCENARIO["hello"], system={"name": name}), **fields)


def tools(**fields):
    """The response is sent back as the client has it, with the result of its call."""
    question = {"role": "user", "content": SCENARIO["weather"]}
    first = gateway.inference(**fields, input={"messages": [question]})
    [call] = [block for block in first.content if block.type == "tool_call"]
    result = ToolResult(name=call.name, id=call.id, result=RESULTS[call.name])
    turns = [question, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    last = chat(**fields, input={"messages": turns}, episode_id=first.episode_id)
    return {**last, "called": [call.raw_name, call.arguments, json.loads(call.raw_arguments)], "first": described(first)}


def tools_streamed(**fields):
    chunks = gateway.chunks(**fields, input=user(SCENARIO["weather"]))
    calls = [block for chunk in chunks for block in chunk.content if block.type == "tool_call"]
    names, arguments = ("".join(getattr(call, field) for call in calls) for field in ("raw_name", "raw_arguments"))
    return {**described(chunks[-1]), "called": [names, json.loads(arguments)], "ids": sorted({call.id for call in calls})}


def person(**fields):
    response = gateway.inference(**fields, input=user(SCENARIO["person"]))
    return {**described(response), "raw": response.output.raw, "parsed": response.output.parsed}


def person_streamed(**fields):
    chunks = gateway.chunks(**fields, input=user(SCENARIO["person"]))
    return {**described(chunks[-1]), "parsed": json.loads("".join(chunk.raw for chunk in chunks))}


def options():
    return function(
        chat,
        params={"chat_completion": {"temperature": 0.25, "max_tokens": 77}},
        tags={"team": "search"},
        namespace="eu",
        extra_body=[{"variant_name": "terse", "pointer": "/top_k", "value": 5}],
        extra_headers=[{"variant_name": "terse", "name": "x-trace", "value": "on"}],
        cache_options={"enabled": "off"},
        credentials={},
        internal=False,
        dryrun=False,
    )


def episode():
    first = function(chat)
    second = function(chat, name="Bob", episode_id=first["episode"])
    return {"first": first, "second": second}


def feedback():
    """Sends feedback, and returns what was sent by the id under which it was accepted."""
    asked = function(chat)
    chosen = person(function_name="tzc-person")
    inference, whole_episode = {"inference_id": asked["inference"]}, {"episode_id": asked["episode"]}
    blocks = [{"type": "text", "text": "Good morning."}]
    sent = [
        {"metric_name": "tzc-helpful", "value": True, **inference},
        {"metric_name": "tzc-helpful", "value": False, **inference, "tags": {"rater": "Ada"}},
        {"metric_name": "tzc-score", "value": 0.75, **whole_episode},
        {"metric_name": "comment", "value": "Just what I needed.", **inference},
        {"metric_name": "comment", "value": "A good talk.", **whole_episode},
        {"metric_name": "demonstration", "value": blocks, **inference},
        {"metric_name": "demonstration", "value": {"name": "Ada", "age": 37}, "inference_id": chosen["inference"]},
    ]
    ids = [str(gateway.feedback(**each).feedback_id) for each in sent]
    gateway.feedback(metric_name="tzc-helpful", value=True, dryrun=True, **inference)
    return {"sent": dict(zip(ids, sent, strict=True)), "inference": asked["inference"]}


def errors():
    hello = {"input": user(SCENARIO["hello"])}
    of_function = {**OF_FUNCTION, "input": user(SCENARIO["hello"], system={"name": "Ada"})}
    nothing = {"inference_id": "019ed000-0000-7000-8000-000000000000"}
    provoked = {
        "unknown_function": lambda: gateway.inference(function_name="tzc-none", **hello),
        "unknown_function_streamed": lambda: gateway.chunks(function_name="tzc-none", **hello),
        "unknown_model": lambda: gateway.inference(model_name="tzc-none", **hello),
        "unknown_variant": lambda: gateway.inference(**of_function, variant_name="tzc-none"),
        "wrong_system": lambda: gateway.inference(**OF_FUNCTION, input=user(SCENARIO["hello"], system={"nickname": "Ada"})),
        "unknown_tool": lambda: gateway.inference(**of_function, allowed_tools=["tzc-none"]),
        "unknown_metric": lambda: gateway.feedback(metric_name="tzc-none", value=True, **nothing),
        "wrong_value": lambda: gateway.feedback(metric_name="tzc-helpful", value="yes", **nothing),
        "wrong_level": lambda: gateway.feedback(metric_name="tzc-score", value=0.5, **nothing),
        "bad_key": lambda: Gateway("nx-wrong").inference(**OF_MODEL, **hello),
        "broken": lambda: gateway.inference(model_name="tzc-broken", **hello),
    }
    seen = {}
    for name, call in provoked.items():
        try:
            seen[name] = [None, str(call())]
        except TensorZeroError as error:
            seen[name] = [error.status_code, json.loads(error.text)["error"]]
    return seen


HELLO = user(SCENARIO["hello"], system=SCENARIO["system"])
OWN_TOOLS = {**OF_MODEL, "additional_tools": [WEATHER]}
report(
    {
        "model": lambda: chat(**OF_MODEL, input=HELLO),
        "model_streamed": lambda: chat_streamed(**OF_MODEL, input=HELLO),
        "model_tools": lambda: tools(**OWN_TOOLS),
        "model_tools_streamed": lambda: tools_streamed(**OWN_TOOLS),
        "model_json": lambda: person(**OF_MODEL, output_schema=PERSON),
        "model_json_streamed": lambda: person_streamed(**OF_MODEL, output_schema=PERSON),
        "function": lambda: function(chat),
        "function_streamed": lambda: function(chat_streamed),
        "function_tools": lambda: tools(function_name="tzc-weather"),
        "function_tools_streamed": lambda: tools_streamed(function_name="tzc-weather"),
        "function_json": lambda: person(function_name="tzc-person"),
        "function_json_streamed": lambda: person_streamed(function_name="tzc-person"),
        "pinned": lambda: function(chat, variant_name="wordy"),
        "pinned_streamed": lambda: function(chat_streamed, variant_name="wordy"),
        "options": options,
        "episode": episode,
        "feedback": feedback,
        "errors": errors,
    }
)
sys.stdout.flush()
# The client's threads outlive its event loops, and one that still runs while Python ends aborts the process ("PyGILState_Release").
os._exit(0)
