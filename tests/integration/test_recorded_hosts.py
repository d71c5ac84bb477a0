"""Every recording of a hosted provider, played by a server of real HTTP to the whole gateway, for callers of each dialect, both modes.

What reaches the server means what was recorded; what the callers' SDKs hear is what the host said, in full. Recordings belong to others
and are not part of this project: without the folder beside it, the cases of our own alone are played, and that is said.
"""

import itertools
import json
import random
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import tomli_w
from msgspec.structs import replace

from providers.canonical.chat import ChatRequest
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.dialects.catalogue import CHAT_DIALECTS
from tests.conformance.expected_responses import comparable, expected_response
from tests.conformance.sdk_responses import event_payloads
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES
from tests.conformance.translation import CALLERS
from tests.replay.hosts.catalogue import HOSTS
from tests.replay.hosts.host import Host, ProviderTarget
from tests.replay.hosts.recordings import FOLDER, Recording
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine
from tests.support.service import Service

ROUTES = {CHAT: "/v1/chat/completions", RESPONSES: "/v1/responses", ANTHROPIC: "/v1/messages"}
EVERY = [(host, recording) for host in HOSTS for recording in host.recordings]
CHATS = [each for each in EVERY if each[0].chat(each[1]) is not None]
PLAIN = [each for each in EVERY if each[0].non_chat(each[1]) is not None]
# What hops and lengths decide anew.
_HOPS = ("content-length", "transfer-encoding", "content-encoding", "connection", "date", "server", "set-cookie", "keep-alive")


def cases(pairs: list[tuple[Host, Recording]]) -> list[Any]:
    return [pytest.param(host, recording, id=recording.id) for host, recording in pairs]


class RecordingServer:
    """The server: an address begins with the recording that it plays."""

    def __init__(self) -> None:
        self.engine = ScriptedEngine()
        self.engine.script = self._play
        self._known = {recording.id: recording for _, recording in EVERY}

    async def _play(self, request: ReceivedRequest) -> None:
        folder, name = request.path.split("/")[1:3]
        recording = self._known[f"{folder}/{name}"]
        head = "".join(f"{key}: {value}\r\n" for key, value in recording.headers.items() if key.lower() not in _HOPS)
        if not any(key.lower() == "content-type" for key in recording.headers):
            head += f"content-type: {'text/event-stream' if recording.streamed else 'application/json'}\r\n"
        if not recording.streamed:
            return await request.respond(recording.status, recording.raw, head)
        request.write(f"HTTP/1.1 200 OK\r\n{head}transfer-encoding: chunked\r\n\r\n".encode())
        # Cut anywhere, differently each time, the same in each run.
        chance = random.Random(f"{recording.id}{len(self.engine.requests)}")
        places = sorted({0, len(recording.raw), *(chance.randrange(len(recording.raw) + 1) for _ in range(12))})
        for start, end in itertools.pairwise(places):
            request.send_chunk(recording.raw[start:end])
            await request.writer.drain()
        request.end_stream()
        await request.writer.drain()

    def take_request(self, recording: Recording) -> tuple[str, Any]:
        """Where the last request went, below the base URL, and its body."""
        (request,) = self.engine.requests
        self.engine.requests.clear()
        return request.path.removeprefix(f"/{recording.id}"), request.body


@pytest.fixture(scope="module")
async def replay(service: Service, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RecordingServer]:
    secrets = tmp_path_factory.mktemp("secrets")
    secrets.chmod(0o755)
    playing = RecordingServer()
    await playing.engine.start()
    providers: dict[str, Any] = {}
    models: dict[str, Any] = {}
    for host, recording in EVERY:
        reached = host.provider_target(recording)
        for streamed in (True, False):
            name = _name(recording, streamed=streamed)
            providers[name] = _provider(recording, reached, playing.engine.port, secrets, streamed=streamed)
            target = {"provider": name, "model": reached.model} | ({"dialect": reached.dialect} if reached.dialect else {})
            models[name] = {"targets": [target]}
    before = service.run("export").stdout
    service.apply(tomli_w.dumps({"providers": providers, "models": models}))
    yield playing
    service.apply(before, "--prune")  # hundreds of models would be in the way of other stories
    await playing.engine.stop()


