"""Runs an operation over REST, at the gateway of this home or at another one."""

from urllib.parse import quote, urlencode

from app.cli.admin_api import AdminAccess, raise_error, send, stream
from app.cli.errors import CommandError
from app.cli.operations.requests import OperationRequest, OperationResponse, open_output, refusal
from app.settings import Settings

_TIMEOUT_S = 30.0


class RemoteRunner:
    def __init__(self, settings: Settings, access: AdminAccess) -> None:
        self._settings = settings
        self._access = access

    def run(self, request: OperationRequest, if_match: str | None) -> OperationResponse:
        command = request.command
        path = "/admin/v1" + command.path.format_map({name: quote(value, safe="") for name, value in request.path.items()})
        query = {**request.query, **({"dry_run": "true"} if request.dry_run else {})}
        path += f"?{urlencode(query)}" if query else ""
        headers = {} if if_match is None else {"if-match": if_match}
        if command.media_type != "application/json":
            with open_output(request) as output:
                for piece in stream(self._settings, self._access, path):
                    output.write(piece)
                    output.flush()
            return OperationResponse(None)
        # An engine's operation may take as long as a request.
        timeout_s = self._settings.total_timeout_s + _TIMEOUT_S if not command.is_local else 3 * command.timeout_s + _TIMEOUT_S
        response = send(self._settings, self._access, command.method, path, request.body, timeout_s=timeout_s, headers=headers)
        if response.status >= 400:
            try:
                raise_error(self._access, response)
            except CommandError as fault:
                raise refusal(fault.format_message(), response.status, command) from fault
        behind, served = response.headers.get("x-narthex-not-applied"), response.headers.get("x-narthex-applied", "none")
        applied = f"of all workers, these serve it: {served}."
        warning = f"the change is stored, but these do not serve it yet: {behind}" if behind else ""
        return OperationResponse(response.document, warning, applied)
