"""An OpenID Connect issuer: a real HTTP server with discovery, keys, authorization code with PKCE, device flow and userinfo.

Whoever is sent to it is `person`, who agrees at once. It is strict: codes are for one use, and clients must prove themselves.
"""

import base64
import contextlib
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import Key, generate_key

CLIENT_ID = "narthex-test"
CLIENT_SECRET = "a secret: with / and + and %"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_LIFETIME_S = 300


class OidcIssuer:
    """An identity provider for OpenID Connect."""

    def __init__(self) -> None:
        self.person: dict[str, Any] = {}
        self.changed_claims: dict[str, Any] = {}  # of the ID token, before it is signed; None: it has none
        self.in_id_token = True  # False: the person's claims are in userinfo only
        self.refuses = False
        self.is_down = False
        # by route, what it answers instead of what it should: a status, and bytes or an object
        self.answers: dict[str, Callable[[], tuple[int, Any]]] = {}
        self.issued_tokens: list[str] = []
        self.published_keys: Sequence[Key] = ()
        self.rotate_key("RS256")
        self._grants: dict[str, dict[str, str]] = {}  # code -> what it was issued for
        self._devices: dict[str, dict[str, str]] = {}
        self._people_of_tokens: dict[str, dict[str, Any]] = {}
        handler = type("Handler", (_Handler,), {"issuer": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/realms/test"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def rotate_key(self, algorithm: Literal["RS256", "ES256"]) -> None:
        """Signs tokens with a new key from now on, and forgets the old one."""
        key = generate_key("RSA", 2048, auto_kid=True) if algorithm == "RS256" else generate_key("EC", "P-256", auto_kid=True)
        self._algorithm, self._key, self.published_keys = algorithm, key, [key]

    def approve_device(self, user_code: str, status: Literal["approved", "denied"] = "approved") -> None:
        """Answers as a person does who has entered the code."""
        next(each for each in self._devices.values() if each["user_code"] == user_code)["status"] = status

    # What the server answers: a status, and a JSON object or the address of a redirect.

    def answer(self, method: str, path: str, query: dict[str, str], form: dict[str, str], headers: dict[str, str]) -> tuple[int, Any]:
        route = path.removeprefix("/realms/test")
        if self.is_down:
            return 503, {"error": "temporarily_unavailable"}
        if route in self.answers:
            return self.answers[route]()
        match method, route:
            case "GET", "/.well-known/openid-configuration":
                return 200, self._discovery()
            case "GET", "/keys":
                return 200, {
                    "keys": [{**key.as_dict(private=False), "use": "sig"} for key in self.published_keys] + [{"kty": "oct", "k": "eA"}]
                }
            case "GET", "/authorize":
                return 302, self._authorize(query)
            case "GET", "/userinfo":
                token = headers.get("authorization", "").removeprefix("Bearer ")
                return (200, self._people_of_tokens[token]) if token in self._people_of_tokens else (401, {"error": "invalid_token"})
            case _:
                pass
        if self._authenticated_client(form, headers) != CLIENT_ID:
            return 401, {"error": "invalid_client", "error_description": "who are you?"}
        if route == "/device":
            code, user_code = secrets.token_urlsafe(24), secrets.token_hex(4).upper()
            self._devices[code] = {"user_code": user_code, "status": "pending"}
            link = f"{self.url}/enter"
            links = {"verification_uri": link, "verification_uri_complete": f"{link}?user_code={user_code}"}
            return 200, {"device_code": code, "user_code": user_code, **links, "expires_in": 60, "interval": 1}
        return self._redeem(form)

    def _discovery(self) -> dict[str, Any]:
        endpoints = {"authorization": "authorize", "token": "token", "userinfo": "userinfo", "device_authorization": "device"}
        return {
            "issuer": self.url,
            **{f"{name}_endpoint": f"{self.url}/{route}" for name, route in endpoints.items()},
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }

    def _authorize(self, query: dict[str, str]) -> str:
        assert query["response_type"] == "code" and query["client_id"] == CLIENT_ID and "openid" in query["scope"].split()
        assert query["code_challenge_method"] == "S256"
        back: dict[str, str] = {"state": query["state"], "session_state": "unknown to the client", "iss": self.url}
        if self.refuses:
            back |= {"error": "access_denied", "error_description": "The <b>person</b> said no."}
        else:
            code = secrets.token_urlsafe(24)
            self._grants[code] = {name: query[name] for name in ("nonce", "code_challenge", "redirect_uri")}
            back["code"] = code
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def _redeem(self, form: dict[str, str]) -> tuple[int, Any]:
        if form.get("grant_type") == DEVICE_GRANT:
            device = self._devices.get(form["device_code"])
            if device is None:
                return 400, {"error": "invalid_grant"}
            if device["status"] != "approved":
                return 400, {"error": {"pending": "authorization_pending", "denied": "access_denied"}[device["status"]]}
            del self._devices[form["device_code"]]
            return 200, self._tokens({})
        grant = self._grants.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).decode().rstrip("=")
        if grant is None or grant["code_challenge"] != challenge or grant["redirect_uri"] != form.get("redirect_uri"):
            return 400, {"error": "invalid_grant", "error_description": "Code not valid"}
        return 200, self._tokens({"nonce": grant["nonce"]})

    def _tokens(self, more: dict[str, str]) -> dict[str, Any]:
        now, access_token = int(time.time()), secrets.token_urlsafe(24)
        self._people_of_tokens[access_token] = self.person
        person = self.person if self.in_id_token else {"sub": self.person["sub"]}
        claims: dict[str, Any] = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + _LIFETIME_S, **person, **more}
        claims = {name: value for name, value in {**claims, **self.changed_claims}.items() if value is not None}
        header = {"alg": self._algorithm, "kid": self._key.kid}
        id_token = jwt.encode(header, claims, self._key)
        self.issued_tokens += [access_token, id_token]
        return {"id_token": id_token, "access_token": access_token, "token_type": "Bearer"}

    @staticmethod
    def _authenticated_client(form: dict[str, str], headers: dict[str, str]) -> str | None:
        scheme, _, pair = headers.get("authorization", "").partition(" ")
        if scheme != "Basic":
            return None
        [(id, secret)] = parse_qsl(base64.b64decode(pair).decode().replace(":", "=", 1))
        return id if secret == CLIENT_SECRET and form.get("client_id") == id else None


class _Handler(BaseHTTPRequestHandler):
    issuer: OidcIssuer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        url = urlsplit(self.path)
        form = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, answer = self.issuer.answer(self.command, url.path, dict(parse_qsl(url.query)), dict(parse_qsl(form)), headers)
        body = b"" if status == 302 else answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Location", str(answer)) if status == 302 else self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # Whoever asked reads no more of what is too large.
            self.wfile.write(body)
