"""The proxies of infra/proxy in front of a real gateway: streams, large bodies, callers' addresses and hung-up callers get through."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import ssl
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path

import httpx2
import pytest

from tests.support.processes import service as services
from tests.support.processes.certificates import write_pair
from tests.support.processes.service import Service, free_port
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

ROOT = Path(__file__).parents[2]
PROXY = ROOT / "infra" / "proxy"
MESSAGES = [{"role": "user", "content": "Hello!"}]


def _nginx(folder: Path, config: Path) -> list[str]:
    wrapped = folder / "wrapped.conf"
    temporary = "".join(f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    content = config.read_text().replace("http {", f"http {{\naccess_log off;\n{temporary}", 1)
    wrapped.write_text(f"daemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\n{content}")
    return ["nginx", "-c", str(wrapped), "-p", str(folder)]


def _caddy(folder: Path, config: Path) -> list[str]:
    content = config.read_text().replace("llm.example.com {", "https://127.0.0.1:PORT, https://localhost:PORT {")
    port = config.with_suffix(".port").read_text()
    # Without an address for its own API, and without a redirect from port 80.
    config.write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + content.replace("PORT", port))
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(config)]


def _envoy(folder: Path, config: Path) -> list[str]:
    executable = ROOT / ".venv-deploy" / "bin" / "envoy"
    return [str(executable), "-c", str(config), "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"]


COMMANDS: dict[str, tuple[str, Callable[[Path, Path], list[str]]]] = {
    "nginx": ("nginx.conf", _nginx),
    "caddy": ("Caddyfile", _caddy),
    "envoy": ("envoy.yaml", _envoy),
}


@pytest.fixture(scope="module")
def service() -> Generator[Service]:
    running = services.start(workers=1, trusted_proxies="127.0.0.1/32", silence_timeout_s=60, first_token_timeout_s=60)
    yield running
    services.stop(running)


@pytest.fixture(scope="module")
async def engine(service: Service) -> AsyncGenerator[ScriptedEngine]:
    scripted = ScriptedEngine()
    await scripted.start()
    service.apply(f"""
        [providers.scripted]
        adapter = "openai"
        base_url = "http://127.0.0.1:{scripted.port}"
        [models.scripted]
        targets = [{{ provider = "scripted", model = "scripted" }}]
    """)
    yield scripted
    await scripted.stop()


@pytest.fixture(scope="module", params=COMMANDS)
def proxy(request: pytest.FixtureRequest, service: Service, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The address of the proxy, with TLS. Its configuration is that of the page, but for ports, folder and name."""
    name: str = request.param
    file, command_of = COMMANDS[name]
    folder, port = tmp_path_factory.mktemp(name), free_port()
    if shutil.which(command_of(folder, _prepared(folder, file, service, port))[0]) is None:
        pytest.skip(f"{name} is not installed: apt install {name}" if name != "envoy" else "envoy is not installed")
    certificate, key = write_pair(folder)
    key.chmod(0o644)
    certificate.chmod(0o644)
    command = command_of(folder, _prepared(folder, file, service, port))
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield _wait_for_proxy(process, f"https://127.0.0.1:{port}", folder / "log")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _prepared(folder: Path, file: str, service: Service, port: int) -> Path:
    content = (PROXY / file).read_text().replace("/etc/narthex/tls", str(folder))
    content = content.replace("127.0.0.1:8787", service.url.removeprefix("http://"))
    content = content.replace("port_value: 8787", f"port_value: {service.url.rpartition(':')[2]}")
    content = content.replace("listen 443 ", f"listen {port} ").replace("port_value: 443", f"port_value: {port}")
    config = folder / file
    config.write_text(content)
    config.with_suffix(".port").write_text(str(port))
    return config


def _wait_for_proxy(process: "subprocess.Popen[bytes]", url: str, log: Path) -> str:
    while True:
        try:
            if httpx2.get(url + "/health/ready", verify=False, timeout=30).status_code == 200:
                return url
        except httpx2.TransportError:
            assert process.poll() is None, log.read_text()


