"""The judgement of addresses and URLs by itself: what may be reached, and what a list allows."""

from __future__ import annotations

import threading
from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.delivery.guard import Allowed, Target, checked, is_allowed, target_of
from redrive.errors import AddressRefused, UsageError
from tablekit import each_row

PUBLIC = "8.8.8.8 1.1.1.1 9.255.255.255 11.0.0.1 172.15.0.1 172.32.0.1 192.167.1.1 223.255.255.254"
PUBLIC_IPV6 = "2606:4700::1111 2a00:1450::1 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::8.8.8.8"


@each_row("address", f"{PUBLIC} {PUBLIC_IPV6}".split())
def test_public_addresses_may_be_reached(address: str) -> None:
    assert is_allowed(ip_address(address))


@given(st.ip_addresses(v=4))
def test_wrapping_an_address_never_makes_it_reachable(inner: IPv4Address) -> None:
    """Whatever carries it, what is refused as it is stays refused."""
    number = int(inner)
    wrapped = [
        (0xFFFF << 32) | number,  # mapped
        number,  # compatible
        (0xFFFF << 48) | number,  # translated
        (0x0064FF9B << 96) | number,  # NAT64
        (0x0064FF9B0001 << 80) | number,  # NAT64 of one's own
        (0x2002 << 112) | (number << 80) | 1,  # 6to4
        (0x20010000 << 96) | (number << 64) | (~0x08080808 & 0xFFFFFFFF),  # Teredo's server
        (0x20010000 << 96) | (0x08080808 << 64) | (~number & 0xFFFFFFFF),  # Teredo's client
    ]
    for bits in wrapped:
        outer = ip_address(bits.to_bytes(16))
        assert is_allowed(inner) or not is_allowed(outer)


@given(st.ip_addresses(v=4))
def test_what_python_calls_private_is_never_public(address: IPv4Address) -> None:
    """Our own list leaves out nothing of theirs."""
    if address.is_private or address.is_multicast or address.is_reserved or address.is_loopback:
        assert not is_allowed(address)


@each_row(
    "entry, address, allowed",
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.0/8", "127.0.0.2", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "64:ff9b::7f00:1", True),
        ("127.0.0.1", "::127.0.0.1", False),
        ("::1", "::1", True),
        ("::1", "127.0.0.1", False),
        ("fd00::/8", "fd00:ec2::254", True),
        ("10.0.0.0/8", "169.254.169.254", False),
    ],
)
def test_a_list_allows_what_it_names_and_nothing_beside_it(
    entry: str, address: str, allowed: bool
) -> None:
    assert is_allowed(ip_address(address), Allowed.read([entry]).networks) is allowed


def test_a_host_that_is_listed_may_be_anywhere_and_another_may_not() -> None:
    allowed = Allowed.read(["Intranet.Example", ":8443"])
    there = target_of("https://intranet.example:8443/", allowed)
    assert checked(there, allowed, timeout=5, resolver=lambda *_: ["10.0.0.1"]) == ["10.0.0.1"]
    other = target_of("https://other.example:8443/", allowed)
    with pytest.raises(AddressRefused, match=r"other\.example is at 10\.0\.0\.1, which is not"):
        checked(other, allowed, timeout=5, resolver=lambda *_: ["10.0.0.1"])


@each_row(
    "entry", ["10.0.0.1/8", "10.0.0.0/99", ":0", ":65536", ":x", ":", "", "a b", "https://a", "*"]
)
def test_an_entry_that_means_nothing_is_refused(entry: str) -> None:
    with pytest.raises(UsageError, match="allow"):
        Allowed.read([entry])


@each_row(
    "url, target, authority",
    [
        ("https://a.example", Target("https", "a.example", 443, "/"), "a.example"),
        ("HTTPS://A.Example./x?y=1", Target("https", "a.example", 443, "/x?y=1"), "a.example"),
        ("https://a.example:443/", Target("https", "a.example", 443, "/"), "a.example"),
        ("https://a.example:/", Target("https", "a.example", 443, "/"), "a.example"),
        (
            "https://a.example:8443/%20",
            Target("https", "a.example", 8443, "/%20"),
            "a.example:8443",
        ),
        ("http://a.example/", Target("http", "a.example", 80, "/"), "a.example"),
        (
            "https://xn--bcher-kva.example/",
            Target("https", "xn--bcher-kva.example", 443, "/"),
            None,
        ),
        ("https://[2606:4700::1]/", Target("https", "2606:4700::1", 443, "/"), "[2606:4700::1]"),
        ("https://my_host/", Target("https", "my_host", 443, "/"), "my_host"),
    ],
)
def test_a_url_is_taken_apart(url: str, target: Target, authority: str | None) -> None:
    found = target_of(url, Allowed.read(["http", ":8443"]))
    assert found == target
    assert found.authority == (authority or target.host)


@each_row("url", ["http://a.example:443/", "https://a.example:80/"])
def test_the_port_of_the_other_scheme_is_not_the_usual_one(url: str) -> None:
    with pytest.raises(UsageError, match="is not the default port"):
        target_of(url, Allowed(http=True))


def test_a_look_up_that_does_not_end_is_not_waited_for() -> None:
    stop = threading.Event()
    target = Target("https", "slow.example", 443, "/")
    with pytest.raises(TimeoutError, match=r"looking up slow\.example took longer than 0\.05 s"):
        checked(target, Allowed(), timeout=0.05, resolver=lambda *_: [str(stop.wait(60))])
    stop.set()


def test_a_name_without_an_address_is_an_error_that_may_pass() -> None:
    with pytest.raises(OSError, match=r"none\.example has no address"):
        checked(
            Target("https", "none.example", 443, "/"), Allowed(), timeout=5, resolver=lambda *_: []
        )
