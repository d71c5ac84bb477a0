"""Three callers of one model, each through the official SDK of its dialect, and what each of them was told."""

from collections.abc import Mapping
from typing import Any

import anthropic
import openai
from msgspec import Struct

HI: Any = [{"role": "user", "content": "Hello!"}]
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Heard(Struct):
    """`calls`: names and arguments. `guided`, `dropped`: of the headers."""

    text: str = ""
    thoughts: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    finish: str | None = None
    output_tokens: int | None = None
    guided: str | None = None
    dropped: str | None = None


class Chat:
    tools: Any = ({"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}},)

    def __init__(self, sdk: openai.AsyncOpenAI) -> None:
        self._sdk: Any = sdk

    def schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}

    async def ask(self, model: str, **more: Any) -> Heard:
        raw: Any = await self._sdk.chat.completions.with_raw_response.create(model=model, messages=HI, **more)
        answer = raw.parse()
        choice = answer.choices[0]
        calls = tuple((call.function.name, call.function.arguments) for call in choice.message.tool_calls or () if call.type == "function")
        thoughts = getattr(choice.message, "reasoning_content", None) or ""
        tokens = answer.usage.completion_tokens if answer.usage else None
        return Heard(choice.message.content or "", thoughts, calls, choice.finish_reason, tokens, *_told(raw.headers))

    async def stream(self, model: str, **more: Any) -> Heard:
        heard = Heard()
        names: dict[int, str] = {}
        written: dict[int, str] = {}
        stream = await self._sdk.chat.completions.create(
            model=model, messages=HI, stream=True, stream_options={"include_usage": True}, **more
        )
        async for chunk in stream:
            heard.output_tokens = chunk.usage.completion_tokens if chunk.usage else heard.output_tokens
            for choice in chunk.choices:
                heard.text += choice.delta.content or ""
                heard.thoughts += getattr(choice.delta, "reasoning_content", None) or ""
                heard.finish = choice.finish_reason or heard.finish
                for call in choice.delta.tool_calls or ():
                    assert call.function is not None
                    names[call.index] = names.get(call.index, "") + (call.function.name or "")
                    written[call.index] = written.get(call.index, "") + (call.function.arguments or "")
        heard.calls = tuple((names[at], written[at]) for at in sorted(names))
        heard.guided, heard.dropped = _told(stream.response.headers)
        return heard


class Responses:
    tools: Any = ({"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False},)

    def __init__(self, sdk: openai.AsyncOpenAI) -> None:
        self._sdk: Any = sdk

    def schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"text": {"format": {"type": "json_schema", "name": "answer", "schema": schema}}}

    async def ask(self, model: str, **more: Any) -> Heard:
        raw: Any = await self._sdk.responses.with_raw_response.create(model=model, input=HI, **more)
        return _responded(raw.parse(), raw.headers)

    async def stream(self, model: str, **more: Any) -> Heard:
        stream = await self._sdk.responses.create(model=model, input=HI, stream=True, **more)
        last: Any = None
        async for event in stream:
            last = event
            if event.type in ("error", "response.failed"):
                raise AssertionError(event)
        return _responded(last.response, stream.response.headers)


def _responded(answer: Any, headers: Any) -> Heard:
    thoughts = "".join(
        part.text for item in answer.output if item.type == "reasoning" for part in (*(item.content or ()), *(item.summary or ()))
    )
    calls = tuple((item.name, item.arguments) for item in answer.output if item.type == "function_call")
    finish = "tool_calls" if calls else "stop" if answer.status == "completed" else answer.status
    return Heard(answer.output_text, thoughts, calls, finish, answer.usage.output_tokens if answer.usage else None, *_told(headers))


class Messages:
    tools: Any = ({"name": "weather", "input_schema": PARAMETERS},)

    def __init__(self, sdk: anthropic.AsyncAnthropic) -> None:
        self._sdk: Any = sdk

    def schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"extra_body": {"output_config": {"format": {"type": "json_schema", "schema": schema}}}}

    async def ask(self, model: str, **more: Any) -> Heard:
        raw: Any = await self._sdk.messages.with_raw_response.create(model=model, max_tokens=100, messages=HI, **more)
        return _messaged(await raw.parse(), raw.headers)

    async def stream(self, model: str, **more: Any) -> Heard:
        async with self._sdk.messages.stream(model=model, max_tokens=100, messages=HI, **more) as stream:
            return _messaged(await stream.get_final_message(), stream.response.headers)


_FINISHES = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "stop_sequence": "stop"}


def _messaged(answer: Any, headers: Any) -> Heard:
    text = "".join(block.text for block in answer.content if isinstance(block, anthropic.types.TextBlock))
    thoughts = "".join(block.thinking for block in answer.content if isinstance(block, anthropic.types.ThinkingBlock))
    calls = tuple((block.name, _json(block.input)) for block in answer.content if isinstance(block, anthropic.types.ToolUseBlock))
    return Heard(text, thoughts, calls, _FINISHES[answer.stop_reason], answer.usage.output_tokens, *_told(headers))


def _json(said: Any) -> str:
    return "{" + ", ".join(f'"{key}": "{value}"' for key, value in said.items()) + "}"


def _told(headers: Mapping[str, str]) -> tuple[str | None, str | None]:
    return headers.get("x-narthex-guided"), headers.get("x-narthex-dropped")


Caller = Chat | Responses | Messages