def client_of(service: Service, proxy: str, **options: object) -> httpx2.AsyncClient:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    transport = httpx2.AsyncHTTPTransport(verify=context, local_address=str(options.pop("address", "127.0.0.1")))
    headers = {"authorization": f"Bearer {options.pop('key', service.key)}"}
    return httpx2.AsyncClient(base_url=proxy, headers=headers, transport=transport, timeout=60)


async def test_each_token_is_passed_on_when_it_comes(service: Service, engine: ScriptedEngine, proxy: str) -> None:
    received = [asyncio.Event() for _ in range(3)]

    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        for at, event in enumerate(received):
            request.send_event({"id": "x", "choices": [{"index": 0, "delta": {"role": "assistant", "content": f"token{at}"}}]})
            await event.wait()
        request.send_event({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        request.send_event(b"[DONE]")
        request.end_stream()

    engine.script = script
    body = {"model": "scripted", "messages": MESSAGES, "stream": True}
    async with client_of(service, proxy) as client, client.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.status_code == 200
        lines = response.aiter_lines()
        async for line in lines:
            for at, event in enumerate(received):
                if f"token{at}" in line:
                    event.set()  # the next one is sent only now
            if line == "data: [DONE]":
                break
    assert all(event.is_set() for event in received)


async def test_large_request_is_passed_on_and_a_too_large_one_is_refused(service: Service, engine: ScriptedEngine, proxy: str) -> None:
    engine.script = ReceivedRequest.respond_completion
    async with client_of(service, proxy) as client:
        large = {"model": "scripted", "messages": [{"role": "user", "content": "x" * 20_000_000}]}
        answer = await client.post("/v1/chat/completions", json=large)
        assert answer.status_code == 200, answer.text[:300]
        assert len(engine.requests[-1].raw) > 20_000_000
        with contextlib.suppress(httpx2.NetworkError):  # it may be refused, and the connection closed, before all of it was sent
            too_large = await client.post("/v1/chat/completions", content=b" " * 34_000_000)
            assert too_large.status_code == 413


async def test_callers_address_is_the_one_of_its_connection(service: Service, engine: ScriptedEngine, proxy: str) -> None:
    engine.script = ReceivedRequest.respond_completion
    created = service.run("keys", "create", "--team", "networks", "--quiet", "--network", "127.0.0.2")
    assert created.returncode == 0, created.stderr
    body = {"model": "scripted", "messages": MESSAGES}
    async with client_of(service, proxy, key=created.stdout.strip(), address="127.0.0.2") as client:
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
    async with client_of(service, proxy, key=created.stdout.strip()) as client:
        forged = {"x-forwarded-for": "127.0.0.2", "x-real-ip": "127.0.0.2", "forwarded": "for=127.0.0.2"}
        refused = await client.post("/v1/chat/completions", json=body, headers=forged)
        assert refused.status_code == 403, refused.text


async def test_caller_who_hangs_up_stops_the_engine(service: Service, engine: ScriptedEngine, proxy: str) -> None:
    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event({"id": "x", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "first"}}]})
        await request.disconnected.wait()

    engine.script = script
    body = {"model": "scripted", "messages": MESSAGES, "stream": True}
    async with client_of(service, proxy) as client, client.stream("POST", "/v1/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            if "first" in line:
                break
    await wait_until(engine.requests[-1].disconnected.is_set, 60)


async def test_admin_routes_are_not_there(service: Service, proxy: str) -> None:
    async with client_of(service, proxy, key=service.admin_key) as client:
        for path in ("/admin/v1/teams", "/admin", "/docs", "/openapi.json", "/metrics", "/admin/v1/../v1/teams", "//admin/v1/teams"):
            assert (await client.get(path)).status_code in (400, 404), path
        listed = await client.get("/v1/models")
        assert listed.status_code == 200 and json.loads(listed.content)["data"]
