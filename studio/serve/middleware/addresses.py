"""Network addresses as the unit of limits."""

import ipaddress

from starlette.requests import HTTPConnection


def address_of(connection: HTTPConnection) -> str:
    """The client's address as used by limits."""
    return network_of(connection.client.host if connection.client else "")


def network_of(host: str) -> str:
    """An IPv4 address unchanged, the /64 network of an IPv6 address, 127.0.0.1 for loopback; other text unchanged.

    One client usually owns a whole /64.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return "127.0.0.1"
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
