"""Nothing that names an address reaches what only this machine can.

Canary listeners on loopback count who comes, and a watch notes every address this process connects
to. Names are resolved by a stand-in; numbers by the system itself.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from postkit import OK, Canary, Names, answer, new_app, receiver
from redrive import Redrive
from redrive.delivery.endpoint import Endpoint
from redrive.errors import UsageError
from tablekit import each_row

# What a host may be written as, and so be at an address that is not public.
_LITERALS = """
    127.0.0.1 127.0.0.2 127.255.255.254 127.1 127.0.1 0 0.0.0.0 2130706433 017700000001
    0x7f000001 0x7f.0.0.1 0177.0.0.1 0177.0000.0000.0001 0x7f.1 127.0.0x1 127.0.0.1. 0X7F000001
    10.0.0.1 10.255.255.255 167772161 012.0.0.1 0xa.0.0.1 172.16.0.1 172.31.255.254 192.168.0.1
    192.168.255.255 3232235521 169.254.169.254 169.254.170.2 2852039166 0xa9fea9fe
    0251.0376.0251.0376 100.64.0.1 100.100.100.200 100.127.255.254 168.63.129.16 192.0.0.8
    192.0.0.170 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1
    239.255.255.250 240.0.0.1 255.255.255.255 0.1.2.3
    [::1] [::] [0:0:0:0:0:0:0:1] [::127.0.0.1] [::7f00:1] [::ffff:127.0.0.1] [::ffff:7f00:1]
    [0:0:0:0:0:ffff:127.0.0.1] [::ffff:0:127.0.0.1] [::ffff:10.0.0.1] [::ffff:169.254.169.254]
    [64:ff9b::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b::a9fe:a9fe] [64:ff9b:1::7f00:1]
    [64:ff9b:1::8.8.8.8] [2002:7f00:1::] [2002:a9fe:a9fe::1] [2002:808:808::1]
    [2001:0:7f00:1::f5ff:fffe] [2001:0:808:808:0:0:80ff:fffe] [2001::1] [2001:10::1] [2001:db8::1]
    [3fff::1] [fd00:ec2::254] [fc00::1] [fdff::1] [fe80::1] [fe80::5efe:127.0.0.1] [fec0::1]
    [ff02::1] [ff05::2] [100::1] [5f00::1]
    [::8.8.8.8] [1::1] [4000::1]
