"""The fleet: what one endpoint answers to its probe is no matter of the others'."""

import asyncio

import httpx

from app.domain import Directory, ModelConfig, ProviderConfig, Target
from app.gateway.fleet import Endpoint, Fleet
from app.settings import Settings

ADDRESSES = ("http://odd:1", "http://whole:2")
TARGET = Target("gpu", "m", endpoints=ADDRESSES)
DIRECTORY = Directory(1, "h", {"gpu": ProviderConfig("vllm", ADDRESSES[0])}, {"m": ModelConfig((TARGET,))})


def answered(request: httpx.Request) -> httpx.Response:
    if request.url.host == "whole":
        return httpx.Response(200, content=b'{"version": "0.11.0"}')
    return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"not gzip"))


async def test_an_answer_that_cannot_be_read_does_not_end_the_probing():
    fleet = Fleet(Settings(probe_interval_s=0.01), httpx.MockTransport(answered))
    fleet.swap(DIRECTORY)
    fleet.start()
    try:
        for _ in range(3):  # asked again and again: the last one learns after the odd one was met several times
            whole = _endpoint(fleet, "http://whole:2")
            whole.provider = whole.provider.at_version(None)
            async with asyncio.timeout(2):
                while whole.provider.version != (0, 11, 0):
                    await asyncio.sleep(0.005)
    finally:
        fleet.stop()


def _endpoint(fleet: Fleet, address: str) -> Endpoint:
    return next(endpoint for endpoint in fleet.choose(TARGET) if endpoint.base_url == address)
