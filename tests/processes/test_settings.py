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


def test_postgresql_connections_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("COULISSE_PROCESS", "web-1")
    monkeypatch.setenv("DATABASE_URL", "postgres://u:p@h/n")
    options = environment.database_settings(tmp_path)["OPTIONS"]
    assert options["application_name"] == "coulisse web-1"
    monkeypatch.setenv("DATABASE_URL", "postgres://u:p@h/n?application_name=mine")
    options = environment.database_settings(tmp_path)["OPTIONS"]
    assert options["application_name"] == "mine"


def test_pooler_shares_connections(monkeypatch, tmp_path):
    monkeypatch.setenv("DATABASE_URL", "postgres://u:p@h/n")
    for name, is_off in (("", False), ("transaction", True)):
        monkeypatch.setenv("DATABASE_POOLER", name)
        database = environment.database_settings(tmp_path)
        assert database["DISABLE_SERVER_SIDE_CURSORS"] is is_off
    monkeypatch.setenv("DATABASE_POOLER", "statement")
    with pytest.raises(SystemExit, match="DATABASE_POOLER must be transaction"):
        environment.database_settings(tmp_path)


@pytest.mark.parametrize(
    "url",
    ["postgres://app:s3c/ret@h/n", "postgres://u:p@h:abc/n", "postgres://h:99999"],
)
def test_invalid_url_is_refused_without_its_password(monkeypatch, tmp_path, url):
    monkeypatch.setenv("DATABASE_URL", url)
    with pytest.raises(SystemExit, match="percent-encoded") as caught:
        environment.database_settings(tmp_path)
    assert "s3c" not in str(caught.value)


def test_redis_connections_have_timeouts():
    (layer,) = settings.CHANNEL_LAYERS["default"]["CONFIG"]["hosts"]
    for options in (settings.CELERY_BROKER_TRANSPORT_OPTIONS, layer):
        assert 0 < options["socket_connect_timeout"] <= 5
        assert 0 < options["socket_timeout"] <= 10


def test_state_directory_is_beside_the_yaml_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("COULISSE_STATE_DIR", raising=False)
    yaml = tmp_path / "team.yaml"
    assert environment.read_state_dir(yaml) == tmp_path / ".coulisse"


def test_missing_state_directory_is_named(monkeypatch, tmp_path):
    volume = tmp_path / "volume"
    monkeypatch.setenv("COULISSE_STATE_DIR", str(volume))
    with pytest.raises(SystemExit, match=f"COULISSE_STATE_DIR is {volume}, .*mount"):
        environment.read_state_dir(tmp_path / "team.yaml")
    volume.mkdir()
    assert environment.read_state_dir(tmp_path / "team.yaml") == volume


def test_edits_are_stored_in_a_shared_database(monkeypatch):
    monkeypatch.delenv("COULISSE_STUDIO_EDITS", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert environment.read_studio_edits() == "file"
    monkeypatch.setenv("DATABASE_URL", "postgres://u:p@h/n")
    assert environment.read_studio_edits() == "database"
    monkeypatch.setenv("COULISSE_STUDIO_EDITS", "file")
    assert environment.read_studio_edits() == "file"
    monkeypatch.setenv("COULISSE_STUDIO_EDITS", "disk")
    with pytest.raises(SystemExit, match="must be file or database, not 'disk'"):
        environment.read_studio_edits()
