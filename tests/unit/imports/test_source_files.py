"""Files of a source: only regular ones, of text, within bounds."""

import os
from pathlib import Path

import pytest

from app.domain.errors import BadConfiguration
from app.imports.source_files import MAX_FILE_BYTES, read_source


def test_text_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: \xc3\xa4\n")
    assert read_source(file) == "a: ä\n"
    file.write_bytes(b"x" * MAX_FILE_BYTES)
    assert len(read_source(file)) == MAX_FILE_BYTES


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\0b", b"x" * (MAX_FILE_BYTES + 1)], ids=["latin", "binary", "large"])
def test_what_is_no_small_text_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(content)
    with pytest.raises(BadConfiguration, match=r"a\.yaml"):
        read_source(file)


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/zero"), tmp_path / "absent", Path("a\0b")):
        with pytest.raises(BadConfiguration):
            read_source(path)
