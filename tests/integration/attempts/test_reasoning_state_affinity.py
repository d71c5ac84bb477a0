"""Encrypted reasoning and signatures of thoughts return to the provider that made them; any other gets the request without them."""

from typing import Any

import anthropic
import openai
import pytest

from providers.canonical.chat import OpaqueState, Reasoning, Text, ToolCall
from tests.conformance.situations import ANTHROPIC, RESPONSES, Situation
from tests.integration.attempts.test_reasoning_round_trip import converse_in_chat, converse_in_messages, converse_in_responses
from tests.support.processes.service import Service
from tests.support.scripted_dialects import respond_with
from tests.support.scripted_engine import ReceivedRequest, Script, ScriptedEngine

CALL = ToolCall("call_paris", "get_weather", '{"city": "Paris"}')
STATES = ("state-of-the-first-account", "state-of-the-second-account")


@pytest.fixture(scope="module", autouse=True)
def models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    """Each model has two hosts, drawn by weight: of ten conversations hardly one would stay at one of them by chance."""
    one, two = (f"http://127.0.0.1:{engine.port}" for engine in engines)
    service.apply(f"""
        [providers]
        responses-a = {{ adapter = "openai", base_url = "{one}", options = {{ dialects = ["openai_responses"] }} }}
        responses-b = {{ adapter = "openai", base_url = "{two}", options = {{ dialects = ["openai_responses"] }} }}
        claude-a = {{ adapter = "anthropic", base_url = "{one}" }}
        claude-b = {{ adapter = "anthropic", base_url = "{two}" }}
        [models.two-responses]
        targets = [
            {{ provider = "responses-a", model = "m", weight = 1 }},
            {{ provider = "responses-b", model = "m", weight = 1 }},
        ]
        [models.two-claudes]
        targets = [{{ provider = "claude-a", model = "m", weight = 1 }}, {{ provider = "claude-b", model = "m", weight = 1 }}]
        [models.first-claude]
        targets = [{{ provider = "claude-a", model = "m" }}]
        [models.second-claude]
        targets = [{{ provider = "claude-b", model = "m" }}]
        [models.first-responses]
        targets = [{{ provider = "responses-a", model = "m" }}]
        [models.second-responses]
        targets = [{{ provider = "responses-b", model = "m" }}]
    """)


def account(own: str, origin: str, *, is_down: bool = False) -> Script:
    """A host that calls a tool twice and then answers, and refuses state that it has not made, as OpenAI and Anthropic do."""

    async def script(request: ReceivedRequest) -> None:
        if is_down:
            return await request.respond(500, b"{}")
        if b"nx1." in request.raw or any(state.encode() in request.raw for state in STATES if state != own):
            if origin == RESPONSES:
                message = '{"error": {"message": "The encrypted content could not be verified.", "code": "invalid_encrypted_content"}}'
            else:
                message = '{"type": "error", "error": {"message": "messages.1.content.0: Invalid `signature` in `thinking` block"}}'
            return await request.respond(400, message.encode())
        turns = request.raw.count(b"18 degrees")
        parts = (Text("It is warm."),) if turns >= 2 else (Reasoning("Hm.", OpaqueState(origin, own)), CALL)
        await respond_with(Situation(name="turn", parts=parts, finish="stop" if turns >= 2 else "tool_calls"))(request)

    return script


def requests_of(*engines: ScriptedEngine) -> list[int]:
    return [len([request for request in engine.requests if request.body]) for engine in engines]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("caller", ["chat", "responses", "messages"])
@pytest.mark.parametrize(("model", "origin"), [("two-responses", RESPONSES), ("two-claudes", ANTHROPIC)])
async def test_conversation_stays_with_the_account_that_made_its_state(
    sdk: openai.AsyncOpenAI,
    claude: anthropic.AsyncAnthropic,
    engine: ScriptedEngine,
    second_engine: ScriptedEngine,
    model: str,
    origin: str,
    caller: str,
    streamed: bool,
):
    engine.script, second_engine.script = (account(state, origin) for state in STATES)
    for _ in range(5):
        engine.requests.clear()
        second_engine.requests.clear()
        if caller == "chat":
            text = await converse_in_chat(sdk, model, streamed=streamed)
        elif caller == "responses":
            text = await converse_in_responses(sdk, model, streamed=streamed)
        else:
            text = await converse_in_messages(claude, model, streamed=streamed)
        assert text == "It is warm."
        assert sorted(requests_of(engine, second_engine)) == [0, 3]
        # Each host gets its own bytes back.
        used, state = (engine, STATES[0]) if engine.requests else (second_engine, STATES[1])
        assert used.requests[-1].raw.count(state.encode()) == 2


