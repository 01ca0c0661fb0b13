"""The server's log of requests, without the secrets that are in some addresses."""

import logging


class Discreet(logging.Filter):
    """Leaves out the query of sign-ins: links, states and codes are in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Have uvicorn's record say less; its arguments are client, method, path, …"""
        match record.args:
            case (client, method, str(path), *rest) if "/mcp/" in path and "?" in path:
                short = path.partition("?")[0] + "?…"
                record.args = (client, method, short, *rest)
        return True
