"""The AWS credential chain: read in a thread, once for all who wait, refreshed ahead of expiry and again after a refusal."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from providers.credentials import CredentialError, UnsignedRequest, aws_key_cache
from providers.credentials.aws import AwsSigner
from providers.credentials.aws_chain import BotocoreChain, region_of
from providers.credentials.aws_key_cache import KeyCache
from providers.credentials.sigv4 import AwsKeys


class ScriptedChain:
    """A chain whose keys are numbered by fetch. A fetch waits for `released`, and raises `error` if there is one."""

    def __init__(self) -> None:
        self.fetched = 0
        self.released = threading.Event()
        self.released.set()
        self.error: Exception | None = None
        self.repeats_keys = False
        self.threads: set[int] = set()

    def open_chain(self) -> "ScriptedChain":
        return self

    def keys(self) -> AwsKeys:
        self.threads.add(threading.get_ident())
        self.released.wait(60)
        self.fetched += 1
        if self.error is not None:
            raise self.error
        return AwsKeys("same" if self.repeats_keys else f"key-{self.fetched}", "secret")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [1000.0]

    class Clock:
        monotonic = staticmethod(lambda: now[0])

    monkeypatch.setattr(aws_key_cache, "time", Clock)

    def advance_s(seconds: float) -> None:
        now[0] += seconds

    return advance_s


async def wait_for_fetch(cache: KeyCache) -> None:
    while cache._fetch_task is not None:  # pyright: ignore[reportPrivateUsage]
        await asyncio.sleep(0)


async def test_concurrent_callers_share_one_fetch_outside_the_event_loop() -> None:
    chain = ScriptedChain()
    cache = KeyCache(chain.open_chain)
    fetched_keys = await asyncio.gather(*(cache.keys() for _ in range(20)))
    assert chain.fetched == 1 and {keys.access_key_id for keys in fetched_keys} == {"key-1"}
    assert threading.get_ident() not in chain.threads


async def test_cancelled_waiter_does_not_disturb_the_others() -> None:
    chain = ScriptedChain()
    chain.released.clear()
    cache = KeyCache(chain.open_chain)
    first, second = asyncio.create_task(cache.keys()), asyncio.create_task(cache.keys())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    chain.released.set()
    assert (await second).access_key_id == "key-1" and chain.fetched == 1


async def test_keys_are_refreshed_in_the_background_before_they_expire(clock: Callable[[float], None]) -> None:
    chain = ScriptedChain()
    cache = KeyCache(chain.open_chain)
    await cache.keys()
    clock(61)
    assert (await cache.keys()).access_key_id == "key-1"  # at once: the keys fetched meanwhile are for the next call
    await wait_for_fetch(cache)
    assert (await cache.keys()).access_key_id == "key-2"
    clock(301)
    assert (await cache.keys()).access_key_id == "key-3"  # keys this old may have expired


async def test_failed_fetch_raises_and_the_next_call_retries() -> None:
    chain = ScriptedChain()
    chain.error = CredentialError("none")
    cache = KeyCache(chain.open_chain)
    with pytest.raises(CredentialError):
        await cache.keys()
    chain.error = None
    assert (await cache.keys()).access_key_id == "key-2"


async def test_failed_background_refresh_keeps_the_current_keys(clock: Callable[[float], None]) -> None:
    chain = ScriptedChain()
    cache = KeyCache(chain.open_chain)
    await cache.keys()
    chain.error = httpx2.ConnectError("away")
    clock(61)
    assert (await cache.keys()).access_key_id == "key-1"
    await wait_for_fetch(cache)
    assert (await cache.keys()).access_key_id == "key-1"


async def test_refused_keys_are_refetched_until_the_same_keys_come_back(clock: Callable[[float], None]) -> None:
    chain = ScriptedChain()
    cache = KeyCache(chain.open_chain)
    await cache.keys()
    assert not cache.invalidate()  # they were fetched just now
    clock(11)
    assert cache.invalidate()
    assert (await cache.keys()).access_key_id == "key-2"
    assert cache.invalidate()  # another request signed with the old keys, and the new ones are already there
    assert (await cache.keys()).access_key_id == "key-2"
    chain.repeats_keys = True
    clock(11)
    assert cache.invalidate() and (await cache.keys()).access_key_id == "same"
    clock(11)
    assert cache.invalidate() and (await cache.keys()).access_key_id == "same"
    assert not cache.invalidate()  # the same keys again: another fetch does not help


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two profiles; the AWS configuration of the real machine is not read."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / "config").write_text("[default]\nregion = eu-north-1\n[profile other]\nregion = ap-south-1\n")
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = AKIDDEFAULT\naws_secret_access_key = s1\n[other]\naws_access_key_id = AKIDOTHER\n"
        "aws_secret_access_key = s2\naws_session_token = t2\n"
    )
    return tmp_path


def test_standard_chain_matches_botocore(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert BotocoreChain(None).keys() == AwsKeys("AKIDDEFAULT", "s1")
    assert BotocoreChain("other").keys() == AwsKeys("AKIDOTHER", "s2", "t2")
    assert (region_of(None), region_of("other"), region_of("absent")) == ("eu-north-1", "ap-south-1", None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3")
    assert BotocoreChain(None).keys() == AwsKeys("AKIDENV", "s3")


async def test_chain_signs_for_its_profiles_region_and_picks_up_rotated_keys(machine: Path, clock: Callable[[float], None]) -> None:
    request = UnsignedRequest("POST", httpx2.URL("https://a.amazonaws.com/"), [], b"")
    signer = AwsSigner("aws:profile:other", "bedrock", None)
    signed = dict(await signer.sign(request))
    assert b"Credential=AKIDOTHER/" in signed[b"authorization"] and b"/ap-south-1/bedrock/" in signed[b"authorization"]
    assert signed[b"x-amz-security-token"] == b"t2"
    (machine / "credentials").write_text("[other]\naws_access_key_id = AKIDNEW\naws_secret_access_key = s9\n")
    clock(11)
    assert signer.invalidate()
    signed = dict(await signer.sign(request))
    assert b"Credential=AKIDNEW/" in signed[b"authorization"] and b"x-amz-security-token" not in signed


def test_missing_credentials_are_reported_and_credential_process_output_is_not_quoted(machine: Path) -> None:
    (machine / "credentials").write_text("")
    with pytest.raises(CredentialError, match="no credentials on this machine"):
        BotocoreChain(None).keys()
    with pytest.raises(CredentialError, match="absent"):
        BotocoreChain("absent").keys()
    (machine / "config").write_text("[profile program]\ncredential_process = sh -c 'echo a-secret >&2; exit 1'\n")
    with pytest.raises(CredentialError) as error:
        BotocoreChain("program").keys()
    assert "a-secret" not in str(error.value)
