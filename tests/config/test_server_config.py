import pytest

from config.config import SERVER


@pytest.fixture
def server(load, settings):
    settings.COULISSE_SECTIONS = ["config.config.SERVER"]
    return lambda text: load(f"server: {text}\n").get(SERVER)


def test_default_address_is_all_interfaces_port_8421(server):
    config = server("")
    assert (config.bind, config.port) == ("0.0.0.0", 8421)
    assert (config.worker_threads, config.max_body_bytes) == (None, 2 * 1024 * 1024)


def test_connections_are_limited_by_default(server):
    config = server("")
    assert (config.max_connections, config.max_connections_per_address) == (1000, 200)
    assert server("{max_connections_per_address: null}").trusted_proxies == ()


def test_port_can_come_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("PORT", "9000")
    assert server("{port: ${PORT}, bind: '::1'}").port == 9000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{bind: localhost}", "'bind' must be an IP address such as 127.0.0.1"),
        ("{port: 0}", "'port' must be at least 1"),
        ("{port: 65536}", "'port' must be at most 65535"),
        ("{worker_threads: 0}", "'worker_threads' must be at least 1"),
        ("{worker_threads: all}", "'worker_threads' must be a whole number or"),
        ("{max_connections: 0}", "'max_connections' must be at least 1"),
        (
            "{trusted_proxies: [proxy.internal]}",
            "'trusted_proxies[0]' must be an IP address or a network",
        ),
        ("{max_body_bytes: 2 MiB}", "'max_body_bytes' must be a whole number"),
    ],
)
def test_invalid_address_is_refused(refusal, settings, text, expected):
    settings.COULISSE_SECTIONS = ["config.config.SERVER"]
    assert f"server: {expected}" in refusal(f"server: {text}\n")
