"""An unknown path that is nearly one of ours names it."""

import pytest

from app.api.server.meant_path import meant_path


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("//v1//messages", "/v1/messages"),
        ("/V1/Models", "/v1/models"),
        ("/models", "/v1/models"),
        ("/v1/health/ready", "/health/ready"),
        ("/v1/nothing", None),
        ("/v1/messages", None),
        ("/", None),
    ],
)
def test_path_that_differs_in_slashes_or_v1_is_recognised(path: str, meant: str | None):
    served = {"/v1/chat/completions", "/v1/messages", "/v1/models", "/health/ready"}
    assert meant_path(path, served) == meant
