"""Client addresses, normalized for rate limits."""

import ipaddress
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

MAX_LENGTH = 64
"""Characters of an address; a proxy may forward any text."""

Address = IPv4Address | IPv6Address


def parse(text: str) -> Address | None:
    """Return a client's address; None for other text, such as a unix socket's.

    An IPv4 address within an IPv6 one (`::ffff:192.0.2.1`) is returned as IPv4.
    """
    try:
        address = ipaddress.ip_address(text[:MAX_LENGTH].partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def client_network(text: str) -> str:
    """Return an IPv4 address as it is and an IPv6 address as its /64 network.

    One customer usually gets a whole /64, so its addresses count as one client. Text
    that `parse` does not read is returned as it is, cut to `MAX_LENGTH`.
    """
    return _network(text[:MAX_LENGTH])


@lru_cache(maxsize=4096)
def _network(text: str) -> str:
    address = parse(text)
    if address is None:
        return text
    if isinstance(address, IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))
