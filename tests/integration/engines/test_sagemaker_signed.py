"""SageMaker: requests carry the signature that botocore computes, and responses arrive in AWS event frames."""

import datetime
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2
import openai
import pytest
from botocore.auth import SigV4Auth  # pyright: ignore[reportMissingTypeStubs]
from botocore.awsrequest import AWSRequest  # pyright: ignore[reportMissingTypeStubs]
from botocore.credentials import Credentials  # pyright: ignore[reportMissingTypeStubs]

from tests.support.processes.service import Service
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, completion
from tests.support.sdk_callers import HI, Caller
from tests.support.strategies import aws_event_frames as frames

TOKEN = "a/session+token=="
REFUSED = b'{"message":"The request signature we calculated does not match the signature you provided."}'


class FakeSageMaker:
    """Accepts requests signed with `secret`. `frames`: its streamed response; `body`: its other response; `refused`: how many were not."""

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.server.script = self._answer
        self.reset()

    def reset(self) -> None:
        self.secret = "secret-1"
        self.body: Any = completion()
        self.frames: list[bytes] = [frames.event("PayloadPart", piece) for piece in split_stream(HELLO)]
        self.status = 200
        self.extra_headers: dict[str, str] = {}
        self.refused = 0
        self.server.requests.clear()

    async def _answer(self, request: ReceivedRequest) -> None:
        if request.headers.get("authorization") != expected_signature(request, f"127.0.0.1:{self.server.port}", self.secret):
            self.refused += 1
            await request.respond(403, REFUSED, "x-amzn-errortype: InvalidSignatureException:http://x/\r\n")
        elif request.path.endswith("-response-stream"):
            request.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n")
            for frame in self.frames:
                request.send_chunk(frame[:9])
                request.send_chunk(frame[9:])
            request.end_stream()
            await request.writer.drain()
        else:
            headers = "".join(f"{name}: {value}\r\n" for name, value in self.extra_headers.items())
            await request.respond(self.status, json.dumps(self.body).encode(), headers + "content-type: application/json\r\n")


def split_stream(chunks: Any) -> list[bytes]:
    """The stream of a container, cut within its lines."""
    stream = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks) + b"data: [DONE]\n\n"
    return [stream[at : at + 100] for at in range(0, len(stream), 100)]


def expected_signature(request: ReceivedRequest, host: str, secret: str) -> str:
    """Returns what AWS's own library signs for this request, with its signed headers and at its time."""
    authorization = request.headers["authorization"]
    signed = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert {"host", "content-type", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"} <= set(signed)
    unsigned = AWSRequest(method="POST", url=f"http://{host}{request.path}", data=request.raw)
    for name in signed:
        unsigned.headers[name] = request.headers[name]
    at = datetime.datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    assert abs((datetime.datetime.now(datetime.UTC) - at).total_seconds()) < 60
    signer = SigV4Auth(Credentials("AKIDEXAMPLE", secret, TOKEN), "sagemaker", "eu-west-1")  # pyright: ignore[reportUnknownVariableType]
    del unsigned.headers["x-amz-content-sha256"]
    unsigned.headers["x-amz-content-sha256"] = signer.payload(unsigned)  # pyright: ignore
    with mock.patch("botocore.auth.get_current_datetime", lambda: at):
        signer.add_auth(unsigned)  # pyright: ignore[reportUnknownMemberType]
    return str(unsigned.headers["authorization"])


@pytest.fixture(scope="module")
def secret_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("aws") / "credential"


@pytest.fixture(scope="module")
async def running(service: Service, secret_file: Path) -> AsyncGenerator[FakeSageMaker]:
    amazon = FakeSageMaker()
    await amazon.server.start()
    refused_file = secret_file.with_name("refused")
    for file in (secret_file, refused_file):
        write_credential(file, "secret-1")
    sagemaker = f'adapter = "sagemaker", base_url = "http://127.0.0.1:{amazon.server.port}/pre", credential = "file:{secret_file}"'
    service.apply(f"""
        [providers]
        sm = {{ {sagemaker} }}
        prompts = {{ {sagemaker}, options = {{ payload = "tgi_generate", inference_component = "ic" }} }}
        at-home = {{ adapter = "sagemaker", credential = "aws:default", options = {{ region = "eu-west-1" }} }}
        refusing = {{ {sagemaker.replace(str(secret_file), str(refused_file))} }}
        [models]
        refusing = {{ targets = [{{ provider = "refusing", model = "my-endpoint" }}] }}
        sm = {{ targets = [{{ provider = "sm", model = "my-endpoint" }}] }}
        prompts = {{ targets = [{{ provider = "prompts", model = "my-endpoint" }}] }}
    """)
    yield amazon
    await amazon.server.stop()


@pytest.fixture
def amazon(running: FakeSageMaker, secret_file: Path) -> FakeSageMaker:
    running.reset()
    write_credential(secret_file, "secret-1")
    return running


def write_credential(file: Path, secret: str) -> None:
    credential = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": secret, "session_token": TOKEN, "region": "eu-west-1"}
    file.write_text(json.dumps(credential, indent=1))


async def test_signed_requests_are_answered_streamed_or_not(amazon: FakeSageMaker, caller: Caller) -> None:
    created, streamed = await caller.create("sm"), await caller.stream("sm")
    assert (created.text, created.finish, created.output_tokens) == ("Hello.", "stop", 2)
    assert streamed == created and amazon.refused == 0
    assert [request.path for request in amazon.server.requests] == [
        "/pre/endpoints/my-endpoint/invocations",
        "/pre/endpoints/my-endpoint/invocations-response-stream",
    ]
    assert all("model" not in request.body for request in amazon.server.requests)


async def test_rotated_secret_fails_no_request(amazon: FakeSageMaker, secret_file: Path, sdk: openai.AsyncOpenAI) -> None:
    await sdk.chat.completions.create(model="sm", messages=HI)
    amazon.secret = "secret-2"
    write_credential(secret_file, "secret-2")
    for _ in range(4):
        answer = await sdk.chat.completions.create(model="sm", messages=HI)
        assert answer.choices[0].message.content == "Hello."
    assert amazon.refused <= 2  # once in each worker


async def test_stream_exception_is_raised_after_the_text_before_it(amazon: FakeSageMaker, sdk: openai.AsyncOpenAI) -> None:
    payload = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in HELLO[:2])
    amazon.frames = [frames.event("PayloadPart", payload) + frames.exception("InternalStreamFailure", b'{"Message":"Try again."}')]
    received = ""
    with pytest.raises(openai.APIError, match=r"Try again\."):
        async for chunk in await sdk.chat.completions.create(model="sm", messages=HI, stream=True):
            received += chunk.choices[0].delta.content or ""
    assert received == "Hel"


