"""The doctor's findings about signing in."""

from app.doctor import sign_in
from app.settings import IssuerUrl, PublicUrl, Settings
from tests.support.processes.oidc_issuer import CLIENT_ID, OidcIssuer


async def test_doctor_reports_an_issuer_that_answers_and_what_is_missing() -> None:
    issuer = OidcIssuer()
    try:
        url = PublicUrl("https://narthex.example.com")
        settings = Settings(oidc_issuer=IssuerUrl(issuer.url), oidc_client_id=CLIENT_ID, public_url=url)
        [found] = await sign_in.diagnose(settings)
        assert found.severity == "ok" and "browsers and `narthex login`" in found.message
        [missing, scopes] = await sign_in.diagnose(Settings(oidc_issuer=IssuerUrl(issuer.url), oidc_scopes="email"))
        assert "NARTHEX_OIDC_CLIENT_ID and NARTHEX_PUBLIC_URL" in missing.message and "openid" in scopes.message
    finally:
        issuer.close()
    [unreachable] = await sign_in.diagnose(settings)
    assert unreachable.severity == "error" and "cannot be reached" in unreachable.message
    assert await sign_in.diagnose(Settings()) == []
