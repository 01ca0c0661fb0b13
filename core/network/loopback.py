"""Recognize names and addresses of this machine."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether a name or an address, without a port, never leaves the machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
