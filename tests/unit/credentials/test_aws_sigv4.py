"""AWS signatures: equal to botocore's for any request, and no credential appears in errors or representations."""

import json
from datetime import UTC, datetime
from unittest import mock

import httpx2
import pytest
from botocore.auth import SigV4Auth  # pyright: ignore[reportMissingTypeStubs]
from botocore.awsrequest import AWSRequest  # pyright: ignore[reportMissingTypeStubs]
from botocore.credentials import Credentials  # pyright: ignore[reportMissingTypeStubs]
from hypothesis import given
from hypothesis import strategies as st

from providers.credentials import CredentialError, UnsignedRequest
from providers.credentials.aws import AwsSigner
from providers.credentials.sigv4 import AwsKeys, SigV4Signer
from tests.support.strategies.chat_strategies import bounded

KEY, SECRET, TOKEN = "AKIDEXAMPLEEXAMPLE12", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "a/session+token=="
STATIC_KEYS = {"access_key_id": KEY, "secret_access_key": SECRET}

# Path segments, percent-encoded once.
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


def botocore_authorization(request: UnsignedRequest, keys: AwsKeys, service: str, region: str, at: datetime) -> str:
    """The authorization header that botocore writes for the same request."""
    botocore_request = AWSRequest(method=request.method, url=str(request.url), data=request.body)
    for name, value in request.headers:
        botocore_request.headers.add_header(name.decode(), value.decode())  # pyright: ignore
    with mock.patch("botocore.auth.get_current_datetime", lambda: at):
        botocore_request.headers["X-Amz-Content-SHA256"] = ""
        del botocore_request.headers["X-Amz-Content-SHA256"]
        signer = SigV4Auth(Credentials(keys.access_key_id, keys.secret_access_key, keys.session_token), service, region)  # pyright: ignore
        botocore_request.headers["X-Amz-Content-SHA256"] = signer.payload(botocore_request)  # pyright: ignore
        signer.add_auth(botocore_request)  # pyright: ignore
    return str(botocore_request.headers["Authorization"])


@bounded
@given(hosts, paths, queries, headers, st.binary(max_size=50), st.booleans(), st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)))
def test_signature_equals_botocores(
    host: str, path: str, query: str, header_pairs: list[tuple[str, str]], body: bytes, has_session_token: bool, at: datetime
) -> None:
    at = at.replace(tzinfo=UTC, microsecond=0)
    url = httpx2.URL(host + path + (f"?{query}" if query else ""))
    request = UnsignedRequest("POST", url, [(name.encode(), value.strip().encode()) for name, value in header_pairs], body)
    keys = AwsKeys(KEY, SECRET, TOKEN if has_session_token else None)
    signed = dict(SigV4Signer(keys, "bedrock", "eu-west-1").sign(request, at.timestamp()))
    assert signed[b"authorization"].decode() == botocore_authorization(request, keys, "bedrock", "eu-west-1", at)
    assert signed.get(b"x-amz-security-token") == (TOKEN.encode() if has_session_token else None)


def test_signer_derives_a_new_key_for_the_next_day() -> None:
    request = UnsignedRequest("POST", httpx2.URL("https://a.amazonaws.com/x"), [], b"{}")
    signer, keys = SigV4Signer(AwsKeys(KEY, SECRET), "sagemaker", "us-east-1"), AwsKeys(KEY, SECRET)
    for at in (datetime(2026, 11, 21, 23, 59, 59, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC)):
        signed = dict(signer.sign(request, at.timestamp()))
        assert signed[b"authorization"].decode() == botocore_authorization(request, keys, "sagemaker", "us-east-1", at)


def test_percent_encoded_path_is_encoded_again_in_the_canonical_path() -> None:
    """Two wrong signers could agree with each other; a canonical path with %253A shows that the path is encoded twice."""
    plain, encoded = (UnsignedRequest("POST", httpx2.URL(f"https://a.amazonaws.com/model/a{colon}0"), [], b"") for colon in (":", "%3A"))
    signatures = [
        dict(SigV4Signer(AwsKeys(KEY, SECRET), "bedrock", "eu-west-1").sign(each, 0))[b"authorization"] for each in (plain, encoded)
    ]
    assert signatures[0] != signatures[1]


async def test_region_option_takes_precedence_over_the_credentials_region() -> None:
    request = UnsignedRequest("POST", httpx2.URL("https://a.amazonaws.com/"), [], b"")
    for option, credential_region, signed in (("eu-west-1", "us-east-1", b"eu-west-1"), (None, "us-east-1", b"us-east-1")):
        signer = AwsSigner(json.dumps({**STATIC_KEYS, "region": credential_region}), "bedrock", option)
        assert b"/" + signed + b"/bedrock/aws4_request" in dict(await signer.sign(request))[b"authorization"]


async def test_signing_without_a_region_is_refused() -> None:
    with pytest.raises(CredentialError, match="region"):
        await AwsSigner(json.dumps(STATIC_KEYS), "bedrock", None).sign(UnsignedRequest("POST", httpx2.URL("https://a.b/"), [], b""))


@pytest.mark.parametrize(
    "credential",
    [
        SECRET,
        f'{{"secret_access_key": "{SECRET}"}}',
        json.dumps({**STATIC_KEYS, "secret_access_key": ""}),
        json.dumps({**STATIC_KEYS, "sesion_token": TOKEN}),
        json.dumps({**STATIC_KEYS, "region": "evil.example/#"}),
        json.dumps({**STATIC_KEYS, "session_token": 7}),
        json.dumps([SECRET]),
    ],
)
def test_invalid_aws_credential_is_refused_without_being_quoted(credential: str) -> None:
    with pytest.raises(CredentialError) as error:
        AwsSigner(credential, "bedrock", None)
    assert SECRET not in str(error.value) and KEY not in str(error.value) and TOKEN not in str(error.value)


def test_repr_of_signer_and_keys_hides_secrets() -> None:
    signer = AwsSigner(json.dumps({**STATIC_KEYS, "session_token": TOKEN, "region": "eu-west-1"}), "bedrock", None)
    for shown in (repr(signer), repr(AwsKeys(KEY, SECRET, TOKEN)), str(vars(signer))):
        assert SECRET not in shown and KEY not in shown and TOKEN not in shown


def test_static_keys_cannot_be_refreshed_after_a_refusal() -> None:
    assert not AwsSigner(json.dumps({**STATIC_KEYS, "region": "eu-west-1"}), "bedrock", None).invalidate()
