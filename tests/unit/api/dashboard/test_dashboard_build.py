"""The dashboard's build: current, small enough, with nothing inline; and the coding in which a file is sent."""

import re

import pytest

from app.api.dashboard.static_files import StaticFile, best_coding, read_manifest, read_static_files
from dashboard.check_build import FOLDER, source_hash
from dashboard.generate_types import current_files

FIRST_SCRIPT_BYTES, ALL_SCRIPT_BYTES, STYLE_BYTES = 60_000, 150_000, 30_000  # compressed


async def test_types_are_those_of_the_api() -> None:
    for path, content in (await current_files()).items():
        assert path.read_text() == content, f"{path.name}: run `make dashboard`"


def test_build_is_of_these_sources() -> None:
    assert read_manifest().sources == source_hash(), "run `make dashboard`"


def test_scripts_and_styles_are_small() -> None:
    files = read_manifest().files
    scripts = {name: file for name, file in files.items() if name.endswith(".js")}
    assert sum(file.gzip_bytes or 0 for file in scripts.values() if file.first) <= FIRST_SCRIPT_BYTES
    assert sum(file.gzip_bytes or 0 for file in scripts.values()) <= ALL_SCRIPT_BYTES
    assert sum(file.gzip_bytes or 0 for name, file in files.items() if name.endswith(".css")) <= STYLE_BYTES


def test_manifest_says_of_each_file_what_it_is() -> None:
    files = read_static_files()
    for name, built in read_manifest().files.items():
        content = files[name].content
        assert (built.bytes, built.gzip_bytes) == (len(content["identity"]), len(content["gzip"]) if "gzip" in content else None), name


def test_page_has_nothing_inline_and_loads_files_of_this_build_alone() -> None:
    page = read_static_files()["index.html"].content["identity"].decode()
    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", page) == []
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert named and {name.removeprefix("/dashboard/static/") for name in named} <= set(read_manifest().files)


def test_sources_make_no_markup_of_text_and_no_inline_styles() -> None:
    forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|new Function|\beval\(|\sstyle=[{\"']")
    found = [
        f"{path.relative_to(FOLDER)}: {match[0]}"
        for path in (FOLDER / "src").rglob("*.ts*")
        for match in forbidden.finditer(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip", "gzip"),
        ("GZIP;q=0.5", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("", "identity"),
        ("gzip;q=0", "identity"),
        ("deflate", "identity"),
    ],
)
def test_client_gets_the_smallest_coding_that_it_accepts(accepted: str, expected: str) -> None:
    assert best_coding(StaticFile("text/css", "0", {"br": b"1", "gzip": b"12", "identity": b"123"}), accepted) == expected


def test_client_gets_a_font_as_it_is() -> None:
    assert best_coding(StaticFile("font/woff2", "0", {"identity": b"123"}), "br, gzip") == "identity"
