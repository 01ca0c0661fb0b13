"""The server's log of requests, without the secrets that are in some addresses."""

import logging


class QueryStringFilter(logging.Filter):
    """Leaves out queries: users are named there, and links, states and codes are."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Have uvicorn's record say less; its arguments are client, method, path, …"""
        match record.args:
            case (client, method, str(path), version, status):
                path, query, _ = path.partition("?")
                path += "?…" if query else ""
                record.args = (client, method, path, version, status)
                record.fields = {"method": method, "path": path, "status": status}
        return True
