"""Recognize names and addresses of this machine."""

from core.network import client_addresses


def is_loopback(host: str) -> bool:
    """Return whether a name or an address, without a port, never leaves the machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = client_addresses.parse(host)
    return address is not None and address.is_loopback
