"""The server's access log, without query strings, which may contain secrets."""

import logging


class QueryStringFilter(logging.Filter):
    """Removes query strings: they contain users, sign-in links, states and codes."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten uvicorn's record; its arguments are client, method, path, …"""
        match record.args:
            case (client, method, str(path), version, status):
                path, query, _ = path.partition("?")
                path += "?…" if query else ""
                record.args = (client, method, path, version, status)
                record.fields = {"method": method, "path": path, "status": status}
        return True
