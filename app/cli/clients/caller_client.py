"""The HTTP client of commands that call a gateway as an application does, with one key."""

import http.client
import ssl
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec

from app.cli.errors import CommandError
from app.cli.gateway_connection import open_connection
from providers.canonical.raw_json import DECODE_ERRORS


class CallerClient:
    """One gateway and one key.

    `key_from` says where the key was found, for error messages. `timeout_s` is the longest silence; the gateway has shorter timeouts
    itself. `verification` is what tls_verification() says of it.
    """

    def __init__(self, url: str, key: str, key_from: str, *, timeout_s: float, verification: ssl.SSLContext | bool) -> None:
        self._url = url
        self._base_path = urlsplit(url).path
        self._key = key
        self._key_from = key_from
        self._timeout_s = timeout_s
        self._verification = verification

    def list_models(self) -> list[dict[str, Any]]:
        """Returns the models and functions that the key may use, as GET /v1/models describes them. Raises CommandError."""
        with self.connect() as connection, self.read_faults():
            connection.request("GET", f"{self._base_path}/v1/models", headers=self.headers())
            with closing(connection.getresponse()) as response:
                if response.status != 200:
                    raise self.read_error(response)
                try:
                    return msgspec.json.decode(response.read(), type=dict[str, Any])["data"]
                except (*DECODE_ERRORS, KeyError):
                    raise CommandError(f"{self._url} does not answer as a gateway does.", status=response.status) from None

    @contextmanager
    def read_faults(self) -> Generator[None]:
        """Raises CommandError for what goes wrong on the connection."""
        try:
            yield
        except TimeoutError as fault:
            raise CommandError(f"The gateway on {self._url} did not answer in time.") from fault
        except (OSError, http.client.HTTPException, ValueError) as fault:
            raise CommandError(f"The connection to {self._url} broke: {fault}") from fault

    @contextmanager
    def connect(self) -> Generator[http.client.HTTPConnection]:
        """Opens a connection. Proxies are ignored: the gateway is ours, and mostly on this machine."""
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(open_connection(self._url, self._verification, None, self._timeout_s))
            except OSError as fault:
                raise CommandError(
                    f"Nothing answers on {self._url} ({fault}). `narthex up` starts a gateway; `narthex doctor` finds out what is wrong."
                ) from fault
            except (http.client.HTTPException, ValueError) as fault:
                raise CommandError(f"The connection to {self._url} broke: {fault}") from fault
            yield connection

    def headers(self) -> dict[str, str]:
        # Closed by the gateway, so that the end of a response shows, whoever sent it.
        return {"authorization": f"Bearer {self._key}", "connection": "close"}

    def read_error(self, response: http.client.HTTPResponse) -> CommandError:
        """Returns the error of a response that is not a success."""
        try:
            error = msgspec.json.decode(response.read(), type=dict[str, dict[str, Any]])["error"]
            message = str(error["message"])
        except (*DECODE_ERRORS, KeyError):
            return CommandError(f"{self._url} answered with status {response.status}, but not as a gateway does.", status=response.status)
        if response.status == 401:
            message += f" The key came from {self._key_from}."
        retry_after = response.headers.get("retry-after")
        if retry_after and "retry_after_s" not in (error.get("details") or {}):  # a limit's message contains it, and more exactly
            message += f" Try again in {retry_after} s."
        details = {"retry_after_s": float(retry_after)} if retry_after and retry_after.isdigit() else {}
        return CommandError(message, status=response.status, code=error.get("code"), **details)
