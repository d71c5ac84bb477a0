"""TLS of both listeners on a running service: requests, streams, disconnects, exchanged certificates, commands and the drain."""

import asyncio
import json
import re
import signal
import socket
import ssl
import time
import warnings
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.support.processes.certificates import write_pair
from tests.support.processes.service import PROCESS_TIMEOUT_S, REQUEST_TIMEOUT_S, Service, free_port, start, stop
from tests.support.processes.wait_until import GENEROUS_S, block_until, wait_until

CHAT: dict[str, Any] = {"model": "sandbox", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
SLOW: dict[str, Any] = {**CHAT, "model": "sandbox-slow", "max_tokens": 400, "stream": True}
DRAIN_S = 60


@dataclass(frozen=True)
class TlsService:
    """A service with two gateway processes. `folder`: of its certificate. `admin_port`: of its admin API."""

    service: Service
    folder: Path
    admin_port: int

    @property
    def port(self) -> int:
        port = urlsplit(self.service.url).port
        assert port
        return port

    def trusting_client(self, **options: Any) -> httpx2.Client:
        """A client that verifies certificate and name, as callers do."""
        trusted = ssl.create_default_context(cafile=self.folder / "tls.crt")
        headers = {"authorization": f"Bearer {self.service.key}"}
        url = f"https://localhost:{self.port}"
        return httpx2.Client(base_url=url, headers=headers, verify=trusted, timeout=REQUEST_TIMEOUT_S, trust_env=False, **options)

    def shown_certificate(self, name: str | None) -> bytes | None:
        """The certificate that a new connection is shown, as DER. `name`: what the client calls the server; None: it sends no name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=GENEROUS_S) as connection,
            context.wrap_socket(connection, server_hostname=name) as secured,
        ):
            return secured.getpeercert(binary_form=True)

    def certificate(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert((self.folder / "tls.crt").read_text())


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Generator[TlsService]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = write_pair(folder, key_type="rsa")
    admin_port = free_port()
    service = start(tls_cert=cert, tls_key=key, admin_port=admin_port, workers=2, drain_timeout_s=DRAIN_S)
    yield TlsService(service, folder, admin_port)
    stop(service)


async def open_chat(tls: TlsService, body: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which a streamed chat has begun."""
    trusted = ssl.create_default_context(cafile=tls.folder / "tls.crt")
    reader, writer = await asyncio.open_connection("127.0.0.1", tls.port, ssl=trusted, server_hostname="localhost")
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {tls.service.key}\r\n"
    writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    return reader, writer


def own_address(response: httpx2.Response) -> object:
    """Returns the client's own address on the connection on which the response came."""
    return response.extensions["network_stream"].get_extra_info("client_addr")


def inference_id(head: bytes) -> str:
    found = re.search(rb"x-narthex-inference-id: (\S+)", head)
    assert found is not None, head
    return found[1].decode()


def test_requests_streams_and_large_bodies_work_on_one_kept_connection(tls: TlsService):
    with tls.trusting_client() as client:
        before = client.get("/health/ready")
        assert before.status_code == 200 and before.json()["status"] == "ready"
        address = own_address(before)
        answer = client.post("/v1/chat/completions", json=CHAT)
        assert answer.status_code == 200 and answer.json()["choices"][0]["message"]["content"]
        with client.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as streamed:
            lines = [line for line in streamed.iter_lines() if line]
        assert len(lines) > 3 and lines[-1] == "data: [DONE]"
        large = {**CHAT, "messages": [{"role": "user", "content": "x" * 3_000_000}]}
        assert client.post("/v1/chat/completions", json=large).status_code == 200
        assert own_address(client.get("/health/live")) == address


def test_plain_http_is_closed_and_old_protocols_are_refused(tls: TlsService):
    with pytest.raises(httpx2.TransportError):
        httpx2.get(f"http://127.0.0.1:{tls.port}/health/live", trust_env=False, verify=False, timeout=REQUEST_TIMEOUT_S)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", tls.port), timeout=GENEROUS_S) as connection, pytest.raises(ssl.SSLError):
        context.wrap_socket(connection)


def test_admin_listener_and_commands_use_tls(tls: TlsService):
    service = tls.service
    admin_url = f"https://127.0.0.1:{tls.admin_port}"
    page = httpx2.get(f"{admin_url}/docs", verify=False, trust_env=False, timeout=REQUEST_TIMEOUT_S)
    assert page.status_code == 200 and f"https://127.0.0.1:{tls.port}/v1" in page.text and f"http://127.0.0.1:{tls.port}" not in page.text
    assert f"The admin API is on {admin_url}." in service.run("status").stdout
    chat = service.run("chat", "sandbox", "--max-tokens", "5", "Hello")
    assert chat.returncode == 0 and chat.stdout.strip(), chat.stderr
    listed = service.run("engines", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    doctor = service.run("doctor").stdout
    assert "✗" not in doctor, doctor
    assert f"The gateway answers on {service.url}" in doctor or "The gateway took" in doctor, doctor  # late, on a busy machine
    assert "The certificate is for localhost, 127.0.0.1" in doctor
    log = (service.home / "up.log").read_text()
    assert f"Base URL    {service.url}/v1" in log and f"Reference   {admin_url}/docs" in log and "Warning" not in log
    assert "is for localhost, 127.0.0.1: clients that verify it" in log


@pytest.mark.parametrize("ending", ["goodbye", "end of input", "reset"])
async def test_caller_who_leaves_a_stream_is_noticed(tls: TlsService, ending: str):
    reader, writer = await open_chat(tls, json.dumps(SLOW).encode())
    async with asyncio.timeout(GENEROUS_S):
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readuntil(b"data: ")
    if ending == "reset":
        writer.transport.abort()
    elif ending == "goodbye":
        writer.close()
    else:  # a FIN without the goodbye of TLS
        writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
    record = await wait_for_end(tls, inference_id(head))
    assert record["outcome"] == "disconnected", record
    writer.close()


async def wait_for_end(tls: TlsService, id: str) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {tls.service.admin_key}"}
    url = f"https://127.0.0.1:{tls.admin_port}"
    async with httpx2.AsyncClient(base_url=url, headers=headers, verify=False, trust_env=False, timeout=REQUEST_TIMEOUT_S) as admin:
        response = httpx2.Response(404)

        async def is_recorded() -> bool:
            nonlocal response
            response = await admin.get(f"/admin/v1/inferences/{id}")
            return response.status_code == 200

        await wait_until(is_recorded, 120)
    return response.json()


def expiry(tls: TlsService) -> float:
    page = httpx2.get(f"https://127.0.0.1:{tls.admin_port}/metrics", verify=False, trust_env=False, timeout=REQUEST_TIMEOUT_S)
    [line] = re.findall(r"^narthex_tls_certificate_expiry_timestamp_seconds (\S+)$", page.text, re.MULTILINE)
    return float(line)


def test_new_certificate_is_shown_to_new_connections_and_no_old_one_is_dropped(tls: TlsService):
    assert abs(expiry(tls) - time.time() - 90 * 86400) < 3600
    with tls.trusting_client() as client, client.stream("POST", "/v1/chat/completions", json=SLOW) as streamed:
        address, lines = own_address(streamed), streamed.iter_lines()
        next(lines)
        write_pair(tls.folder, days=60, key_type="ec")
        renewed = tls.certificate()
        # Eight in a row: both processes have it.
        block_until(lambda: all(tls.shown_certificate(name) == renewed for name in ("localhost", None) * 4), 60)
        block_until(lambda: abs(expiry(tls) - time.time() - 60 * 86400) < 3600, 60)
        assert [line for line in lines if line][-1] == "data: [DONE]"
        after = client.get("/health/live")
        assert after.status_code == 200 and own_address(after) == address


def test_broken_pair_is_logged_and_the_old_certificate_stays(tls: TlsService):
    before = tls.certificate()
    good_key = (tls.folder / "tls.key").read_bytes()
    write_pair(tls.folder)
    (tls.folder / "tls.key").write_bytes(good_key)
    logs = [tls.service.home / "logs" / f"gateway-{number}.log" for number in range(2)]
    block_until(lambda: all("the new TLS certificate is not used" in log.read_text() for log in logs), 60)
    assert all("does not belong to the certificate" in log.read_text() for log in logs)
    assert [tls.shown_certificate(name) for name in ("localhost", None) * 4] == [before] * 8
    doctor = tls.service.run("doctor")
    assert doctor.returncode == 1 and "does not belong to the certificate" in doctor.stdout
    write_pair(tls.folder)
    block_until(lambda: all(tls.shown_certificate("localhost") == tls.certificate() for _ in range(8)), 60)


def test_drain_ends_streams_and_waits_for_no_goodbye_of_pooled_connections(tls: TlsService):
    """A client that pools connections reads nothing until its next request, so it does not see that its connection is closed."""
    with tls.trusting_client() as idle, tls.trusting_client() as busy:
        for _ in range(8):  # on both processes
            assert idle.get("/health/live").status_code == 200
        with busy.stream("POST", "/v1/chat/completions", json=SLOW) as streamed:
            lines = streamed.iter_lines()
            next(lines)
            tls.service.process.send_signal(signal.SIGTERM)
            assert [line for line in lines if line][-1] == "data: [DONE]"
            answered_at = time.monotonic()
            tls.service.process.wait(PROCESS_TIMEOUT_S)
        assert time.monotonic() - answered_at < DRAIN_S / 2
    assert "did not end in time" not in (tls.service.home / "up.log").read_text()
