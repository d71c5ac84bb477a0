"""The health check of the image: ends with 0 if the gateway of this container takes requests.

With the standard library alone, as it runs every few seconds: httpx2 takes longer to import than everything else here together.
"""

import http.client
import os
import ssl
import sys

TIMEOUT_S = 4


def main() -> int:
    host = os.environ.get("NARTHEX_HOST") or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    port = int(os.environ.get("NARTHEX_PORT") or 8787)
    if os.environ.get("NARTHEX_TLS_CERT"):
        # The certificate is for the name that callers use, and nothing of this leaves the container.
        unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=unverified)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/health/ready")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as fault:
        sys.stderr.write(f"no answer: {fault}\n")
        return 1
    sys.stderr.write(f"status {status}\n")
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
