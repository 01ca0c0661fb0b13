"""Client addresses and networks for rate limits."""

import pytest

from core.network.client_addresses import client_network


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("no address", "no address"),
        ("x" * 70_000, "x" * 64),
    ],
)
def test_client_network_of_an_address(address, network):
    assert client_network(address) == network