"""
LITERALS = _LITERALS.split()

# What DNS may say about a name.
ANSWERS = [
    ["127.0.0.1"],
    ["10.0.0.5"],
    ["169.254.169.254"],
    ["::1"],
    ["fe80::1%lo"],
    ["fe80::1%2"],
    ["::ffff:127.0.0.1"],
    ["64:ff9b::a00:1"],
    ["fd00:ec2::254"],
    ["8.8.8.8", "127.0.0.1"],
    ["127.0.0.1", "8.8.8.8"],
    ["2606:4700::1111", "::1"],
    ["8.8.8.8", "2606:4700::1111", "192.168.1.1"],
    ["8.8.8.8"] * 50 + ["10.0.0.1"],
]

# URLs that are refused before anybody is asked where they lead.
URLS = [
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/_x",
    "ftp://127.0.0.1:{port}/",
    "dict://127.0.0.1:{port}/",
    "unix:///run/docker.sock",
    "http://127.0.0.1:{port}/",
    "HTTP://127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    "https:127.0.0.1:{port}",
    "https:///127.0.0.1:{port}/",
    "https://user@127.0.0.1:{port}/",
    "https://user:hunter22@127.0.0.1:{port}/",
    "https://example.org@127.0.0.1:{port}/",
    "https://127.0.0.1:{port}@example.org/",
    "https://example.org\\@127.0.0.1:{port}/",
    "https:\\\\127.0.0.1:{port}/",
    "https://example.org#@127.0.0.1:{port}/",
    "https://127.0.0.1 .example.org:{port}/",
    "https://127.0.0.1\t:{port}/",
    "https://127.0.0.1\r\nHost: x:{port}/",
    " https://127.0.0.1:{port}/",
    "https://127.0.0.1%00.example.org:{port}/",
    "https://%31%32%37.0.0.1:{port}/",
    "https://127。0。0。1:{port}/",
    "https://①②⑦.⓪.⓪.①:{port}/",
    "https://１２７.０.０.１:{port}/",
    "https://ⓛocalhost:{port}/",
    "https://localhost..:{port}/",
    "https://.localhost:{port}/",
    "https://a..b:{port}/",
    "https://-a.example.org:{port}/",
    "https://" + "a" * 64 + ".example.org:{port}/",
    "https://" + "a." * 130 + "org:{port}/",
    "https://:{port}/",
    "https://?:{port}/",
    "https://[::1:{port}/",
    "https://[::1]x:{port}/",
    "https://[fe80::1%25lo]:{port}/",
    "https://[v1.x]:{port}/",
    "https://[127.0.0.1]:{port}x/",
    "https://127.0.0.1:{port}0000/",
    "https://127.0.0.1:0/",
    "https://127.0.0.1:22/",
    "https://127.0.0.1:25/",
    "https://127.0.0.1:6379/",
    "https://127.0.0.1:-{port}/",
    "https://127.0.0.1:{port}:443/",
    "",
]


def test_there_are_enough_cases() -> None:
    assert len(LITERALS) + len(ANSWERS) + len(URLS) >= 80
    assert len(set(LITERALS)) == len(LITERALS)


def refused(app: Redrive, endpoint: Endpoint) -> None:
    """A job for it dies at once, of the address and of nothing else."""
    job = endpoint.send({"n": 1}, key="k-1")
    assert app.run_due().died == 1
    dead = app.get(job.id)
    assert dead.failure is not None
    assert (dead.reason, dead.attempts) == ("permanent", 1), dead.failure
    assert (dead.failure.category, dead.failure.type) == (
        "permanent",
        "redrive.errors.AddressRefused",
    )


@each_row("place", [f"{s}://{h}" for h in LITERALS for s in ("https", "http")], app=new_app)
def test_no_spelling_of_an_address_reaches_it(
    app: Redrive, canary: Canary, names: Names, connections: list[str], place: str
) -> None:
    """The resolved address is judged, never the text."""
    url = f"{place}:{canary.port}/"
    refused(app, app.endpoint("there", url=url, allow=["http", f":{canary.port}"]))
    assert canary.accepted() == 0
    assert connections == []


@each_row("answers", ANSWERS, app=new_app)
def test_a_name_is_refused_if_one_of_its_addresses_is_not_public(
    app: Redrive, canary: Canary, names: Names, connections: list[str], answers: list[str]
) -> None:
    names.known["evil.example.org"] = [answers]
    url = f"https://evil.example.org:{canary.port}/"
    refused(app, app.endpoint("there", url=url, allow=[f":{canary.port}"]))
    assert canary.accepted() == 0
    assert connections == []


@each_row("url", URLS)
def test_a_url_that_is_not_plainly_https_is_refused_at_once(
    app: Redrive, canary: Canary, names: Names, connections: list[str], url: str
) -> None:
    """Schemes, users, ports, backslashes, control characters, letters that look like others."""
    with pytest.raises(UsageError, match=r"endpoint 'there': the URL cannot be used: ") as caught:
        app.endpoint("there", url=url.format(port=canary.port), allow=[f":{canary.port}"])
    assert "hunter22" not in str(caught.value)
    assert names.asked == []
    assert canary.accepted() == 0
    assert connections == []


def test_what_dns_says_later_does_not_matter(
    app: Redrive, canary: Canary, names: Names, connections: list[str]
) -> None:
    """Asked once an attempt, and the address that was checked is the one connected to."""
    changes = [["8.8.8.8"], ["127.0.0.1"]]
    names.known["evil.example.org"] = changes
    url = f"https://evil.example.org:{canary.port}/"
    job = app.endpoint("there", url=url, allow=[f":{canary.port}"]).send({}, key="k")
    app.run_due()
    assert names.asked == ["evil.example.org"]
    assert connections == ["8.8.8.8"]  # where the watch refused it
    app.run_due(ignore_backoff=True)
    assert app.get(job.id).reason == "permanent"
    assert connections == ["8.8.8.8"]
    assert canary.accepted() == 0


def test_every_public_address_of_a_name_is_tried(
    app: Redrive, names: Names, connections: list[str]
) -> None:
    many = ["2606:4700::1111", "8.8.8.8", "::ffff:1.1.1.1", "64:ff9b::9.9.9.9"]
    names.known["public.example.org"] = [many]
    app.endpoint("there", url="https://public.example.org/").send({}, key="k")
    app.run_due()
    assert [*map(ip_address, connections)] == [*map(ip_address, many)]


@each_row("status", [300, 301, 302, 303, 304, 305, 307, 308, 399])
@each_row(
    "location",
    ["http://127.0.0.1:{port}/", "https://localhost:{port}/", "//127.0.0.1:{port}/", "/else"],
    app=new_app,
)
def test_redirects_are_not_followed(
    app: Redrive, canary: Canary, connections: list[str], status: int, location: str
) -> None:
    """A redirect is a failure; nobody gets the token but who it is for."""
    connections.clear()
    with receiver(answer(status, location=location.format(port=canary.port))) as there:
        job = there.endpoint(app).send({}, key="k")
        app.run_due()
    failure = app.get(job.id).failure
    assert failure is not None
    assert (failure.category, failure.status) == ("permanent", status)
    assert failure.why == "a redirect, which is not followed"
    assert (len(there.posts), canary.accepted(), len(connections)) == (1, 0, 1)


def test_the_environment_chooses_no_proxy_and_no_password(
    app: Redrive, canary: Canary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ada password of-netrc\n", "utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{canary.port}")
        monkeypatch.setenv(name.upper(), f"http://127.0.0.1:{canary.port}")
    with receiver(OK) as there:
        assert there.endpoint(app).try_now({}).done
    assert canary.accepted() == 0
    assert "authorization" not in there.posts[0].headers


def test_the_watch_sees_a_connection_and_the_canary_counts_it(
    app: Redrive, canary: Canary, connections: list[str]
) -> None:
    """Without this, no count of nought would mean anything."""
    port = canary.port
    allow = ["http", f":{port}", "127.0.0.1"]
    there = app.endpoint("there", url=f"http://127.0.0.1:{port}/", allow=allow, timeout=1)
    assert not there.try_now({}).done
    assert (connections, canary.accepted()) == (["127.0.0.1"], 1)
