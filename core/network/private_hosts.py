"""Recognize hosts that are not on the public internet, by their spelling.

No name is looked up. A public name can still lead to a private address, so a program
that fetches from one must check the address it connects to.
"""

import ipaddress
import re
from ipaddress import IPv4Address, IPv6Address

NUMBER = re.compile(r"\d+|0[xX][0-9a-fA-F]*")
"""A numeric last label makes the host an IPv4 address (WHATWG's URL standard)."""

PRIVATE_SUFFIXES = {
    "corp",
    "home",
    "home.arpa",
    "internal",
    "intranet",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "private",
    "svc",
}
"""Top-level names reserved for private networks."""

GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
IPV4_IN_IPV6 = [
    ipaddress.IPv6Network(network)
    for network in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
]
"""IPv6 networks whose last 32 bits are an IPv4 address."""


def is_private(host: str) -> bool:
    """Return whether a host, in ASCII and without a port, may be private.

    Names without a dot are private, and so are addresses in unusual spellings
    (`0x7f.1`, `2130706433`, `010.0.0.1`), which programs parse differently.
    """
    if host.startswith("["):
        return _is_private_ipv6(host)
    name = host.lower().removesuffix(".")
    labels = name.split(".")
    if len(labels) == 1 or not all(labels):
        return True
    if NUMBER.fullmatch(labels[-1]):
        return _is_private_ipv4(name)
    return any(".".join(labels[-count:]) in PRIVATE_SUFFIXES for count in (1, 2))


def _is_private_ipv4(text: str) -> bool:
    try:
        return not _is_public(IPv4Address(text))
    except ValueError:
        return True


def _is_private_ipv6(text: str) -> bool:
    try:
        address = IPv6Address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return True
    embedded = _embedded_ipv4(address)
    if embedded is not None:
        return not _is_public(embedded)
    return address not in GLOBAL_UNICAST or not _is_public(address)


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour
    if address.teredo:
        return address.teredo[1]
    if any(address in network for network in IPV4_IN_IPV6):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not (address.is_multicast or address.is_reserved)
