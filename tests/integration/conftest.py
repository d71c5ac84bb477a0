"""The fixtures that integration tests share: one running service, scripted engines, and the official SDKs."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import anthropic
import httpx2
import openai
import pytest

from tests.support.processes import service as services
from tests.support.processes.postgres import blank_database, database, postgres
from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine
from tests.support.sdk_callers import Caller, ChatCaller, MessagesCaller, ResponsesCaller

# One server for all modules: a fixture that a module imports is that module's own.
__all__ = ["blank_database", "database", "postgres"]

MOST_BODY_BYTES = 1_000_000
HEAD_TIMEOUT_S = 5
WORKERS = 2
# A certificate authority for the tests' own TLS servers on localhost.
TLS = Path(__file__).parents[1] / "support" / "tls"


NODE_SECRET = "the-secret-of-nodes-in-tests"


@pytest.fixture(scope="session")
def service() -> Generator[Service]:
    """A service of two workers, whose timeouts are short enough to wait for, but longer than what a busy machine takes by itself.

    Breakers stay closed, and nothing is retried unless a model says so: tests make the same engine fail many times on purpose.
    """
    running = services.start(
        workers=WORKERS,
        max_body_bytes=MOST_BODY_BYTES,
        bodies_max_bytes_key=20 * MOST_BODY_BYTES,
        bodies_max_bytes_team=30 * MOST_BODY_BYTES,
        first_token_timeout_s=5,
        silence_timeout_s=4,
        head_timeout_s=HEAD_TIMEOUT_S,
        total_timeout_s=15,
        breaker_failures=1000,
        endpoint_cooldown_max_s=0,
        retries=0,
        node_secret=NODE_SECRET,
        node_networks="127.0.0.0/8",
        node_expiry_s=6,
        discovery_interval_s=0.3,
        load_interval_s=0.3,
        drain_timeout_s=5,
        redis_timeout_s=2,
        budget_check_s=1,
        experiment_check_s=1,
        webhook_networks="127.0.0.0/8",
        webhook_timeout_s=3,
        ca_bundle=TLS / "ca.pem",
        access_log="stdout",
    )
    yield running
    services.stop(running)


@pytest.fixture(scope="session")
async def engines(service: Service) -> AsyncGenerator[tuple[ScriptedEngine, ScriptedEngine]]:
    """Two scripted engines, `first` and `second`, behind these models.

    The first alone serves scripted, vllm (as a current vLLM), old-vllm (as vLLM 0.11), only-streams and never-streams, claude and
    responses (which serve Anthropic Messages or OpenAI Responses alone), pinned (a vLLM whose target is pinned to chat) and accepting
    (with one more accepted field). Both serve pair (two targets) and backed (the first, with `second` as a fallback). Neither serves
    unreachable.
    """
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
        stops-after-calls = {{ adapter = "openai", base_url = "{one}", options = {{ stops_after_calls = true }} }}
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
        stops-after-calls = {{ targets = [{{ provider = "stops-after-calls", model = "engine-model" }}] }}
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
async def client(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.client() as client:
        yield client


@pytest.fixture
async def sdk(service: Service) -> AsyncGenerator[openai.AsyncOpenAI]:
    plain = openai.DefaultAsyncHttpxClient(verify=False)  # it would load the certificate authorities, 30 ms for each test
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=service.key, max_retries=0, http_client=plain) as sdk:
        yield sdk


@pytest.fixture(scope="session")
async def claude(service: Service) -> AsyncGenerator[anthropic.AsyncAnthropic]:
    """Anthropic's SDK, with the same key."""
    async with anthropic.AsyncAnthropic(base_url=service.url, api_key=service.key, max_retries=0) as sdk:
        yield sdk


@pytest.fixture(params=["chat", "responses", "messages"])
def caller(request: pytest.FixtureRequest, sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic) -> Caller:
    """A caller through each of three APIs."""
    return {"chat": ChatCaller(sdk), "responses": ResponsesCaller(sdk), "messages": MessagesCaller(claude)}[request.param]
