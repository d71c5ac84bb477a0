"""The reference for each address: made once, and not for as many addresses as somebody likes to name."""

import gzip

import pytest

from app.api.openapi.addressed_pages import AddressedPages
from app.api.server.response_coding import accepts_gzip


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def test_page_is_made_once_for_each_address():
    made: list[str] = []

    def make(address: str) -> bytes:
        made.append(address)
        return f"at {address}".encode()

    pages = AddressedPages(make, "default")
    for address in ("a", "b", "a", "default", "b", "default"):
        page = await pages.page(address)
        assert page.plain == gzip.decompress(page.compressed) == f"at {address}".encode()
    assert sorted(made) == ["a", "b", "default"]


async def test_many_addresses_cost_a_page_each_second_and_those_in_use_stay():
    made: list[str] = []

    def make(address: str) -> bytes:
        made.append(address)
        return address.encode()

    clock = Clock()
    pages = AddressedPages(make, "default", clock)
    usual = await pages.page("usual")
    for number in range(1_000):
        clock.now_s += 0.01
        assert (await pages.page(f"host-{number}")).plain in (f"host-{number}".encode(), b"default")
        assert (await pages.page("usual")) is usual
    assert len(made) <= 8 + 10 + 1


@pytest.mark.parametrize(
    ("header", "accepted"),
    [("gzip", True), ("br;q=1.0, GZIP;q=0.8", True), ("*", True), ("", False), ("gzip;q=0", False), ("identity, br", False)],
)
def test_gzip_is_sent_to_those_who_take_it(header: str, accepted: bool):
    assert accepts_gzip(header) is accepted
