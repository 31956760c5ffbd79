"""Where a request may go: https to the public internet, and beyond that only what is listed.

A person who names an address must not reach what only this machine can reach. The text of a host proves nothing
(2130706433 is 127.0.0.1, and a name is whatever DNS says today), so the *resolved* addresses are
judged, all of them, and only these are connected to: a second answer of DNS is never asked for.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NoReturn
from urllib.parse import urlsplit

from redrive.errors import AddressRefused, UsageError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolver = Callable[[str, int], Iterable[str]]

_PORTS: Final = {"https": 443, "http": 80}
_URL: Final = re.compile(r"[!-\[\]-~]+")  # visible ASCII but the backslash
_HOST: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*"
)
_NETLOC: Final = re.compile(
    r"(?:\[(?P<address>[^\[\]%]*)\]|(?P<name>[^\[\]:]*))(?::(?P<port>[0-9]{0,5}))?"
)
_HIGHEST_PORT: Final = 65535


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(map(ip_network, text.split()))


# Written out, because what Python calls global differs between its versions.
_NOT_PUBLIC: Final = _networks("""
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
    192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24
    224.0.0.0/4 240.0.0.0/4
    168.63.129.16/32
    2001::/23 2001:db8::/32 2002::/16 3fff::/20
""")
"""Private, shared, reserved and multicast; a cloud's own service at a public address; tunnels."""
_PUBLIC_IPV6: Final = IPv6Network("2000::/3")
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_NAT64: Final = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a URL that was checked."""

    scheme: str
    host: str
    """A name in lower case, or an address without brackets."""
    port: int
    path: str
    """With the query."""

    @property
    def authority(self) -> str:
        """The text of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the program allows besides https to public addresses on port 443."""

    http: bool = False
    ports: frozenset[int] = frozenset()
    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()
    """Host names that are trusted whatever their addresses are."""

    @classmethod
    def read(cls, entries: Iterable[str]) -> Allowed:
        """Read a list: `http`, a port (`:8443`), an address or network, the name of a host.

        >>> Allowed.read(["http", ":8080", "10.1.0.0/16"]).ports
        frozenset({8080})
        """
        listed = [str(entry).strip().lower() for entry in entries]
        networks = {entry: _network(entry) for entry in listed}
        others = [entry for entry in listed if entry != "http" and not networks[entry]]
        ports = frozenset(_port(entry) for entry in others if entry.startswith(":"))
        names = frozenset(entry for entry in others if not entry.startswith(":"))
        for name in names:
            if not _HOST.fullmatch(name):
                msg = f"allow takes http, a :port, an address, a network or a host; found {name!r}"
                raise UsageError(msg)
        return cls(
            http="http" in listed,
            ports=ports,
            networks=tuple(filter(None, networks.values())),
            hosts=names,
        )


def _network(entry: str) -> Network | None:
    try:
        return ip_network(entry)
    except ValueError as error:
        if "/" in entry:
            raise UsageError(f"allow: {entry!r} is not a network: {error}") from None
        return None


def _port(entry: str) -> int:
    number = entry[1:]
    if not (number.isascii() and number.isdigit() and 0 < int(number) <= _HIGHEST_PORT):
        raise UsageError(f"allow: {entry!r} is not a port; write it as in :8443")
    return int(number)


def target_of(url: str, allowed: Allowed) -> Target:
    """Parse and check a URL; the text of a UsageError omits the URL, which may be secret."""
    if not _URL.fullmatch(url):
        _refuse("it may hold visible ASCII only, no spaces or backslashes; write a name as xn--…")
    try:
        parts = urlsplit(url)
    except ValueError:
        _refuse("its host cannot be read")
    if parts.scheme not in _PORTS or (parts.scheme == "http" and not allowed.http):
        _refuse('it must begin with https:// (plain http only with allow=["http"])')
    if "@" in parts.netloc:
        _refuse("it must not have a user or password; use token_env or headers")
    if "#" in url:
        _refuse("it must not have a #fragment, which is never sent")
    host, port = _place(parts.netloc.lower())
    usual = _PORTS[parts.scheme]
    if port not in {None, usual, *allowed.ports}:
        _refuse(f'port {port} is not the default port; to allow it: allow=[":{port}"]')
    path = parts.path or "/"
    return Target(
        scheme=parts.scheme,
        host=host,
        port=usual if port is None else port,
        path=f"{path}?{parts.query}" if parts.query else path,
    )


def _refuse(why: str) -> NoReturn:
    raise UsageError(f"the URL cannot be used: {why}") from None


def _place(netloc: str) -> tuple[str, int | None]:
    """Return host and port; `urlsplit` overlooks what stands between them."""
    match = _NETLOC.fullmatch(netloc)
    if match is None:
        _refuse("its host or port cannot be read")
    port = int(match["port"]) if match["port"] else None
    if match["address"] is None:
        name = match["name"].removesuffix(".")
        if not _HOST.fullmatch(name):
            _refuse("its host is neither a name nor an address")
        return name, port
    try:
        return str(IPv6Address(match["address"])), port
    except ValueError:
        _refuse("the text in brackets is not an IPv6 address (zones are not allowed)")


def checked(
    target: Target, allowed: Allowed, *, timeout: float, resolver: Resolver | None = None
) -> list[str]:
    """Return the addresses to connect to; raise AddressRefused if one of them is not allowed.

    One is enough: an attacker could list a public address beside a private one.
    """
    resolved = dict.fromkeys(_looked_up(resolver or resolve, target, timeout))
    if not resolved:
        raise socket.gaierror(socket.EAI_NONAME, f"{target.host} has no address")
    addresses = [ip_address(text.partition("%")[0]) for text in resolved]
    for address in addresses:
        if target.host not in allowed.hosts and not is_allowed(address, allowed.networks):
            raise AddressRefused(
                f"{target.host} is at {address}, which is not public; nothing was sent. "
                "To allow it, list the network in allow"
            )
    return [str(address) for address in addresses]


def is_allowed(address: Address, networks: Sequence[Network] = ()) -> bool:
    """Return True if an address is public or listed; a mapped or NAT64 one is the IPv4 address in it.

    >>> is_allowed(ip_address("2606:4700::1111")), is_allowed(ip_address("::ffff:10.0.0.1"))
    (True, False)
    """
    if isinstance(address, IPv6Address):
        bits = int(address)
        is_inside = address in _MAPPED or address in _NAT64
        address = IPv4Address(bits & 0xFFFFFFFF) if is_inside else IPv6Address(bits)  # no zone
    if any(address in network for network in networks):
        return True
    if isinstance(address, IPv6Address) and address not in _PUBLIC_IPV6:
        return False
    return not any(address in network for network in _NOT_PUBLIC)


def resolve(host: str, port: int) -> list[str]:
    """Resolve a host with the system resolver."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in answers]


def _looked_up(resolver: Resolver, target: Target, timeout: float) -> list[str]:
    """Resolve within a time limit, which the system resolver does not have."""
    answer: Future[list[str]] = Future()

    def ask() -> None:
        try:
            answer.set_result(list(resolver(target.host, target.port)))
        except Exception as error:  # noqa: BLE001 - raised again by who waits for it
            answer.set_exception(error)

    threading.Thread(target=ask, name="redrive-resolve", daemon=True).start()
    try:
        return answer.result(timeout)
    except TimeoutError:
        if answer.done():
            raise
        raise TimeoutError(f"looking up {target.host} took longer than {timeout:.3g} s") from None
