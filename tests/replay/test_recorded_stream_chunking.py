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
from tests.replay.hosts.catalogue import HOSTS
from tests.replay.hosts.host import Host
from tests.replay.hosts.recordings import Recording

STREAMS = [(host, each) for host in HOSTS for each in host.recordings if each.streamed and host.chat(each) is not None]


def read_stream(provider: Provider, dialect: str, blocks: Sequence[bytes]) -> ChatResponse:
    """As app/gateway/attempts.py does it: frames taken off first, where the host puts some around its stream."""
    unwrapper, reader, assembler = provider.stream_unwrapper(dialect), ENGINE_DIALECTS[dialect].stream_reader(), ResponseAssembler()
    for block in [*blocks, b""] if unwrapper is not None else blocks:
        for event in reader.feed(block if unwrapper is None else unwrapper.feed(block)):
            assembler.feed(event)
    for event in reader.finish():
        assembler.feed(event)
    return assembler.finish()


def recorded_dialect(host: Host, recording: Recording, provider: Provider) -> str:
    """In which it was recorded: the one that is pinned, or what the path says."""
    target = host.provider_target(recording)
    if target.dialect is not None:
        return target.dialect
    dialects = [name for name in provider.spoken_dialects_for(target.model) if name in ENGINE_DIALECTS]
    here = "http://127.0.0.1:9"
    paths = {name: str(provider.url(here, name, target.model, True)).removeprefix(here) for name in dialects}
    return next(
        (name for name, url_path in paths.items() if host.normalize_path(url_path) == host.normalize_path(recording.path)), dialects[0]
    )


@pytest.mark.parametrize(("host", "recording"), [pytest.param(*each, id=each[1].id) for each in STREAMS])
def test_recorded_stream_reads_the_same_however_its_bytes_are_chunked(host: Host, recording: Recording) -> None:
    target = host.provider_target(recording)
    provider = build_provider(target.adapter, "host", target.options, "http://127.0.0.1:9")
    dialect = recorded_dialect(host, recording, provider)
    raw = recording.raw
    whole = read_stream(provider, dialect, [raw])
    assert whole.choices

    @settings(max_examples=5, deadline=None, database=None)
    @given(some.lists(some.integers(0, len(raw)), max_size=30))
    def cut(places: list[int]) -> None:
        ends = sorted({0, len(raw), *places})
        assert read_stream(provider, dialect, [raw[start:end] for start, end in itertools.pairwise(ends)]) == whole

    cut()
    if len(raw) < 4000:
        assert read_stream(provider, dialect, [raw[at : at + 1] for at in range(len(raw))]) == whole
