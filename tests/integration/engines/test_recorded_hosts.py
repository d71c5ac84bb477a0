"""Every recording of a hosted provider is served over HTTP to the whole service, for callers of each dialect, streamed or not.

The server receives a request that means what was recorded, and the callers' SDKs receive everything that the host sent. The recordings
are not part of this project: without their folder beside it only the cases of this project are served, and one test is skipped.
"""

import itertools
import json
import random
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import tomli_w
from msgspec.structs import replace

from app.store.configuration import apply_file, configuration
from providers.canonical.chat import ChatRequest
from providers.canonical.raw_json import Body
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.drop_policy import DropPolicy
from tests.conformance.expected_responses import comparable, expected_response
from tests.conformance.sdk_responses import ESTIMATED_USAGE, event_payloads
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES
from tests.conformance.strict_shapes import response_errors
from tests.conformance.translation import CALLERS
from tests.replay.hosts.catalogue import HOSTS
from tests.replay.hosts.host import Host, ProviderTarget
from tests.replay.hosts.recordings import FOLDER, Recording
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

ROUTES = {CHAT: "/v1/chat/completions", RESPONSES: "/v1/responses", ANTHROPIC: "/v1/messages"}
PLAIN_ROUTES = {
    "/v1/embeddings": "openai_embeddings",
    "/v1/completions": "openai_completions",
    "/v1/messages/count_tokens": "anthropic_count_tokens",
}
EVERY = [(host, recording) for host in HOSTS for recording in host.recordings]
CHATS = [each for each in EVERY if each[0].chat(each[1]) is not None]
PLAIN = [each for each in EVERY if each[0].non_chat(each[1]) is not None]
# Headers of one connection or of the recorded framing.
_HOPS = ("content-length", "transfer-encoding", "content-encoding", "connection", "date", "server", "set-cookie", "keep-alive")


def cases(pairs: list[tuple[Host, Recording]]) -> list[Any]:
    return [pytest.param(host, recording, id=recording.id) for host, recording in pairs]


class RecordingServer:
    """Serves the recording that the path begins with."""

    def __init__(self) -> None:
        self.engine = ScriptedEngine()
        self.engine.script = self._play
        self._recordings = {recording.id: recording for _, recording in EVERY}

    async def _play(self, request: ReceivedRequest) -> None:
        folder, name = request.path.split("/")[1:3]
        recording = self._recordings[f"{folder}/{name}"]
        head = "".join(f"{key}: {value}\r\n" for key, value in recording.headers.items() if key.lower() not in _HOPS)
        if not any(key.lower() == "content-type" for key in recording.headers):
            head += f"content-type: {'text/event-stream' if recording.streamed else 'application/json'}\r\n"
        if not recording.streamed:
            return await request.respond(recording.status, recording.raw, head)
        request.write(f"HTTP/1.1 200 OK\r\n{head}transfer-encoding: chunked\r\n\r\n".encode())
        # Cut anywhere: differently each time, and the same in each run.
        rng = random.Random(f"{recording.id}{len(self.engine.requests)}")
        cuts = sorted({0, len(recording.raw), *(rng.randrange(len(recording.raw) + 1) for _ in range(12))})
        for start, end in itertools.pairwise(cuts):
            request.send_chunk(recording.raw[start:end])
            await request.writer.drain()
        request.end_stream()
        await request.writer.drain()

    def take_request(self, recording: Recording) -> tuple[str, Any]:
        """The path of the last request, below the base URL, and its body."""
        (request,) = self.engine.requests
        self.engine.requests.clear()
        return request.path.removeprefix(f"/{recording.id}"), request.body


@pytest.fixture(scope="module")
async def replay(service: Service, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RecordingServer]:
    secrets = tmp_path_factory.mktemp("secrets")
    secrets.chmod(0o755)
    server = RecordingServer()
    await server.engine.start()
    providers: dict[str, Any] = {}
    models: dict[str, Any] = {}
    for host, recording in EVERY:
        provider_target = host.provider_target(recording)
        for streamed in (True, False):
            name = _name(recording, streamed=streamed)
            providers[name] = _provider(recording, provider_target, server.engine.port, secrets, streamed=streamed)
            target = {"provider": name, "model": provider_target.model}
            if provider_target.dialect:
                target["dialect"] = provider_target.dialect
            models[name] = {"targets": [target]}
    url = database_url(service)
    before = await configuration.export(url)
    added = tomli_w.dumps({"providers": providers, "models": models})
    await apply_file.apply(url, added, prune=False, confirm=lambda _: True, wait_s=GENEROUS_S)
    yield server
    # Hundreds of models would slow down other tests.
    await apply_file.apply(url, before, prune=True, confirm=lambda _: True, wait_s=GENEROUS_S)
    await server.engine.stop()


def _name(recording: Recording, *, streamed: bool) -> str:
    """The model for callers that stream, or do not."""
    return f"replayed/{recording.id}/{'streamed' if streamed else 'not-streamed'}"


def _provider(recording: Recording, target: ProviderTarget, port: int, secrets: Path, *, streamed: bool) -> dict[str, Any]:
    options = dict(target.options)
    if target.adapter == "openai":  # at an address of its own it counts as an engine, for which media is fetched
        options["media_hosts"] = ["*.wikimedia.org"]
    if target.adapter == "openrouter":
        options["accepts"] = ["provider"]
    if streamed != recording.streamed:
        options["stream"] = "only" if recording.streamed else "never"
    provider: dict[str, Any] = {"adapter": target.adapter, "base_url": f"http://127.0.0.1:{port}/{recording.id}", "options": options}
    if target.secret is not None:
        file = secrets / recording.id.replace("/", "-")
        file.write_text(target.secret)
        provider["credential"] = f"file:{file}"
    return provider


