"""Say by the exit code whether the server in this container answers, by HTTP or by HTTPS."""

import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection

ITSELF = ssl.create_default_context()
ITSELF.check_hostname, ITSELF.verify_mode = False, ssl.CERT_NONE  # its name is not 127.0.0.1


def healthy(port: int) -> bool:
    """Return whether a server at this port says that it is alive."""
    for client in (
        HTTPConnection("127.0.0.1", port, timeout=3),
        HTTPSConnection("127.0.0.1", port, timeout=3, context=ITSELF),
    ):
        try:
            client.request("GET", "/healthz")
            return client.getresponse().status == 200
        except (OSError, HTTPException):  # it speaks the other one, or is not there
            continue
        finally:
            client.close()
    return False


sys.exit(0 if healthy(int(sys.argv[1])) else 1)