def _name(recording: Recording, *, streamed: bool) -> str:
    """The model for callers who stream, or not."""
    return f"replayed/{recording.id}/{'stream' if streamed else 'whole'}"


def _provider(recording: Recording, reached: ProviderTarget, port: int, secrets: Path, *, streamed: bool) -> dict[str, Any]:
    options = dict(reached.options)
    if streamed != recording.streamed:
        options["stream"] = "only" if recording.streamed else "never"
    provider: dict[str, Any] = {"adapter": reached.adapter, "base_url": f"http://127.0.0.1:{port}/{recording.id}", "options": options}
    if reached.secret is not None:
        place = secrets / recording.id.replace("/", "-")
        place.write_text(reached.secret)
        provider["credential"] = f"file:{place}"
    return provider


def request_for(chat: ChatRequest, caller: str, model: str, *, streamed: bool) -> tuple[dict[str, Any], bool]:
    """What this caller asks, and whether it can say all of it."""
    dialect = CHAT_DIALECTS[caller]
    drop_policy = DropPolicy(lambda _: True, dialect.field_names, caller)
    body = dialect.write_request(replace(chat, model=model), drop_policy)
    says_all = not drop_policy.dropped
    if caller == ANTHROPIC and not body.has_value("max_tokens"):
        body["max_tokens"], says_all = 1000, False
    dialect.prepare_upstream_body(body, streamed, include_usage=True)
    body["model"] = model
    return json.loads(Body(body).write()), says_all


@pytest.mark.parametrize(("host", "recording"), cases(CHATS))
async def test_recorded_chat_round_trips_for_every_caller_dialect_and_mode(
    host: Host, recording: Recording, replay: RecordingServer, client: httpx.AsyncClient
):
    chat = host.chat(recording)
    assert chat is not None
    fully_expressed = 0
    for caller, route in ROUTES.items():
        if (recording.name, caller) in host.excluded_callers:
            continue
        for streamed in (True, False):
            body, says_all = request_for(chat, caller, _name(recording, streamed=streamed), streamed=streamed)
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
            if says_all:
                fully_expressed += 1
                assert_request_matches(host, recording, path, sent)
            if recording.status != 200:
                assert_refused(host, recording, answer, caller)
                continue
            assert answer.status_code == 200, answer.text
            expected = comparable(expected_response(host.expected(recording), caller, streamed=streamed))
            sdk = CALLERS[caller]
            assert comparable(sdk.hear(sdk.take(answer.content, streamed=streamed))) == expected, (caller, streamed)
    assert fully_expressed, "no caller can say what was recorded"


def assert_request_matches(host: Host, recording: Recording, path: str, sent: Any) -> None:
    assert host.normalize_path(path) == host.normalize_path(recording.path)
    if recording.request_body is None:
        return
    wanted = host.normalize(recording.request_body)
    if recording.name in host.known_differences:
        wanted = host.known_differences[recording.name][1](wanted)
    assert host.normalize(sent) == wanted


def assert_refused(host: Host, recording: Recording, answer: httpx.Response, caller: str) -> None:
    refusal = host.expected_errors[recording.name]
    body = answer.json()
    assert answer.status_code == refusal.status, answer.text
    assert body["error"]["message"] and "type" in body["error"]
    details: dict[str, Any] = body["error"].get("details") or {}
    assert details.get("provider_code") == refusal.code, body
    assert (body.get("type") == "error") == (caller == ANTHROPIC)


@pytest.mark.parametrize(("host", "recording"), cases(PLAIN))
async def test_recorded_non_chat_exchange_round_trips(host: Host, recording: Recording, replay: RecordingServer, client: httpx.AsyncClient):
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
    plain.check(event_payloads(answer.content) if recording.streamed else answer.json())


def test_every_recording_is_played_once():
    """And nothing is replayed twice, or both as a chat and beside chats."""
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
