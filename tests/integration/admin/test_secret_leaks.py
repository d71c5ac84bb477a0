"""Secrets of every kind go through every kind of provider and failure; afterwards no response, log, file, store or process shows one."""

import asyncio
import base64
import json
import zlib
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import redis
from click.testing import CliRunner

from app.cli import main
from app.settings import Settings
from app.store.configuration import apply_file
from app.store.postgres import tables
from app.store.postgres.database import connect
from app.store.teams import credentials
from app.supervisor.machine import secret_key, server_addresses
from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import process_tree
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk

# In every secret and nowhere else. It is searched for in small and capital letters, and in base64.
CANARY = "canarium"
ENV = "canarium.of!the-environment/plain words"
FILE = "sk-canarium-file-4f9d02b7c1e84a6f9b3d"
STORED = "canarium_stored_with_underscores"
CALLER_SECRET = "canarium+supplied+by+callers=="
SECRET_KEY = "canarium-secret-key-6e1f0a9b8c7d5e4f3a2b"
AWS = json.dumps({"access_key_id": "AKIACANARIUM2", "secret_access_key": "canarium/aws/Secret+Key", "session_token": "canarium-session"})
GOOGLE = {
    "type": "authorized_user",
    "client_id": "canarium-client",
    "client_secret": "canarium-client-secret",
    "refresh_token": "1//canarium-refresh",
}
BROKEN_GOOGLE = {
    "type": "service_account",
    "client_email": "who@example.com",
    "private_key": "-----BEGIN PRIVATE KEY-----\ncanariumCANARIUM\n",
}
TOKEN = "canarium words of an access token".replace(" ", ".")
CANARIES = (ENV, FILE, STORED, CALLER_SECRET, SECRET_KEY, AWS, TOKEN, *GOOGLE.values())

HELLO = {"messages": [{"role": "user", "content": "Hello there, bird."}]}
# How a host responds, by the first segment of its path: with the key itself, masked, in base64, in HTML, in a stream and so on.
FAILURES = ("verbatim", "masked", "base64", "html", "late", "first", "in200", "cut", "garbled", "silent")
# No response of these reaches the service before its timeout.
SLOW = "silent"


def credentials_of(request: ReceivedRequest) -> str:
    """The values of all credential headers of a request."""
    names = ("authorization", "x-api-key", "api-key", "x-goog-api-key", "x-amz-security-token")
    return " ".join(request.headers[name] for name in names if request.headers.get(name))


class EchoingHost(ScriptedEngine):
    """A host that sends back the key that it received, in the way that the path names."""

    def __init__(self) -> None:
        super().__init__()
        self.script = self._echo
        self.received_secrets: set[str] = set()

    async def _respond_to_get(self, request: ReceivedRequest) -> None:
        await self._echo(request)

    async def _echo(self, request: ReceivedRequest) -> None:
        key = credentials_of(request)
        self.received_secrets.add(key)
        mode = request.path.strip("/").partition("/")[0]
        secret = key.removeprefix("Bearer ").split(" ")[0]
        half = f"{secret[:5]}{'*' * 9}{secret[-4:]}"
        header = f"content-type: application/json\r\nx-request-id: {key}\r\nretry-after: 1\r\n"
        match mode:
            case "token":
                await request.respond(200, json.dumps({"access_token": TOKEN, "expires_in": 3600}).encode())
            case "refusing-token":
                description = f"no: {request.raw.decode()} {GOOGLE['refresh_token']}"
                await request.respond(400, json.dumps({"error": "invalid_grant", "error_description": description}).encode())
            case "verbatim":
                error = {"message": f"Bad key {key}", "code": secret, "param": secret}
                await request.respond(401, json.dumps({"error": error}).encode(), header)
            case "masked":
                await request.respond(403, json.dumps({"message": f"Incorrect key: {half}"}).encode(), header)
            case "base64":
                encoded = base64.b64encode(f"x:{secret}".encode()).decode()
                await request.respond(429, json.dumps({"detail": f"Basic {encoded} is too quick, {secret[:14]}"}).encode(), header)
            case "html":
                await request.respond(500, f"<html>{key}</html>".encode(), "content-type: text/html\r\n")
            case "late" | "first":
                request.begin_stream()
                if mode == "late":
                    request.send_event(chunk({"role": "assistant", "content": "Hel"}))
                request.send_event({"error": {"message": f"key {key} went bad", "code": 401, "type": secret}})
                request.end_stream()
            case "in200":
                await request.respond(200, json.dumps({"error": {"message": f"key {key} is bad", "code": 400}}).encode(), header)
            case "cut":
                request.reset_connection()
            case "garbled":
                request.write(f"HTTP/1.1 {key}\r\n{key}\r\n\r\n".encode())
            case "silent":
                await request.disconnected.wait()
            case _:
                await request.respond_completion()


