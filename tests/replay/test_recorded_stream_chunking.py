"""Every recorded stream, and every constructed one, reads the same wherever its bytes are cut."""

import itertools
from collections.abc import Sequence

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
from tests.support.case_tables import one_test_per_group

STREAMS = [(host, each) for host in HOSTS for each in host.recordings if each.streamed and host.chat(each) is not None]


def read_stream(provider: Provider, dialect: str, blocks: Sequence[bytes]) -> ChatResponse:
    """Read a stream as app/gateway/attempts/attempts.py does: first without the host's frames, where it wraps its stream in some."""
    unwrapper, reader, assembler = provider.stream_unwrapper(dialect), ENGINE_DIALECTS[dialect].stream_reader(), ResponseAssembler()
    for block in [*blocks, b""] if unwrapper is not None else blocks:
        for event in reader.feed(block if unwrapper is None else unwrapper.feed(block)):
            assembler.feed(event)
    for event in reader.finish():
        assembler.feed(event)
    return assembler.finish()


def recorded_dialect(host: Host, recording: Recording, provider: Provider) -> str:
    """The dialect of a recording: the one that its target pins, else the one whose path was recorded."""
    target = host.provider_target(recording)
    if target.dialect is not None:
        return target.dialect
    dialects = [name for name in provider.spoken_dialects_for(target.model) if name in ENGINE_DIALECTS]
    base_url = "http://127.0.0.1:9"
    paths = {name: str(provider.url(base_url, name, target.model, True)).removeprefix(base_url) for name in dialects}
    return next(
        (name for name, url_path in paths.items() if host.normalize_path(url_path) == host.normalize_path(recording.path)), dialects[0]
    )


def host_folder(stream: tuple[Host, Recording]) -> str:
    return stream[1].folder


def recording_id(stream: tuple[Host, Recording]) -> str:
    return stream[1].id


@one_test_per_group(STREAMS, group=host_folder, name=recording_id)
def test_recorded_stream_reads_the_same_however_its_bytes_are_chunked(stream: tuple[Host, Recording]) -> None:
    host, recording = stream
    target = host.provider_target(recording)
    provider = build_provider(target.adapter, "host", target.options, "http://127.0.0.1:9")
    dialect = recorded_dialect(host, recording, provider)
    raw = recording.raw
    in_one_block = read_stream(provider, dialect, [raw])
    assert in_one_block.choices

    @settings(max_examples=5, deadline=None, database=None)
    @given(some.lists(some.integers(0, len(raw)), max_size=30))
    def check_cuts(places: list[int]) -> None:
        ends = sorted({0, len(raw), *places})
        assert read_stream(provider, dialect, [raw[start:end] for start, end in itertools.pairwise(ends)]) == in_one_block

    check_cuts()
    if len(raw) < 4000:
        assert read_stream(provider, dialect, [raw[at : at + 1] for at in range(len(raw))]) == in_one_block
