"""Settings from the environment."""

import pytest

from coulisse_site import environment, settings


@pytest.mark.parametrize(("query", "seconds"), [("", 5), ("?connect_timeout=2", 2)])
def test_postgresql_connections_have_timeouts(monkeypatch, tmp_path, query, seconds):
    monkeypatch.setenv("DATABASE_URL", f"postgres://u:p@h/n{query}")
    database = environment.database_settings(tmp_path)
    assert int(database["OPTIONS"]["connect_timeout"]) == seconds
    assert database["OPTIONS"]["tcp_user_timeout"] == 30_000
    assert database["PASSWORD"] == "p"


def test_redis_connections_have_timeouts():
    (layer,) = settings.CHANNEL_LAYERS["default"]["CONFIG"]["hosts"]
    for options in (settings.CELERY_BROKER_TRANSPORT_OPTIONS, layer):
        assert 0 < options["socket_connect_timeout"] <= 5
        assert 0 < options["socket_timeout"] <= 10