async def test_container_refusal_reaches_the_caller(amazon: FakeSageMaker, client: httpx2.AsyncClient) -> None:
    amazon.status, amazon.extra_headers = 424, {"x-amzn-errortype": "ModelError"}
    inner = '{"error":"Input validation error: `inputs` must have less than 1024 tokens","error_type":"validation"}'
    amazon.body = {"ErrorCode": "CLIENT_ERROR_FROM_MODEL", "Message": "x", "OriginalStatusCode": 422, "OriginalMessage": inner}
    answer = await client.post("/v1/chat/completions", json={"model": "sm", "messages": HI})
    assert answer.status_code == 422 and "less than 1024 tokens" in answer.json()["error"]["message"]


async def test_completion_is_served_by_the_generate_route_of_a_container(amazon: FakeSageMaker, sdk: openai.AsyncOpenAI) -> None:
    details = {"finish_reason": "length", "generated_tokens": 2}
    amazon.body = [{"generated_text": " there was", "details": details}]
    tokens: list[dict[str, Any]] = [{"token": {"text": " there", "special": False}}, {"token": {"text": " was", "special": False}}]
    tokens[-1] |= {"generated_text": " there was", "details": {**details, "input_length": 1}}
    amazon.frames = [frames.event("PayloadPart", b"data:" + json.dumps(each).encode() + b"\n\n") for each in tokens]
    created = await sdk.completions.create(model="prompts", prompt="Once", max_tokens=2, temperature=0)
    assert (created.choices[0].text, created.choices[0].finish_reason) == (" there was", "length")
    stream = await sdk.completions.create(model="prompts", prompt="Once", max_tokens=2, stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == " there was"
    sent = amazon.server.requests[0]
    assert sent.body == {
        "inputs": "Once",
        "parameters": {"return_full_text": False, "details": True, "do_sample": False, "max_new_tokens": 2},
        "stream": False,
    }
    assert sent.headers["x-amzn-sagemaker-inference-component"] == "ic"


async def test_refused_signature_error_reveals_no_secret(amazon: FakeSageMaker, client: httpx2.AsyncClient) -> None:
    """The request goes to a provider of its own, whose credential is in cooldown afterwards."""
    amazon.secret = "another"
    answer = await client.post("/v1/chat/completions", json={"model": "refusing", "messages": HI})
    assert answer.status_code == 502 and "signature" in answer.json()["error"]["message"]
    assert "secret-" not in answer.text and TOKEN not in answer.text and "AKIDEXAMPLE" not in answer.text
