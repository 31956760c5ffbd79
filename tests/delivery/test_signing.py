"""Signatures by Standard Webhooks."""

from __future__ import annotations

import base64

import pytest

from redrive.delivery.signing import is_secret, sign, verify
from redrive.errors import UsageError
from tablekit import each_row

OLD = "whsec_" + base64.b64encode(b"o" * 24).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()
BODY = b'{"test": 2432232314}'
NOW = 1614265330.0


def test_the_example_of_the_standard() -> None:
    """The secret, message and signature that its libraries test themselves with."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    headers = sign("msg_p5jXN8AQM9LWM0D4loKWxJek", BODY, [secret], NOW)
    assert headers["Webhook-Signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers["Webhook-Timestamp"] == "1614265330"
    assert verify(headers, BODY, secret, now=NOW)


def test_both_keys_sign_while_one_replaces_the_other() -> None:
    headers = sign("m-1", BODY, [OLD, NEW], NOW)
    assert len(headers["Webhook-Signature"].split()) == 2
    for known in ([OLD], [NEW], [OLD, NEW]):
        assert verify(headers, BODY, *known, now=NOW)
    assert not verify(headers, BODY, now=NOW)


@each_row(
    "changes, body, now",
    [
        ({"webhook-id": "m-2"}, BODY, NOW),
        ({"webhook-id": ""}, BODY, NOW),
        ({"webhook-timestamp": "1614265331"}, BODY, NOW),
        ({"webhook-timestamp": "soon"}, BODY, NOW),
        ({"webhook-timestamp": "-1614265330"}, BODY, NOW),
        ({"webhook-timestamp": "١٦١٤٢٦٥٣٣٠"}, BODY, NOW),
        ({"webhook-signature": "v1,"}, BODY, NOW),
        ({"webhook-signature": "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}, BODY, NOW),
        ({"webhook-signature": "é"}, BODY, NOW),
        ({"webhook-signature": ""}, BODY, NOW),
        ({"webhook-signature": "v1,\udc80"}, BODY, NOW),
        ({"webhook-id": "m-\udc80"}, BODY, NOW),
        ({}, BODY + b" ", NOW),
        ({}, BODY, NOW + 301),
        ({}, BODY, NOW - 301),
    ],
)
def test_what_was_forged_changed_or_copied_is_not_believed(
    changes: dict[str, str], body: bytes, now: float
) -> None:
    signed = {name.lower(): value for name, value in sign("m-1", BODY, [NEW], NOW).items()}
    assert verify(signed, BODY, NEW, now=NOW + 299)
    assert not verify({**signed, **changes}, body, NEW, now=now)


def test_a_request_without_signature_or_of_another_key_is_not_believed() -> None:
    assert not verify({}, BODY, NEW, now=NOW)
    assert not verify(sign("m-1", BODY, [OLD], NOW), BODY, NEW, now=NOW)


@each_row("text", ["", "whsec_dG9vIHNob3J0", "not base64!", "A" * 100])
def test_a_secret_that_is_none_is_refused_and_not_repeated(text: str) -> None:
    assert not is_secret(text)
    with pytest.raises(UsageError, match="24 to 64 bytes") as caught:
        sign("m-1", BODY, [text], NOW)
    assert not text or text not in str(caught.value)
