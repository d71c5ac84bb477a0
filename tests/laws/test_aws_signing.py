"""AWS signatures: ours is botocore's, for any request; and no credential shows in what is told."""

import json
from datetime import UTC, datetime
from unittest import mock

import httpx
import pytest
from botocore.auth import SigV4Auth  # pyright: ignore[reportMissingTypeStubs]
from botocore.awsrequest import AWSRequest  # pyright: ignore[reportMissingTypeStubs]
from botocore.credentials import Credentials  # pyright: ignore[reportMissingTypeStubs]
from hypothesis import given
from hypothesis import strategies as st

from providers.credentials import CredentialError, UnsignedRequest
from providers.credentials.aws import AwsSigner
from providers.credentials.sigv4 import AwsKeys, SigV4Signer
from tests.laws.chats import bounded

KEY, SECRET, TOKEN = "AKIDEXAMPLEEXAMPLE12", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "a/session+token=="
GIVEN = {"access_key_id": KEY, "secret_access_key": SECRET}

# As they stand in a path: encoded once.
segments = st.text(st.sampled_from("abzAZ09-._~:%+=@,;!$&'()*"), max_size=8).map(lambda text: text.replace("%", "%3A"))
paths = st.lists(segments, max_size=5).map(lambda parts: "/" + "/".join(parts))
queries = st.lists(st.tuples(segments, segments), max_size=3).map(lambda pairs: "&".join(f"{key}={value}" for key, value in pairs))
hosts = st.sampled_from(
    ["https://bedrock-runtime.eu-west-1.amazonaws.com", "http://127.0.0.1:8080", "https://example.com:443", "http://[::1]:9"]
)
visible = st.text(st.sampled_from("aZ09 \t,;:=/+-"), max_size=12)
headers = st.lists(
    st.tuples(st.sampled_from(["content-type", "accept", "x-amzn-thing", "user-agent", "traceparent", "Anthropic-Beta"]), visible),
    max_size=5,
)


def theirs(request: UnsignedRequest, keys: AwsKeys, service: str, region: str, at: datetime) -> str:
    """As botocore signs the same bytes."""
    like = AWSRequest(method=request.method, url=str(request.url), data=request.body)
    for name, value in request.headers:
        like.headers.add_header(name.decode(), value.decode())  # pyright: ignore
    with mock.patch("botocore.auth.get_current_datetime", lambda: at):
        like.headers["X-Amz-Content-SHA256"] = ""
        del like.headers["X-Amz-Content-SHA256"]
        signer = SigV4Auth(Credentials(keys.access_key_id, keys.secret_access_key, keys.session_token), service, region)  # pyright: ignore
        like.headers["X-Amz-Content-SHA256"] = signer.payload(like)  # pyright: ignore
        signer.add_auth(like)  # pyright: ignore
    return str(like.headers["Authorization"])


@bounded
@given(hosts, paths, queries, headers, st.binary(max_size=50), st.booleans(), st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)))
def test_ours_is_botocores(host: str, path: str, query: str, said: list[tuple[str, str]], body: bytes, passing: bool, at: datetime) -> None:
    at = at.replace(tzinfo=UTC, microsecond=0)
    url = httpx.URL(host + path + (f"?{query}" if query else ""))
    request = UnsignedRequest("POST", url, [(name.encode(), value.strip().encode()) for name, value in said], body)
    keys = AwsKeys(KEY, SECRET, TOKEN if passing else None)
    ours = dict(SigV4Signer(keys, "bedrock", "eu-west-1").sign(request, at.timestamp()))
    assert ours[b"authorization"].decode() == theirs(request, keys, "bedrock", "eu-west-1", at)
    assert ours.get(b"x-amz-security-token") == (TOKEN.encode() if passing else None)


def test_a_pen_signs_the_next_day_too() -> None:
    request = UnsignedRequest("POST", httpx.URL("https://a.amazonaws.com/x"), [], b"{}")
    pen, keys = SigV4Signer(AwsKeys(KEY, SECRET), "sagemaker", "us-east-1"), AwsKeys(KEY, SECRET)
    for at in (datetime(2026, 11, 21, 23, 59, 59, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC)):
        signed = dict(pen.sign(request, at.timestamp()))
        assert signed[b"authorization"].decode() == theirs(request, keys, "sagemaker", "us-east-1", at)


def test_what_is_encoded_in_a_path_is_encoded_again() -> None:
    """An example of AWS's kind, so that the law cannot hold for two that are wrong alike: the canonical path has %253A."""
    plain, encoded = (UnsignedRequest("POST", httpx.URL(f"https://a.amazonaws.com/model/a{colon}0"), [], b"") for colon in (":", "%3A"))
    signatures = [
        dict(SigV4Signer(AwsKeys(KEY, SECRET), "bedrock", "eu-west-1").sign(each, 0))[b"authorization"] for each in (plain, encoded)
    ]
    assert signatures[0] != signatures[1]


async def test_the_options_region_goes_before_the_credentials() -> None:
    request = UnsignedRequest("POST", httpx.URL("https://a.amazonaws.com/"), [], b"")
    for option, said, signed in (("eu-west-1", "us-east-1", b"eu-west-1"), (None, "us-east-1", b"us-east-1")):
        signer = AwsSigner(json.dumps({**GIVEN, "region": said}), "bedrock", option)
        assert b"/" + signed + b"/bedrock/aws4_request" in dict(await signer.sign(request))[b"authorization"]


async def test_without_a_region_nothing_is_signed() -> None:
    with pytest.raises(CredentialError, match="region"):
        await AwsSigner(json.dumps(GIVEN), "bedrock", None).sign(UnsignedRequest("POST", httpx.URL("https://a.b/"), [], b""))


@pytest.mark.parametrize(
    "credential",
    [
        SECRET,
        f'{{"secret_access_key": "{SECRET}"}}',
        json.dumps({**GIVEN, "secret_access_key": ""}),
        json.dumps({**GIVEN, "sesion_token": TOKEN}),
        json.dumps({**GIVEN, "region": "evil.example/#"}),
        json.dumps({**GIVEN, "session_token": 7}),
        json.dumps([SECRET]),
    ],
)
def test_what_is_no_credential_for_aws_is_refused_without_being_repeated(credential: str) -> None:
    with pytest.raises(CredentialError) as fault:
        AwsSigner(credential, "bedrock", None)
    assert SECRET not in str(fault.value) and KEY not in str(fault.value) and TOKEN not in str(fault.value)


def test_no_secret_is_in_what_is_printed() -> None:
    signer = AwsSigner(json.dumps({**GIVEN, "session_token": TOKEN, "region": "eu-west-1"}), "bedrock", None)
    for shown in (repr(signer), repr(AwsKeys(KEY, SECRET, TOKEN)), str(vars(signer))):
        assert SECRET not in shown and KEY not in shown and TOKEN not in shown


def test_keys_that_were_given_are_the_same_after_a_refusal() -> None:
    assert not AwsSigner(json.dumps({**GIVEN, "region": "eu-west-1"}), "bedrock", None).invalidate()