def request_for(chat: ChatRequest, caller: str, model: str, *, streamed: bool) -> tuple[dict[str, Any], bool]:
    """This caller's request, and whether it expresses all of the chat."""
    dialect = CHAT_DIALECTS[caller]
    drop_policy = DropPolicy(lambda _: True, dialect.field_names, caller)
    body = dialect.write_request(replace(chat, model=model), drop_policy)
    is_complete = not drop_policy.dropped
    if caller == ANTHROPIC and not body.has_value("max_tokens"):
        body["max_tokens"], is_complete = 1000, False
    dialect.prepare_upstream_body(body, streamed, include_usage=True)
    body["model"] = model
    return json.loads(Body(body).write()), is_complete


@pytest.mark.parametrize(("host", "recording"), cases(CHATS))
async def test_recorded_chat_round_trips_for_every_caller_dialect_and_mode(
    host: Host, recording: Recording, replay: RecordingServer, client: httpx2.AsyncClient
):
    chat = host.chat(recording)
    assert chat is not None
    fully_expressed = 0
    for caller, route in ROUTES.items():
        if (recording.name, caller) in host.excluded_callers:
            continue
        for streamed in (True, False):
            body, is_complete = request_for(chat, caller, _name(recording, streamed=streamed), streamed=streamed)
            replay.engine.requests.clear()
            answer = await client.post(route, json=body)
            if recording.name in host.refused_params:
                error = answer.json()["error"]
                assert answer.status_code in (400, 422), answer.text
                named = host.refused_params[recording.name]
                named_to_caller = {named, CHAT_DIALECTS[caller].field_names.get(named, named)}
                assert not replay.engine.requests and named_to_caller & {error.get("param"), error["message"]}, error
                fully_expressed += 1
                continue
            assert replay.engine.requests, answer.text
            path, sent = replay.take_request(recording)
            if recording.name in host.emulated_params:
                assert host.emulated_params[recording.name] not in sent
                fully_expressed += 1
                continue
            if is_complete:
                fully_expressed += 1
                assert_request_matches(host, recording, path, sent)
            if recording.status != 200:
                assert_refused(host, recording, answer, caller)
                continue
            assert answer.status_code == 200, answer.text
            assert response_errors(caller, answer.content, streamed=streamed, written_by_engine=True) == [], (caller, streamed)
            expected = comparable(expected_response(host.expected(recording), caller, streamed=streamed))
            sdk = CALLERS[caller]
            summary = sdk.summarize(sdk.parse(answer.content, streamed=streamed))
            if b'"estimated":true' in answer.content:  # Anthropic's SDK keeps no mark in a stream
                summary = replace(summary, usage=ESTIMATED_USAGE)
            assert comparable(summary) == expected, (caller, streamed)
    assert fully_expressed, "no caller can express what was recorded"


def assert_request_matches(host: Host, recording: Recording, path: str, sent: Any) -> None:
    assert host.normalize_path(path) == host.normalize_path(recording.path)
    if recording.request_body is None:
        return
    wanted = host.normalize(recording.request_body)
    if recording.name in host.known_differences:
        wanted = host.known_differences[recording.name][1](wanted)
    assert host.normalize(sent) == wanted


def assert_refused(host: Host, recording: Recording, answer: httpx2.Response, caller: str) -> None:
    refusal = host.expected_errors[recording.name]
    body = answer.json()
    assert answer.status_code == refusal.status, answer.text
    assert body["error"]["message"] and "type" in body["error"]
    details: dict[str, Any] = body["error"].get("details") or {}
    assert details.get("provider_code") == refusal.code, body
    assert (body.get("type") == "error") == (caller == ANTHROPIC)


@pytest.mark.parametrize(("host", "recording"), cases(PLAIN))
async def test_recorded_non_chat_exchange_round_trips(
    host: Host, recording: Recording, replay: RecordingServer, client: httpx2.AsyncClient
):
    plain = host.non_chat(recording)
    assert plain is not None
    replay.engine.requests.clear()
    model = _name(recording, streamed=recording.streamed)
    answer = await client.post(plain.route, json={**plain.body, "model": model})
    if recording.name in host.refused_params:
        assert answer.status_code in (400, 422) and not replay.engine.requests, answer.text
        return
    assert replay.engine.requests, answer.text
    assert_request_matches(host, recording, *replay.take_request(recording))
    if recording.status != 200:
        assert_refused(host, recording, answer, CHAT)
        return
    assert answer.status_code == 200, answer.text
    if plain.route in PLAIN_ROUTES and plain.body.get("encoding_format") != "base64":
        found = response_errors(PLAIN_ROUTES[plain.route], answer.content, streamed=recording.streamed, written_by_engine=True)
        assert found == []
    plain.check(event_payloads(answer.content) if recording.streamed else answer.json())


def test_every_recording_is_played_once():
    """Every recording is played, and none both as a chat and as something else."""
    if not FOLDER.is_dir():
        pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine")
    names = [recording.id for _, recording in EVERY]
    assert len(set(names)) == len(names)
    evidence = {
        f"{path.parent.name}/{path.stem}"
        for path in FOLDER.glob("*/*.json")
        if msgspec.json.decode(path.read_bytes())["fidelity"].startswith("recorded")
    }
    assert evidence <= set(names)
    assert {recording.id for _, recording in CHATS} ^ {recording.id for _, recording in PLAIN} == set(names)
