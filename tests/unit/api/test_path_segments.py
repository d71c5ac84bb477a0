"""Paths: a segment is decoded by itself, and the admin routes have one spelling."""

import pytest

from app.api.server.path_segments import decode_slashes, routed_path


@pytest.mark.parametrize(
    "sent",
    [
        *("/admin%2Fv1/keys", "/admin%2fv1%2Fkeys", "/admin/v1%2Fkeys", "/admin/v1/keys%2Fabc%2Frotate", "/%2Fadmin/v1/keys"),
        *("//admin/v1/keys", "/%61dmin/v1/keys", "//%61dmin/v1/keys", "/v1%2Fchat/completions"),
    ],
)
def test_second_spelling_of_a_route_leads_to_no_route(sent: str):
    routed = "/" + "/".join(each for each in routed_path(sent).split("/") if each)  # as the router reads it
    assert routed not in ("/admin/v1/keys", "/admin/v1/keys/abc/rotate", "/v1/chat/completions")


@pytest.mark.parametrize(
    ("sent", "routed", "name"),
    [
        ("/v1/models/org%2Fmodel", "/v1/models/org%2Fmodel", "/v1/models/org/model"),
        ("/v1/models/org/model", "/v1/models/org/model", "/v1/models/org/model"),
        ("/admin/v1/credentials/a%20b%C3%A4", "/admin/v1/credentials/a bä", "/admin/v1/credentials/a bä"),
        ("/v1/models/a%252Fb", "/v1/models/a%252Fb", "/v1/models/a%2Fb"),
        ("/v1/models/100%25", "/v1/models/100%25", "/v1/models/100%"),
        ("/v1/models/a%2F%2Fb%2F", "/v1/models/a%2F%2Fb%2F", "/v1/models/a//b/"),
        ("/v1//models", "/v1//models", "/v1//models"),
    ],
)
def test_names_keep_their_slashes_and_escapes(sent: str, routed: str, name: str):
    assert (routed_path(sent), decode_slashes(routed_path(sent))) == (routed, name)