@pytest.mark.parametrize(("caller", "model", "origin"), [("responses", "two-responses", RESPONSES), ("messages", "two-claudes", ANTHROPIC)])
async def test_account_that_takes_over_gets_the_request_without_state(
    service: Service, engine: ScriptedEngine, second_engine: ScriptedEngine, caller: str, model: str, origin: str
):
    engine.script, second_engine.script = (account(state, origin) for state in STATES)
    conversation = Conversation(service, caller, model)
    await conversation.turn()
    used, other = (engine, second_engine) if engine.requests else (second_engine, engine)
    used.script = account("", origin, is_down=True)
    dropped = await conversation.turn()
    assert requests_of(used, other) == [2, 1]
    assert dropped and not any(state.encode() in other.requests[-1].raw for state in STATES)
    await conversation.turn()
    assert conversation.text == "It is warm."


@pytest.mark.parametrize(
    ("caller", "first", "second", "origin"),
    [("responses", "first-responses", "second-responses", RESPONSES), ("messages", "first-claude", "second-claude", ANTHROPIC)],
)
async def test_host_that_refuses_state_gets_the_request_without_it(
    service: Service, engine: ScriptedEngine, second_engine: ScriptedEngine, caller: str, first: str, second: str, origin: str
):
    """A conversation that goes on with another model: its state bears no mark, because each model has one provider."""
    engine.script, second_engine.script = (account(state, origin) for state in STATES)
    conversation = Conversation(service, caller, first)
    await conversation.turn()
    conversation.model = second
    dropped = await conversation.turn()
    assert requests_of(engine, second_engine) == [1, 2] and dropped


class Conversation:
    """A conversation, turn by turn, over plain HTTP: the output is appended as it came."""

    def __init__(self, service: Service, caller: str, model: str) -> None:
        self._service = service
        self._caller = caller
        self.model = model
        self._turns: list[Any] = [{"role": "user", "content": "Where is it warmer?"}]
        self.text = ""

    async def turn(self) -> str:
        """Takes the next turn of the conversation and returns what was dropped."""
        if self._caller == "responses":
            async with openai.AsyncOpenAI(base_url=f"{self._service.url}/v1", api_key=self._service.key, max_retries=0) as sdk:
                return await self._responses_turn(sdk)
        async with anthropic.AsyncAnthropic(base_url=self._service.url, api_key=self._service.key, max_retries=0) as claude:
            return await self._messages_turn(claude)

    async def _responses_turn(self, sdk: openai.AsyncOpenAI) -> str:
        tools: Any = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}, "strict": False}]
        raw = await sdk.responses.with_raw_response.create(model=self.model, input=self._turns, tools=tools, store=False)
        answer: Any = raw.parse()
        self._turns += answer.output
        self.text = answer.output_text
        calls = [item for item in answer.output if item.type == "function_call"]
        self._turns += [{"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"} for call in calls]
        return raw.headers.get("x-narthex-dropped", "")

    async def _messages_turn(self, sdk: anthropic.AsyncAnthropic) -> str:
        tools: Any = [{"name": "get_weather", "input_schema": {"type": "object"}}]
        thinking: Any = {"type": "enabled", "budget_tokens": 1024}
        raw = await sdk.messages.with_raw_response.create(
            model=self.model, max_tokens=2000, messages=self._turns, tools=tools, thinking=thinking
        )
        answer: Any = await raw.parse()
        self._turns.append({"role": "assistant", "content": answer.content})
        self.text = getattr(answer.content[-1], "text", "")
        calls = [block for block in answer.content if block.type == "tool_use"]
        self._turns.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "18 degrees"} for call in calls]}
        )
        return raw.headers.get("x-narthex-dropped", "")
