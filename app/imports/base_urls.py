"""Addresses of providers in a source, which may hold secrets: those that cannot be brought are reported without being repeated."""

import httpx2

from app.imports.report import Report


def read_base_url(url: str, path: str, report: Report) -> str | None:
    """The address, if it can be a `base_url`. None: it cannot, which is reported."""
    problem = _find_problem(url)
    if problem is None:
        return url
    report.leave_out(path, problem)
    return None


def _find_problem(url: str) -> str | None:
    not_an_address = "It is not an address such as http://10.0.0.5:8000."
    try:
        parsed = httpx2.URL(url)
        has_port = parsed.port is None or 0 < parsed.port < 65536
    except (httpx2.InvalidURL, ValueError, UnicodeError):
        return not_an_address
    if parsed.scheme not in ("http", "https") or not parsed.host or not has_port or any(each.isspace() for each in url):
        return not_an_address
    if parsed.userinfo:
        return "An address may have no user and password: put them into the provider's `credential`."
    if parsed.query or parsed.fragment or url[-1] in "?#":
        return "An address may have no query or fragment (? or #)."
    return None
