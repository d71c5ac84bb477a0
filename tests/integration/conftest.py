"""What stories share: one service for all of them, an engine that does as it is told, and the official SDK."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import anthropic
import httpx
import openai
import pytest

from tests.support import service as services
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine
from tests.support.sdk_callers import Caller, ChatCaller, MessagesCaller, ResponsesCaller
from tests.support.service import Service

MOST_BODY_BYTES = 1_000_000
WORKERS = 2
# An authority for servers of stories that speak TLS on localhost.
TLS = Path(__file__).parents[1] / "support" / "tls"


@pytest.fixture(scope="session")
def service() -> Generator[Service]:
    """Two workers, and timeouts short enough to wait for: first token 2 s, silence 1.5 s, total 6 s.

    However often an engine fails on purpose, it is not left for last: the next story fails it again.
    """
    running = services.start(
        workers=WORKERS,
        max_body_bytes=MOST_BODY_BYTES,
        first_token_timeout_s=2,
        silence_timeout_s=1.5,
        total_timeout_s=6,
        breaker_failures=1000,
        drain_timeout_s=5,
        ca_bundle=TLS / "ca.pem",
    )
    yield running
    services.stop(running)


@pytest.fixture(scope="session")
async def engines(service: Service) -> AsyncGenerator[tuple[ScriptedEngine, ScriptedEngine]]:
    """Two scripted engines. Models: scripted (the first), pair (first, then second), backed (first, falling back to `second`),
    vllm (the first, as a vLLM of today), old-vllm (as one of 0.11), only-streams and never-streams (the first); claude and responses
    (the first, speaking Anthropic Messages or OpenAI Responses alone), pinned (a vLLM that is only to be asked by chat)."""
    first, second = ScriptedEngine(), ScriptedEngine()
    await first.start()
    await second.start()
    one, two = f"http://127.0.0.1:{first.port}", f"http://127.0.0.1:{second.port}/v1"
    service.apply(f"""
        [providers]
        first = {{ adapter = "openai", base_url = "{one}" }}
        second = {{ adapter = "openai", base_url = "{two}" }}
        unsure = {{ adapter = "openai", base_url = "{one}", options = {{ accepts = ["chat_template_kwargs"] }} }}
        only = {{ adapter = "openai", base_url = "{one}", options = {{ stream = "only" }} }}
        never = {{ adapter = "openai", base_url = "{one}", options = {{ stream = "never" }} }}
        vllm = {{ adapter = "vllm", base_url = "{one}", options = {{ version = "0.32.0" }} }}
        old = {{ adapter = "vllm", base_url = "{one}", options = {{ version = "0.11.0" }} }}
        anthropic = {{ adapter = "anthropic", base_url = "{one}" }}
        responses = {{ adapter = "openai", base_url = "{one}", options = {{ dialects = ["openai_responses"] }} }}
        nowhere = {{ adapter = "openai", base_url = "http://127.0.0.1:9" }}
        [models]
        scripted = {{ targets = [{{ provider = "first", model = "engine-model" }}] }}
        second = {{ targets = [{{ provider = "second", model = "engine-model" }}] }}
        accepting = {{ targets = [{{ provider = "unsure", model = "engine-model" }}] }}
        pair = {{ targets = [{{ provider = "first", model = "engine-model" }}, {{ provider = "second", model = "other-model" }}] }}
        backed = {{ targets = [{{ provider = "first", model = "engine-model" }}], fallbacks = ["second"] }}
        vllm = {{ targets = [{{ provider = "vllm", model = "engine-model" }}] }}
        old-vllm = {{ targets = [{{ provider = "old", model = "engine-model" }}] }}
        only-streams = {{ targets = [{{ provider = "only", model = "engine-model" }}] }}
        never-streams = {{ targets = [{{ provider = "never", model = "engine-model" }}] }}
        claude = {{ targets = [{{ provider = "anthropic", model = "engine-model" }}] }}
        responses = {{ targets = [{{ provider = "responses", model = "engine-model" }}] }}
        pinned = {{ targets = [{{ provider = "vllm", model = "engine-model", dialect = "openai_chat" }}] }}
        unreachable = {{ targets = [{{ provider = "nowhere", model = "engine-model" }}] }}
    """)
    yield first, second
    await first.stop()
    await second.stop()


@pytest.fixture
def engine(engines: tuple[ScriptedEngine, ScriptedEngine]) -> ScriptedEngine:
    return _reset(engines[0])


@pytest.fixture
def second_engine(engines: tuple[ScriptedEngine, ScriptedEngine]) -> ScriptedEngine:
    return _reset(engines[1])


def _reset(engine: ScriptedEngine) -> ScriptedEngine:
    engine.requests.clear()
    engine.script = ReceivedRequest.respond_completion
    return engine


@pytest.fixture
async def client(service: Service) -> AsyncGenerator[httpx.AsyncClient]:
    async with service.client() as client:
        yield client


@pytest.fixture
async def sdk(service: Service) -> AsyncGenerator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=service.key, max_retries=0) as sdk:
        yield sdk


@pytest.fixture(scope="session")
async def claude(service: Service) -> AsyncGenerator[anthropic.AsyncAnthropic]:
    """Anthropic's own, with the same key."""
    async with anthropic.AsyncAnthropic(base_url=service.url, api_key=service.key, max_retries=0) as own:
        yield own


@pytest.fixture(params=["chat", "responses", "messages"])
def caller(request: pytest.FixtureRequest, sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic) -> Caller:
    """One who asks in each of three APIs."""
    return {"chat": ChatCaller(sdk), "responses": ResponsesCaller(sdk), "messages": MessagesCaller(claude)}[request.param]
