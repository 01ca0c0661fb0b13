"""What a refusal says about how to be let in: the header `WWW-Authenticate`."""

import re

from mcp_bridge.oauth.authorization_server.http_requests import Answer

PARAMETER = re.compile(r'(?<![\w-])(resource_metadata|scope)=(?:"([^"]*)"|([^\s,"]+))')


def read(refusal: Answer) -> dict[str, str]:
    """Return `resource_metadata` and `scope` of a 401 that has them."""
    if refusal.status != 401:
        return {}
    header = refusal.headers.get("WWW-Authenticate", "")
    found = PARAMETER.findall(header)
    return {name: quoted or plain for name, quoted, plain in found if quoted or plain}