@dataclass
class SecretsUnderTest:
    """The service, the host, and all responses to callers as text. `statuses`: of the requests that tried every provider."""

    service: Service
    echo_host: EchoingHost
    responses: list[str]
    statuses: list[int]


def provider_toml(name: str, adapter: str, address: str, credential: str, **options: Any) -> str:
    toml = f'[providers.{name}]\nadapter = "{adapter}"\nbase_url = "{address}"\ncredential = "{credential}"\n'
    toml += "".join(f"options.{key} = {json.dumps(value)}\n" for key, value in options.items())
    return toml + f'[models.{name}]\ntargets = [{{ provider = "{name}", model = "m" }}]\n'


def all_providers(at: str, file: Path, gateway: str) -> Iterator[str]:
    credential_sources = {"env": "env:CANARY_ENV", "file": f"file:{file}", "stored": "store:plain", "caller": "header:x-caller-key"}
    for kind, credential in credential_sources.items():
        for mode in ("ok", *FAILURES):
            yield provider_toml(f"{kind}-{mode}", "openai", f"{at}/{mode}/v1", credential)
    for mode in ("ok", "verbatim", "late", "silent"):
        yield provider_toml(f"anthropic-{mode}", "anthropic", f"{at}/{mode}", "env:CANARY_ENV")
        yield provider_toml(f"bedrock-{mode}", "bedrock", f"{at}/{mode}", "store:aws", region="eu-west-1")
        yield provider_toml(f"vertex-{mode}", "vertex", f"{at}/{mode}", "store:google", project="p", location="global")
    yield provider_toml("vertex-token", "vertex", f"{at}/ok", "store:refused-google", project="p", location="global")
    yield provider_toml("vertex-broken", "vertex", f"{at}/ok", "store:broken-google", project="p", location="global")
    yield provider_toml("tls", "openai", f"{gateway.replace('http', 'https')}/v1", "env:CANARY_ENV")
    yield provider_toml("proxied", "openai", "https://host.invalid/v1", "env:CANARY_ENV")
    yield provider_toml("probed", "vllm", f"{at}/verbatim/v1", "env:CANARY_ENV")
    yield provider_toml("json-in-a-header", "openai", f"{at}/ok/v1", "store:aws")


