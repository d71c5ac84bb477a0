"""Images get the label that their first bytes have."""

import base64

import pytest

from providers.canonical.image_types import image_type, relabel_data_url

BYTES = {
    "image/png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    "image/jpeg": b"\xff\xd8\xff\xe0\x00\x10JFIF\x00",
    "image/gif": b"GIF89a\x01\x00\x01\x00",
    "image/webp": b"RIFF\x9c\x1b\x00\x07WEBPVP8 ",
}


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.mark.parametrize("true_type", BYTES)
@pytest.mark.parametrize("label", ["image/png", "image/jpg", "image/x-png", "image/gif"])
def test_first_bytes_win_over_the_label(label: str, true_type: str):
    assert image_type(label, encoded(BYTES[true_type])) == true_type


@pytest.mark.parametrize(
    ("label", "content", "kept"),
    [
        ("image/jpg", b"unknown bytes", "image/jpeg"),
        ("image/svg+xml", b"<svg/>", "image/svg+xml"),
        ("image/webp", b"RIFF\x9c\x1b\x00\x07WAVEfmt ", "image/webp"),
        ("application/pdf", BYTES["image/png"], "application/pdf"),
    ],
)
def test_other_bytes_and_other_media_keep_their_label(label: str, content: bytes, kept: str):
    assert image_type(label, encoded(content)) == kept


def test_data_url_is_relabelled_only_where_its_label_is_wrong():
    data = encoded(BYTES["image/jpeg"])
    assert relabel_data_url(f"data:image/PNG;base64,{data}") == f"data:image/jpeg;base64,{data}"
    assert relabel_data_url(f"data:image/jpg;charset=x;base64,{data}") == f"data:image/jpeg;charset=x;base64,{data}"
    assert relabel_data_url(f"data:image/jpeg;base64,{data}") is None
    assert relabel_data_url("https://example.org/a.png") is None
    assert relabel_data_url("data:image/svg+xml,<svg/>") is None
