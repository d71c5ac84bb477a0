"""docs/clients.md holds what is generated from the clients and from what is known not to work."""

from tests.clients.clients import CLIENTS
from tests.clients.page import PAGE, page
from tests.clients.setups import SETUPS


def test_clients_page_holds_the_generated_tables() -> None:
    assert PAGE.read_text("utf-8") == page(), "update docs/clients.md: python -m tests.clients.page writes it"


def test_every_client_has_a_setup() -> None:
    assert sorted(name for setup in SETUPS for name in setup.clients) == sorted(map(str, CLIENTS))