@pytest.fixture(scope="module")
async def exposed(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[SecretsUnderTest]:
    """A service with every provider of all_providers(), through which requests with secrets have been sent."""
    echo_host = EchoingHost()
    await echo_host.start()
    file = tmp_path_factory.mktemp("credentials") / "file"
    file.write_text(FILE)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CANARY_ENV", ENV)
        environment.setenv("HTTPS_PROXY", f"http://user:{CANARY}-proxy-password@127.0.0.1:9")
        service = await asyncio.to_thread(
            services.start, log_level="debug", secret_key=SECRET_KEY, probe_interval_s=0.3, first_token_timeout_s=3, total_timeout_s=4
        )
    try:
        at = f"http://127.0.0.1:{echo_host.port}"
        settings = server_addresses.resolve(Settings.read(service.environment))
        vault = secret_key.open_vault(settings)
        stored = {
            "plain": STORED,
            "aws": AWS,
            "google": json.dumps({**GOOGLE, "token_uri": f"{at}/token"}),
            "refused-google": json.dumps({**GOOGLE, "token_uri": f"{at}/refusing-token"}),
            "broken-google": json.dumps({**BROKEN_GOOGLE, "token_uri": f"{at}/token"}, indent=1),
        }
        for name, secret in stored.items():
            await credentials.set_credential(settings.database_url, vault, name, secret)
        content = "\n".join(all_providers(at, file, service.url))
        await apply_file.apply(settings.database_url, content, prune=False, confirm=lambda _: True)
        under_test = SecretsUnderTest(service, echo_host, [], [])
        await send_secrets(under_test)
        yield under_test
    finally:
        await echo_host.stop()
        await asyncio.to_thread(services.stop, service)


def find_secrets(text: str | bytes) -> list[str]:
    """The parts of secrets that a text contains."""
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    parts = {CANARY, CANARY.upper(), *(base64.b64encode(each.encode())[4:20].decode() for each in CANARIES)}
    return sorted(each for each in parts if each.encode() in raw)


async def send_secrets(exposed: SecretsUnderTest) -> None:
    """Fills everything that is searched afterwards."""
    models = [
        line.removeprefix("[models.").rstrip("]")
        for line in "\n".join(all_providers("http://h", Path("/f"), "http://g")).splitlines()
        if "[models." in line
    ]
    # Few at once, so that a busy machine does not run into the timeouts; slow hosts cost nothing but time.
    few, many = asyncio.Semaphore(4), asyncio.Semaphore(100)

    async def send(client: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> httpx2.Response:
        async with many if SLOW in body["model"] else few:
            answer = await client.post(path, json=body)
            exposed.responses.append(
                f"{path} {body['model']}: {answer.status_code} {answer.headers!r} {answer.headers.raw!r} {answer.text}"
            )
            return answer

    async with exposed.service.client(headers={"x-caller-key": CALLER_SECRET}) as client:
        requests = [
            send(client, "/v1/chat/completions", {"model": name, "stream": stream, **HELLO}) for name in models for stream in (False, True)
        ]
        requests += [
            send(client, "/v1/messages", {"model": name, "max_tokens": 9, **HELLO})
            for name in ("env-late", "anthropic-verbatim", "anthropic-late")
        ]
        requests += [
            send(client, "/v1/responses", {"model": name, "input": "Hi", "stream": True})
            for name in ("env-late", "stored-first", "env-verbatim")
        ]
        answers = await asyncio.gather(*requests)
        ids = [each.headers["x-narthex-inference-id"] for each in answers if "x-narthex-inference-id" in each.headers]
    exposed.statuses[:] = [each.status_code for each in answers]
    for id in ids[-3:]:
        exposed.responses.append(json.dumps(await exposed.service.wait_for_record(id)))


async def test_secrets_are_sent_through_every_provider_and_failure(exposed: SecretsUnderTest):
    assert exposed.statuses.count(200) > 8 and exposed.statuses.count(502) > 20
    async with exposed.service.client() as client:
        missing = await client.post("/v1/chat/completions", json={"model": "caller-ok", **HELLO})
        assert missing.status_code == 401 and "x-caller-key" in missing.text
    sent = " ".join(exposed.echo_host.received_secrets)
    assert all(each in sent for each in (ENV, FILE, STORED, CALLER_SECRET, TOKEN, "canarium-session", "AKIACANARIUM2"))
    assert any("[masked]" in each for each in exposed.responses)


def test_no_response_to_callers_contains_a_secret(exposed: SecretsUnderTest):
    assert len(exposed.responses) > 100 and [(find_secrets(each), each) for each in exposed.responses if find_secrets(each)] == []


async def test_no_admin_response_or_metric_contains_a_secret(exposed: SecretsUnderTest):
    paths = (
        "endpoints",
        "credentials",
        "inferences?limit=1000",
        "inferences?limit=200&preview=true",
        "episodes?limit=200&preview=true",
        "doctor",
        "keys",
        "teams",
        "credentials/plain",
        "credentials/aws",
        "models/probed/engine/metrics",
    )
    async with exposed.service.admin_client() as admin:
        for path in paths:
            answer = await admin.get(f"/admin/v1/{path}")
            assert len(answer.text) > 20 and find_secrets(answer.text + repr(answer.headers)) == [], path
        for inference in (await admin.get("/admin/v1/inferences?limit=1000")).json()["data"]:
            assert find_secrets((await admin.get(f"/admin/v1/inferences/{inference['id']}?content=both")).text) == []
        metrics = (await admin.get("/metrics")).text
        assert "narthex_" in metrics and find_secrets(metrics) == []


def test_no_file_in_the_home_contains_a_secret(exposed: SecretsUnderTest):
    """The files include logs at debug level, the spool, the snapshot, and the data of Postgres and Valkey."""
    searched = [path for path in exposed.service.home.rglob("*") if path.is_file() and not path.is_symlink()]
    assert {"up.log", "gateway-0.log", "snapshot.json"} <= {path.name for path in searched}
    assert [(str(path), find_secrets(path.read_bytes())) for path in searched if find_secrets(path.read_bytes())] == []
    log = (exposed.service.home / "logs" / "gateway-0.log").read_text()
    assert "a connection to an engine failed" in log


async def test_no_database_table_contains_a_secret(exposed: SecretsUnderTest):
    connection = await connect(server_addresses.resolve(Settings.read(exposed.service.environment)).database_url)
    try:
        for table in tables.metadata.sorted_tables:
            for row in await connection.fetch(f'SELECT * FROM "{table.name}"'):
                for value in row.values():
                    assert find_secrets(_decompressed(value) if isinstance(value, bytes) else str(value)) == [], f"{table.name}: {row}"
    finally:
        await connection.close()


def _decompressed(value: bytes) -> bytes:
    """Requests and responses are compressed."""
    try:
        return zlib.decompress(value)
    except zlib.error:
        return value


def test_redis_contains_no_secret(exposed: SecretsUnderTest):
    url = server_addresses.resolve(Settings.read({**exposed.service.environment, "DATABASE_URL": ""})).redis_url
    with redis.Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
        for key in client.scan_iter():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            assert find_secrets(f"{key!r} {client.dump(key)!r}") == []  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]


def test_no_process_command_line_contains_a_secret(exposed: SecretsUnderTest):
    for name in ("gateway-0", "writer", "postgres", "valkey", "sandbox"):
        assert find_secrets(Path(f"/proc/{exposed.service.pid(name)}/cmdline").read_bytes()) == []


@pytest.mark.parametrize("name", ["postgres", "valkey"])
def test_embedded_servers_inherit_no_secret(exposed: SecretsUnderTest, name: str):
    """The servers run as another user under root, whose processes could all read a secret in /proc."""
    assert find_secrets(Path(f"/proc/{exposed.service.pid('gateway-0')}/environ").read_bytes()) != []
    for pid in process_tree(exposed.service.pid(name)):
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert find_secrets(environment) == [] and b"NARTHEX_" not in environment


@pytest.mark.parametrize(
    "command",
    [
        ("doctor",),
        ("status", "--json"),
        ("export",),
        ("providers", "list", "--json"),
        ("credentials", "list", "--json"),
        *(
            ("providers", "test", each)
            for each in ("env-ok", "env-verbatim", "env-masked", "file-html", "stored-base64", "probed", "tls", "proxied")
        ),
        *(
            ("providers", "test", each, "--json")
            for each in ("bedrock-verbatim", "vertex-verbatim", "vertex-token", "vertex-broken", "caller-ok")
        ),
    ],
    ids=" ".join,
)
async def test_no_cli_output_contains_a_secret(exposed: SecretsUnderTest, command: tuple[str, ...]):
    done = await asyncio.to_thread(CliRunner().invoke, main, command, env={**exposed.service.environment, "CANARY_ENV": ENV})
    assert len(done.output) > 20 and find_secrets(done.output) == [], done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
