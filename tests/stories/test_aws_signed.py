"""AWS as it would be: each request is signed, by botocore's own measure, and answers come in AWS's frames."""

import datetime
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import openai
import pytest
from botocore.auth import SigV4Auth  # pyright: ignore[reportMissingTypeStubs]
from botocore.awsrequest import AWSRequest  # pyright: ignore[reportMissingTypeStubs]
from botocore.credentials import Credentials  # pyright: ignore[reportMissingTypeStubs]

from tests.laws import aws_frames as frames
from tests.stories.engines.callers import HI, Caller
from tests.stories.scripted import HELLO, Asked, ScriptedEngine, completion
from tests.stories.service import Service

TOKEN = "a/session+token=="
REFUSED = b'{"message":"The request signature we calculated does not match the signature you provided."}'


class Amazon:
    """It answers those alone who have signed with the secret of today. `frames`: of a stream; `whole`: of what is no stream."""

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.server.script = self._answer
        self.fresh()

    def fresh(self) -> None:
        self.secret = "secret-1"
        self.whole: Any = completion()
        self.frames: list[bytes] = [frames.event("PayloadPart", piece) for piece in pieces(HELLO)]
        self.status = 200
        self.said: dict[str, str] = {}
        self.refused = 0
        self.server.asked.clear()

    async def _answer(self, asked: Asked) -> None:
        if asked.headers.get("authorization") != signature(asked, f"127.0.0.1:{self.server.port}", self.secret):
            self.refused += 1
            await asked.answer(403, REFUSED, "x-amzn-errortype: InvalidSignatureException:http://x/\r\n")
        elif asked.path.endswith("-response-stream"):
            asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n")
            for frame in self.frames:
                asked.piece(frame[:9])
                asked.piece(frame[9:])
            asked.end_stream()
            await asked.writer.drain()
        else:
            headers = "".join(f"{name}: {value}\r\n" for name, value in self.said.items())
            await asked.answer(self.status, json.dumps(self.whole).encode(), headers + "content-type: application/json\r\n")


def pieces(chunks: Any) -> list[bytes]:
    """A container's stream, cut where no line ends."""
    stream = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks) + b"data: [DONE]\n\n"
    return [stream[at : at + 100] for at in range(0, len(stream), 100)]


