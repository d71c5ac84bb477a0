"""Every recorded stream, and those of our own, cut anywhere: however its bytes come, the same is read."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from providers.adapters.provider import Provider
from providers.canonical.chat import ChatResponse
from providers.canonical.events import ResponseAssembler
from providers.catalogue import build_provider
from providers.dialects.catalogue import ENGINE_DIALECTS
from tests.exchanges.hosts.catalogue import HOSTS
from tests.exchanges.hosts.host import Host
from tests.exchanges.hosts.recordings import Recording

STREAMS = [(host, each) for host in HOSTS for each in host.recordings if each.streamed and host.chat(each) is not None]


def read(provider: Provider, dialect: str, blocks: Sequence[bytes]) -> ChatResponse:
    """As app/gateway/attempts.py does it: frames taken off first, where the host puts some around its stream."""
    unwrapping, reader, folding = provider.stream_unwrapper(dialect), ENGINE_DIALECTS[dialect].stream_reader(), ResponseAssembler()
    for block in [*blocks, b""] if unwrapping is not None else blocks:
        for event in reader.feed(block if unwrapping is None else unwrapping.feed(block)):
            folding.feed(event)
    for event in reader.finish():
        folding.feed(event)
    return folding.finish()


def dialect_of(host: Host, recording: Recording, provider: Provider) -> str:
    """In which it was recorded: the one that is pinned, or what the path says."""
    reached = host.reached(recording)
    if reached.dialect is not None:
        return reached.dialect
    spoken = [name for name in provider.spoken_dialects_for(reached.model) if name in ENGINE_DIALECTS]
    here = "http://127.0.0.1:9"
    places = {name: str(provider.url(here, name, reached.model, True)).removeprefix(here) for name in spoken}
    return next((name for name, place in places.items() if host.path(place) == host.path(recording.path)), spoken[0])


@pytest.mark.parametrize(("host", "recording"), [pytest.param(*each, id=each[1].id) for each in STREAMS])
def test_however_a_stream_is_cut_the_same_is_read(host: Host, recording: Recording) -> None:
    reached = host.reached(recording)
    provider = build_provider(reached.adapter, "host", reached.options, "http://127.0.0.1:9")
    dialect = dialect_of(host, recording, provider)
    raw = recording.raw
    whole = read(provider, dialect, [raw])
    assert whole.choices

    @settings(max_examples=5, deadline=None, database=None)
    @given(some.lists(some.integers(0, len(raw)), max_size=30))
    def cut(places: list[int]) -> None:
        ends = sorted({0, len(raw), *places})
        assert read(provider, dialect, [raw[start:end] for start, end in itertools.pairwise(ends)]) == whole

    cut()
    if len(raw) < 4000:
        assert read(provider, dialect, [raw[at : at + 1] for at in range(len(raw))]) == whole
