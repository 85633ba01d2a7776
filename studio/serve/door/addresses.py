"""Network addresses of callers, as far as they tell one caller from another."""

import ipaddress

from starlette.requests import HTTPConnection


def address_of(connection: HTTPConnection) -> str:
    """Where somebody calls from: of IPv6 the network, for whoever has one address of it has them all."""
    return network_of(connection.client.host if connection.client else "")


def network_of(host: str) -> str:
    """An IPv4 address as it is, the /64 of an IPv6 one, this machine (which has 16 million) as one; else unchanged."""
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
