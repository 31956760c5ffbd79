"""A secret of an endpoint is hidden however the other side spells it, and other words are not."""

from __future__ import annotations

from typing import Any

import pytest

from postkit import answer, new_app, receiver
from redrive import Redrive
from tablekit import each_row

BASIC = "Basic YWRhX2xvdmVsYWNlOmM0bjRyeS1wYXNz"  # ada_lovelace:c4n4ry-pass
SECRET = "whsec_" + "c4N4rYc4N4rYc4N4rYc4N4rYc4N4rYc4"


def said_about(app: Redrive, said: str, path: str = "/hooks", **settings: Any) -> str:
    """Give what a person reads of an answer."""
    with receiver(answer(403, said, x_said=said)) as there:
        job = there.endpoint(app, url=there.url(path=path), **settings).try_now({}).job
    assert job is not None
    assert job.failure is not None
    return job.failure.message.removeprefix("railway answered 403: ")


@each_row(
    "path, said",
    [
        ("/hook?k=Secr3tKey9", "Secr3tKey9"),
        ("/hook?k=Kx9z", "Kx9z"),
        ("/hook?Secr3tKey9&x=1", "Secr3tKey9"),
        ("/hook?k=a%20b%2fSecr3t", "a b/Secr3t"),
        ("/hook?k=a+b%2fSecr3t", "a b/Secr3t"),
        ("/hooks/Tk9Secr3t", "Tk9Secr3t"),
        ("/hooks/Tk9Sec", "Tk9Sec"),
        ("/hooks/longsecretword", "longsecretword"),
        ("/hooks/c4n4ry%2Bpath%2Fsecret%3D%3D", "c4n4ry+path/secret=="),
        ("/hooks/c4n4ry%2Bpath", "c4n4ry%2bpath"),
    ],
    app=new_app,
)
def test_what_stands_in_the_url(app: Redrive, path: str, said: str) -> None:
    assert said_about(app, f"I know no {said}, sorry", path) == "I know no •••, sorry"


@each_row(
    "value, said",
    [
        ("Bearer c4n4ry-header", "c4n4ry-header"),
        ("c4n4ry-header", "c4n4ry-header"),
        (BASIC, BASIC),
        (BASIC, BASIC.removeprefix("Basic ")),
        (BASIC, "ada_lovelace:c4n4ry-pass"),
        (BASIC, "ada_lovelace"),
        (BASIC, "c4n4ry-pass"),
    ],
    app=new_app,
)
def test_what_stands_in_a_header(app: Redrive, value: str, said: str) -> None:
    headers = {"X-Authorization": value}
    assert said_about(app, f"I know no {said}, sorry", headers=headers) == "I know no •••, sorry"


@each_row(
    "token, said",
    [
        ("c4n4ry/token+value==", r"c4n4ry\/token+value=="),
        ("c4n4ry&token<value", "c4n4ry&amp;token&lt;value"),
        ("c4n4ry&token<value", r"c4n4ry\u0026token\u003cvalue"),
        ("c4n4ry'token\"value", "c4n4ry&#39;token&#34;value"),
        ("c4n4ry'token\"value", "c4n4ry&#x27;token&quot;value"),
        ("c4n4ry/token/value", "c4n4ry%2ftoken%2fvalue"),
        ("c4n4ry/token+value", "c4n4ry/token%2Bvalue"),
    ],
    app=new_app,
)
def test_what_was_escaped(
    app: Redrive, token: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", token)
    said = f"I know no {said}, sorry"
    assert said_about(app, said, token_env="TOKEN") == "I know no •••, sorry"


def test_a_signing_secret_without_its_mark(app: Redrive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    said = f"not signed by {SECRET.removeprefix('whsec_')}, sorry"
    assert said_about(app, said, secret_env="SECRET") == "not signed by •••, sorry"


def test_words_that_name_the_matter_stay(app: Redrive) -> None:
    said = '{"message": "the payment needs a Bearer of orders", "again": true}'
    headers = {"X-Authorization": "Bearer c4n4ry-header"}
    assert said_about(app, said, "/payment/orders?dry=true", headers=headers) == said
