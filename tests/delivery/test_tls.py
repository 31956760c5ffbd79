"""Who is at the other end is always verified. The certificates are made for these tests."""

from __future__ import annotations

import ssl
import warnings
from pathlib import Path

import pytest

from postkit import Canary, Names, receiver
from redrive import Policy, Redrive, constant
from redrive.delivery import wire
from redrive.jobs.job import Failure
from redrive.policies import presets

HERE = Path(__file__).parent / "certificates"
AUTHORITY = HERE / "authority.pem"


def server(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(HERE / f"{name}.pem")
    return context


@pytest.fixture(autouse=True)
def at_home(names: Names) -> None:
    names.known["hooks.example.org"] = [["127.0.0.1"]]


def test_the_name_is_verified_and_the_address_is_pinned(app: Redrive, names: Names) -> None:
    """The connection goes to the address; TLS and the Host header say the name."""
    with receiver(tls=server("good")) as there:
        url = there.url("hooks.example.org")
        endpoint = there.endpoint(app, url=url, ca_file=AUTHORITY)
        assert endpoint.try_now({"n": 1}).value.status == 200
        assert there.endpoint(app, "by-address", ca_file=str(AUTHORITY)).try_now({}).done
    assert there.names == ["hooks.example.org", None]
    assert there.posts[0].headers["host"] == f"hooks.example.org:{there.port}"
    assert names.asked == ["hooks.example.org", "127.0.0.1"]


@pytest.mark.parametrize(
    ("certificate", "authority", "why"),
    [
        ("expired", AUTHORITY, "certificate has expired"),
        ("other", AUTHORITY, "Hostname mismatch"),
        ("self", AUTHORITY, "self-signed certificate"),
        ("good", None, "unable to get local issuer certificate"),
    ],
)
def test_a_bad_certificate_is_a_permanent_failure(
    app: Redrive, certificate: str, authority: Path | None, why: str
) -> None:
    """Nothing is sent, not even where every category is tried again."""
    settings = {} if authority is None else {"ca_file": authority}
    with receiver(tls=server(certificate)) as there:
        url = there.url("hooks.example.org")
        job = there.endpoint(app, url=url, **settings).send({}, key="k")
        app.run_due()
        other = there.endpoint(app, "alike", url=url, policy=presets.WEBHOOKS, **settings)
        again = other.try_now({}, key="k2").job
    dead = app.get(job.id)
    assert (dead.state, dead.reason, dead.attempts) == ("dead", "permanent", 1)
    failure = _failure(dead.failure)
    assert failure.category == "permanent"
    assert failure.type == "ssl.SSLCertVerificationError"
    assert why in failure.message
    assert again is not None
    assert (again.state, _failure(again.failure).category) == ("pending", "permanent")
    assert there.posts == []


def _failure(failure: Failure | None) -> Failure:
    assert failure is not None
    return failure


def test_old_tls_is_refused(app: Redrive) -> None:
    """1.2 is the least, and nothing in the settings of an endpoint says otherwise."""
    old = server("good")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    policy = Policy(attempts=1, wait=constant(1))
    with receiver(tls=old) as there:
        url = there.url("hooks.example.org")
        tried = there.endpoint(app, url=url, ca_file=AUTHORITY, policy=policy).try_now({})
    assert not tried.done
    assert there.posts == []
    made = wire.context(None)
    assert made.minimum_version is ssl.TLSVersion.TLSv1_2
    assert (made.verify_mode, made.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_a_peer_that_never_says_a_word_costs_no_more_than_the_limit(
    app: Redrive, canary: Canary
) -> None:
    """The handshake is part of the time that all of it may take."""
    url, allow = f"https://hooks.example.org:{canary.port}/", [f":{canary.port}", "127.0.0.1"]
    tried = app.endpoint("there", url=url, allow=allow, timeout=0.2).try_now({})
    assert tried.job is not None
    assert _failure(tried.job.failure).category == "transient"
