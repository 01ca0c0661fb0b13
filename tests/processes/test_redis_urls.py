"""Addresses of the broker, in the forms of redis-py and kombu."""

import os
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from kombu import Connection

from coulisse_site import redis_urls

URLS = [
    ("redis://h", "redis://h"),
    ("redis://:p%40ss@h:6380/2", "redis://:p%40ss@h:6380/2"),
    ("redis://h?db=3", "redis://h/3"),
    ("redis://h/1?db=3", "redis://h/3"),
    ("rediss://u:p@h/1", "rediss://u:p@h/1?ssl_cert_reqs=required"),
    ("rediss://h?ssl_cert_reqs=none", "rediss://h?ssl_cert_reqs=none"),
    ("unix:///a%20b/c.sock", "redis+socket:///a%20b/c.sock?virtual_host=0"),
    ("unix:///c.sock?password=p%40ss", "redis+socket://:p%40ss@/c.sock?virtual_host=0"),
    ("unix://:p@/c.sock?db=3", "redis+socket://:p@/c.sock?virtual_host=3"),
]


@pytest.mark.parametrize(("url", "expected"), URLS)
def test_celery_url_points_to_the_same_server(url: str, expected: str) -> None:
    assert redis_urls.is_valid_url(url)
    assert redis_urls.celery_url(url) == expected


def test_certificates_are_verified_by_default() -> None:
    checked = Connection(redis_urls.celery_url("rediss://h"))
    assert checked.ssl == {"ssl_cert_reqs": ssl.CERT_REQUIRED}


@pytest.mark.parametrize(
    "url", ["h", "http://h", "redis://", "redis://h:port", "redis://h:0", "unix://"]
)
def test_invalid_redis_url_is_refused(url: str) -> None:
    assert not redis_urls.is_valid_url(url)


def test_private_socket_path_fits_the_length_limit(tmp_path: Path) -> None:
    short = Path("/srv/.coulisse")
    assert redis_urls.private_socket_path(short) == short / "broker.sock"
    long = redis_urls.private_socket_path(tmp_path / ("long" * 30))
    other = redis_urls.private_socket_path(tmp_path / ("other" * 30))
    assert long != other
    for path in (long, other):
        assert path.is_relative_to(tempfile.gettempdir())
        assert len(os.fsencode(path)) <= redis_urls.SOCKET_PATH_BYTES


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("REDIS_URL", "http://h", "REDIS_URL must be redis://"),
        ("COULISSE_DATABASE_THREADS", "0", "a whole number of at least 1"),
        ("COULISSE_PROCESSES", "worker", "includes web"),
        ("COULISSE_PROCESSES", "web,cron", "web, worker, beat and"),
        ("COULISSE_WORKER_THREADS", "four", "a whole number of at least 1"),
    ],
)
def test_invalid_setting_is_named(name: str, value: str, expected: str) -> None:
    refused = subprocess.run(
        [sys.executable, "-c", "import coulisse_site.settings"],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 1
    assert expected in refused.stderr
    assert "Traceback" not in refused.stderr
