"""Callers of one model through the official SDKs of three dialects, which return responses in one form."""

from collections.abc import Mapping
from typing import Any

import anthropic
import openai
from msgspec import Struct

HI: Any = [{"role": "user", "content": "Hello!"}]
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class SdkResponse(Struct):
    """A response as an official SDK gives it."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()  # names and arguments
    finish: str | None = None
    output_tokens: int | None = None
    guided: str | None = None  # the x-narthex header of this name, as is `dropped`
    dropped: str | None = None


class ChatCaller:
    tools: Any = ({"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}},)

    def __init__(self, sdk: openai.AsyncOpenAI) -> None:
        self._sdk: Any = sdk

    def schema_fields(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}

    async def create(self, model: str, **more: Any) -> SdkResponse:
        raw: Any = await self._sdk.chat.completions.with_raw_response.create(model=model, messages=HI, **more)
        answer = raw.parse()
        choice = answer.choices[0]
        calls = tuple((call.function.name, call.function.arguments) for call in choice.message.tool_calls or () if call.type == "function")
        reasoning = getattr(choice.message, "reasoning_content", None) or ""
        tokens = answer.usage.completion_tokens if answer.usage else None
        return SdkResponse(choice.message.content or "", reasoning, calls, choice.finish_reason, tokens, *_narthex_headers(raw.headers))

    async def stream(self, model: str, **more: Any) -> SdkResponse:
        response = SdkResponse()
        names: dict[int, str] = {}
        arguments: dict[int, str] = {}
        stream = await self._sdk.chat.completions.create(
            model=model, messages=HI, stream=True, stream_options={"include_usage": True}, **more
        )
        async for chunk in stream:
            response.output_tokens = chunk.usage.completion_tokens if chunk.usage else response.output_tokens
            for choice in chunk.choices:
                response.text += choice.delta.content or ""
                response.reasoning += getattr(choice.delta, "reasoning_content", None) or ""
                response.finish = choice.finish_reason or response.finish
                for call in choice.delta.tool_calls or ():
                    assert call.function is not None
                    names[call.index] = names.get(call.index, "") + (call.function.name or "")
                    arguments[call.index] = arguments.get(call.index, "") + (call.function.arguments or "")
        response.calls = tuple((names[index], arguments[index]) for index in sorted(names))
        response.guided, response.dropped = _narthex_headers(stream.response.headers)
        return response


class ResponsesCaller:
    tools: Any = ({"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False},)

    def __init__(self, sdk: openai.AsyncOpenAI) -> None:
        self._sdk: Any = sdk

    def schema_fields(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"text": {"format": {"type": "json_schema", "name": "answer", "schema": schema}}}

    async def create(self, model: str, **more: Any) -> SdkResponse:
        raw: Any = await self._sdk.responses.with_raw_response.create(model=model, input=HI, **more)
        return _read_response(raw.parse(), raw.headers)

    async def stream(self, model: str, **more: Any) -> SdkResponse:
        stream = await self._sdk.responses.create(model=model, input=HI, stream=True, **more)
        last: Any = None
        async for event in stream:
            last = event
            if event.type in ("error", "response.failed"):
                raise AssertionError(event)
        return _read_response(last.response, stream.response.headers)


def _read_response(answer: Any, headers: Any) -> SdkResponse:
    reasoning = "".join(
        part.text for item in answer.output if item.type == "reasoning" for part in (*(item.content or ()), *(item.summary or ()))
    )
    calls = tuple((item.name, item.arguments) for item in answer.output if item.type == "function_call")
    finish = "tool_calls" if calls else "stop" if answer.status == "completed" else answer.status
    return SdkResponse(
        answer.output_text, reasoning, calls, finish, answer.usage.output_tokens if answer.usage else None, *_narthex_headers(headers)
    )


class MessagesCaller:
    tools: Any = ({"name": "weather", "input_schema": PARAMETERS},)

    def __init__(self, sdk: anthropic.AsyncAnthropic) -> None:
        self._sdk: Any = sdk

    def schema_fields(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"extra_body": {"output_config": {"format": {"type": "json_schema", "schema": schema}}}}

    async def create(self, model: str, **more: Any) -> SdkResponse:
        raw: Any = await self._sdk.messages.with_raw_response.create(model=model, max_tokens=100, messages=HI, **more)
        return _read_message(await raw.parse(), raw.headers)

    async def stream(self, model: str, **more: Any) -> SdkResponse:
        async with self._sdk.messages.stream(model=model, max_tokens=100, messages=HI, **more) as stream:
            return _read_message(await stream.get_final_message(), stream.response.headers)


_FINISHES = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "stop_sequence": "stop"}


def _read_message(answer: Any, headers: Any) -> SdkResponse:
    text = "".join(block.text for block in answer.content if isinstance(block, anthropic.types.TextBlock))
    reasoning = "".join(block.thinking for block in answer.content if isinstance(block, anthropic.types.ThinkingBlock))
    calls = tuple((block.name, _json(block.input)) for block in answer.content if isinstance(block, anthropic.types.ToolUseBlock))
    return SdkResponse(text, reasoning, calls, _FINISHES[answer.stop_reason], answer.usage.output_tokens, *_narthex_headers(headers))


def _json(arguments: Any) -> str:
    return "{" + ", ".join(f'"{key}": "{value}"' for key, value in arguments.items()) + "}"


def _narthex_headers(headers: Mapping[str, str]) -> tuple[str | None, str | None]:
    return headers.get("x-narthex-guided"), headers.get("x-narthex-dropped")


Caller = ChatCaller | ResponsesCaller | MessagesCaller
