"""AWS's own chain: asked on a thread, one at a time for all who wait, ahead of expiry, and again after a refusal."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from providers.credentials import CredentialError, UnsignedRequest
from providers.credentials import aws_chain as chains
from providers.credentials.aws import AwsSigner
from providers.credentials.aws_chain import BotocoreChain, KeyCache, region_of
from providers.credentials.sigv4 import AwsKeys


class Scripted:
    """A chain whose keys are numbered by the fetch that gave them; it waits for `open`, and fails with `fault` where there is one."""

    def __init__(self) -> None:
        self.fetched = 0
        self.open = threading.Event()
        self.open.set()
        self.fault: Exception | None = None
        self.same = False
        self.threads: set[int] = set()

    def begin(self) -> "Scripted":
        return self

    def keys(self) -> AwsKeys:
        self.threads.add(threading.get_ident())
        self.open.wait(5)
        self.fetched += 1
        if self.fault is not None:
            raise self.fault
        return AwsKeys("same" if self.same else f"key-{self.fetched}", "secret")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [1000.0]

    class Clock:
        monotonic = staticmethod(lambda: now[0])

    monkeypatch.setattr(chains, "time", Clock)

    def pass_s(seconds: float) -> None:
        now[0] += seconds

    return pass_s


async def settled(fresh: KeyCache) -> None:
    while fresh._fetch_task is not None:  # pyright: ignore[reportPrivateUsage]
        await asyncio.sleep(0)


async def test_all_who_wait_share_one_fetch_off_the_loop() -> None:
    chain = Scripted()
    fresh = KeyCache(chain.begin)
    found = await asyncio.gather(*(fresh.keys() for _ in range(20)))
    assert chain.fetched == 1 and {keys.access_key_id for keys in found} == {"key-1"}
    assert threading.get_ident() not in chain.threads


async def test_who_leaves_while_waiting_disturbs_no_other() -> None:
    chain = Scripted()
    chain.open.clear()
    fresh = KeyCache(chain.begin)
    first, second = asyncio.create_task(fresh.keys()), asyncio.create_task(fresh.keys())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    chain.open.set()
    assert (await second).access_key_id == "key-1" and chain.fetched == 1


async def test_keys_are_fetched_anew_before_anybody_has_to_wait(clock: Callable[[float], None]) -> None:
    chain = Scripted()
    fresh = KeyCache(chain.begin)
    await fresh.keys()
    clock(61)
    assert (await fresh.keys()).access_key_id == "key-1"  # at once: what is fetched meanwhile is for the next
    await settled(fresh)
    assert (await fresh.keys()).access_key_id == "key-2"
    clock(301)
    assert (await fresh.keys()).access_key_id == "key-3"  # so old may have expired


async def test_a_fetch_that_fails_is_told_and_tried_again() -> None:
    chain = Scripted()
    chain.fault = CredentialError("none")
    fresh = KeyCache(chain.begin)
    with pytest.raises(CredentialError):
        await fresh.keys()
    chain.fault = None
    assert (await fresh.keys()).access_key_id == "key-2"


async def test_a_fetch_that_fails_behind_the_scenes_leaves_what_there_is(clock: Callable[[float], None]) -> None:
    chain = Scripted()
    fresh = KeyCache(chain.begin)
    await fresh.keys()
    chain.fault = httpx.ConnectError("away")
    clock(61)
    assert (await fresh.keys()).access_key_id == "key-1"
    await settled(fresh)
    assert (await fresh.keys()).access_key_id == "key-1"


async def test_after_a_refusal_other_keys_are_hoped_for_once(clock: Callable[[float], None]) -> None:
    chain = Scripted()
    fresh = KeyCache(chain.begin)
    await fresh.keys()
    assert not fresh.invalidate()  # they were fetched just now
    clock(11)
    assert fresh.invalidate()
    assert (await fresh.keys()).access_key_id == "key-2"
    assert fresh.invalidate()  # another request, signed with the old ones: the new ones are there
    assert (await fresh.keys()).access_key_id == "key-2"
    chain.same = True
    clock(11)
    assert fresh.invalidate() and (await fresh.keys()).access_key_id == "same"
    clock(11)
    assert fresh.invalidate() and (await fresh.keys()).access_key_id == "same"
    assert not fresh.invalidate()  # the same again: there is no hope


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whatever this machine's own AWS configuration is, it is not read."""
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


def test_the_standard_chain_is_botocores(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert BotocoreChain(None).keys() == AwsKeys("AKIDDEFAULT", "s1")
    assert BotocoreChain("other").keys() == AwsKeys("AKIDOTHER", "s2", "t2")
    assert (region_of(None), region_of("other"), region_of("absent")) == ("eu-north-1", "ap-south-1", None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3")
    assert BotocoreChain(None).keys() == AwsKeys("AKIDENV", "s3")


async def test_a_chain_signs_for_its_own_region_and_takes_a_rotation_up(machine: Path, clock: Callable[[float], None]) -> None:
    request = UnsignedRequest("POST", httpx.URL("https://a.amazonaws.com/"), [], b"")
    signer = AwsSigner("aws:profile:other", "bedrock", None)
    signed = dict(await signer.sign(request))
    assert b"Credential=AKIDOTHER/" in signed[b"authorization"] and b"/ap-south-1/bedrock/" in signed[b"authorization"]
    assert signed[b"x-amz-security-token"] == b"t2"
    (machine / "credentials").write_text("[other]\naws_access_key_id = AKIDNEW\naws_secret_access_key = s9\n")
    clock(11)
    assert signer.invalidate()
    signed = dict(await signer.sign(request))
    assert b"Credential=AKIDNEW/" in signed[b"authorization"] and b"x-amz-security-token" not in signed


def test_a_chain_without_credentials_says_so_and_a_program_that_fails_is_not_quoted(machine: Path) -> None:
    (machine / "credentials").write_text("")
    with pytest.raises(CredentialError, match="no credentials on this machine"):
        BotocoreChain(None).keys()
    with pytest.raises(CredentialError, match="absent"):
        BotocoreChain("absent").keys()
    (machine / "config").write_text("[profile program]\ncredential_process = sh -c 'echo a-secret >&2; exit 1'\n")
    with pytest.raises(CredentialError) as fault:
        BotocoreChain("program").keys()
    assert "a-secret" not in str(fault.value)