def signature(asked: Asked, host: str, secret: str) -> str:
    """What AWS's own library signs for the request that came: with the headers that it says are signed, at the time that it says."""
    said = asked.headers["authorization"]
    signed = said.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert {"host", "content-type", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"} <= set(signed)
    like = AWSRequest(method="POST", url=f"http://{host}{asked.path}", data=asked.raw)
    for name in signed:
        like.headers[name] = asked.headers[name]
    at = datetime.datetime.strptime(asked.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    assert abs((datetime.datetime.now(datetime.UTC) - at).total_seconds()) < 60
    signer = SigV4Auth(Credentials("AKIDEXAMPLE", secret, TOKEN), "sagemaker", "eu-west-1")  # pyright: ignore[reportUnknownVariableType]
    del like.headers["x-amz-content-sha256"]
    like.headers["x-amz-content-sha256"] = signer.payload(like)  # pyright: ignore
    with mock.patch("botocore.auth.get_current_datetime", lambda: at):
        signer.add_auth(like)  # pyright: ignore[reportUnknownMemberType]
    return str(like.headers["authorization"])


@pytest.fixture(scope="module")
def secret_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("aws") / "credential"


@pytest.fixture(scope="module")
async def running(service: Service, secret_file: Path) -> AsyncGenerator[Amazon]:
    amazon = Amazon()
    await amazon.server.start()
    keep(secret_file, "secret-1")
    where = f'adapter = "sagemaker", base_url = "http://127.0.0.1:{amazon.server.port}/pre", credential = "file:{secret_file}"'
    service.apply(f"""
        [providers]
        sm = {{ {where} }}
        prompts = {{ {where}, options = {{ payload = "tgi_generate", inference_component = "ic" }} }}
        at-home = {{ adapter = "sagemaker", credential = "aws:default", options = {{ region = "eu-west-1" }} }}
        [models]
        sm = {{ targets = [{{ provider = "sm", model = "my-endpoint" }}] }}
        prompts = {{ targets = [{{ provider = "prompts", model = "my-endpoint" }}] }}
    """)
    yield amazon
    await amazon.server.stop()


@pytest.fixture
def amazon(running: Amazon, secret_file: Path) -> Amazon:
    running.fresh()
    keep(secret_file, "secret-1")
    return running


def keep(file: Path, secret: str) -> None:
    given = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": secret, "session_token": TOKEN, "region": "eu-west-1"}
    file.write_text(json.dumps(given, indent=1))


async def test_signed_requests_are_answered_whole_and_streamed(amazon: Amazon, caller: Caller) -> None:
    whole, streamed = await caller.ask("sm"), await caller.stream("sm")
    assert (whole.text, whole.finish, whole.output_tokens) == ("Hello.", "stop", 2)
    assert streamed == whole and amazon.refused == 0
    assert [asked.path for asked in amazon.server.asked] == [
        "/pre/endpoints/my-endpoint/invocations",
        "/pre/endpoints/my-endpoint/invocations-response-stream",
    ]
    assert all("model" not in asked.body for asked in amazon.server.asked)


async def test_a_rotated_secret_costs_no_request(amazon: Amazon, secret_file: Path, sdk: openai.AsyncOpenAI) -> None:
    await sdk.chat.completions.create(model="sm", messages=HI)
    amazon.secret = "secret-2"
    keep(secret_file, "secret-2")
    for _ in range(4):
        answer = await sdk.chat.completions.create(model="sm", messages=HI)
        assert answer.choices[0].message.content == "Hello."
    assert amazon.refused <= 2  # once in each worker


async def test_an_exception_in_the_stream_comes_after_what_was_said(amazon: Amazon, sdk: openai.AsyncOpenAI) -> None:
    said = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in HELLO[:2])
    amazon.frames = [frames.event("PayloadPart", said) + frames.exception("InternalStreamFailure", b'{"Message":"Try again."}')]
    heard = ""
    with pytest.raises(openai.APIError, match=r"Try again\."):
        async for chunk in await sdk.chat.completions.create(model="sm", messages=HI, stream=True):
            heard += chunk.choices[0].delta.content or ""
    assert heard == "Hel"


async def test_what_a_container_refused_the_caller_is_told(amazon: Amazon, client: httpx.AsyncClient) -> None:
    amazon.status, amazon.said = 424, {"x-amzn-errortype": "ModelError"}
    inner = '{"error":"Input validation error: `inputs` must have less than 1024 tokens","error_type":"validation"}'
    amazon.whole = {"ErrorCode": "CLIENT_ERROR_FROM_MODEL", "Message": "x", "OriginalStatusCode": 422, "OriginalMessage": inner}
    answer = await client.post("/v1/chat/completions", json={"model": "sm", "messages": HI})
    assert answer.status_code == 422 and "less than 1024 tokens" in answer.json()["error"]["message"]


async def test_a_prompt_is_asked_of_generate_and_answered_as_a_completion(amazon: Amazon, sdk: openai.AsyncOpenAI) -> None:
    details = {"finish_reason": "length", "generated_tokens": 2}
    amazon.whole = [{"generated_text": " there was", "details": details}]
    tokens: list[dict[str, Any]] = [{"token": {"text": " there", "special": False}}, {"token": {"text": " was", "special": False}}]
    tokens[-1] |= {"generated_text": " there was", "details": {**details, "input_length": 1}}
    amazon.frames = [frames.event("PayloadPart", b"data:" + json.dumps(each).encode() + b"\n\n") for each in tokens]
    whole = await sdk.completions.create(model="prompts", prompt="Once", max_tokens=2, temperature=0)
    assert (whole.choices[0].text, whole.choices[0].finish_reason) == (" there was", "length")
    stream = await sdk.completions.create(model="prompts", prompt="Once", max_tokens=2, stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == " there was"
    sent = amazon.server.asked[0]
    assert sent.body == {
        "inputs": "Once",
        "parameters": {"return_full_text": False, "details": True, "do_sample": False, "max_new_tokens": 2},
        "stream": False,
    }
    assert sent.headers["x-amzn-sagemaker-inference-component"] == "ic"


async def test_a_secret_that_is_refused_is_not_told(amazon: Amazon, client: httpx.AsyncClient) -> None:
    """Last: the credential rests for a while then."""
    amazon.secret = "another"
    answer = await client.post("/v1/chat/completions", json={"model": "sm", "messages": HI})
    assert answer.status_code == 502 and "signature" in answer.json()["error"]["message"]
    assert "secret-" not in answer.text and TOKEN not in answer.text and "AKIDEXAMPLE" not in answer.text
