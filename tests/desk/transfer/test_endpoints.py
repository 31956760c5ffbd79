"""R-HOOKS 7: hooks of the older script and jobs of `app.endpoint` exchange without loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exchangekit import AT, hook, jobs, lines, take
from postkit import OK, Receiver, answer, receiver
from redrive import Redrive
from redrive.delivery.endpoint import Endpoint
from redrive.desk.transfer.formats.record import TransferOptions
from redrive.testing import ManualClock
from shopkit import Shop

DATA = {"text": "grüß", "n": 10}


def app_with(there: Receiver, **options: Any) -> tuple[Redrive, Endpoint]:
    app = Redrive("memory:", clock=ManualClock(AT + 86400))
    endpoint = app.endpoint(
        "railway", url=there.url(), allow=there.allow, key_field="idempotencyKey", **options
    )
    return app, endpoint


def old_hook(url: str, **changes: Any) -> bytes:
    return lines(hook(1, data={"hook": DATA, "endpoint": url}, **changes))


@pytest.mark.parametrize("way", ["formerly", "handler"])
def test_an_endpoint_sends_old_hooks_with_their_keys(way: str) -> None:
    with receiver(OK) as there:
        app, _ = app_with(there, formerly="hook.post" if way == "formerly" else ())
        asked = TransferOptions(handler="railway" if way == "handler" else None)
        take(old_hook(there.url()), app, asked=asked)
        assert app.run_due().succeeded == 1
    [post] = there.posts
    key = hook(1)["jobId"]
    assert post.headers["idempotency-key"] == key
    assert json.loads(post.body) == {**DATA, "idempotencyKey": key}


def test_already_done_is_asked_with_the_body_of_an_old_hook() -> None:
    asked: list[object] = []

    def checked(body: object) -> bool:
        asked.append(body)
        return False

    with receiver(answer(500)) as there:
        app, _ = app_with(there, formerly="hook.post", already_done=checked)
        take(old_hook(there.url(), attemptsMade=4, maxAttempts=5), app)
        assert app.run_due().died == 1
    assert asked == [DATA]


def test_a_hook_for_another_url_is_never_sent() -> None:
    with receiver() as there:
        app, _ = app_with(there, formerly="hook.post")
        take(old_hook("https://other.example/hooks?token=s3cr3t-value"), app)
        app.run_due()
    assert there.accepted == 0
    [job] = jobs(app).values()
    assert (job.state, job.failure is not None) == ("dead", True)
    assert job.failure is not None
    assert "'other.example'" in job.failure.message
    assert "s3cr3t" not in job.failure.message


def test_jobs_of_an_endpoint_go_out_as_hooks_and_come_back() -> None:
    with receiver(answer(500)) as there:
        app, endpoint = app_with(there)
        endpoint.send(DATA, key="order-7")
        assert not endpoint.try_now({"n": 1}).done
        left: list[str] = []
        known = TransferOptions(urls={"railway": there.url()}, skip=lambda _, why: left.append(why))
        text = [*app.desk.transfer.export_lines(app.desk.jobs.each(), format="hooks", asked=known)]
        found = {line["jobId"]: line for line in map(json.loads, text)}
        assert (left, len(found)) == ([], 2)
        assert found["order-7"]["data"] == {"hook": DATA, "endpoint": there.url()}
        again, _ = app_with(there)
        assert [one.fate for one in take("\n".join(text).encode(), again)[1]] == ["added"] * 2
    for job in jobs(app).values():
        back = again.get(job.id)
        assert (back.handler, back.lane, back.key, back.payload, back.attempts) == (
            job.handler,
            job.lane,
            job.key,
            job.payload,
            job.attempts,
        )
        assert (back.own_max_attempts, back.state) == (job.own_max_attempts, job.state)


def test_when_it_was_made_and_first_failed_come_back_too() -> None:
    clock = ManualClock(AT)
    with receiver(answer(500)) as there:
        app = Redrive("memory:", clock=clock)
        endpoint = app.endpoint("railway", url=there.url(), allow=there.allow)
        endpoint.send({"n": 1})
        clock.advance(60)
        app.run_due()
        endpoint.send({"n": 2})
        known = TransferOptions(urls={"railway": there.url()})
        text = [*app.desk.transfer.export_lines(app.desk.jobs.each(), format="hooks", asked=known)]
        again, _ = take("\n".join(text).encode())
    assert {(job.created, job.first_failed) for job in app.desk.jobs.each()} == {
        (AT, AT + 60),
        (AT + 60, None),
    }
    for job in app.desk.jobs.each():
        back = again.get(job.id)
        assert (back.created, back.first_failed) == (job.created, job.first_failed)


def test_the_command_knows_urls_and_says_what_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REDRIVE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    shop = Shop(tmp_path)
    with shop.app() as app:
        app.endpoint("railway", url="https://api.example/hooks").send(DATA, key="order-7")
    words = ("export", "--format", "hooks", "-o", "out")
    lost = shop.run(*words)
    assert lost.exit_code == 6
    assert "the URL of endpoint railway is not known" in lost.stderr
    Path("redrive.toml").write_text('[endpoints.railway]\nurl = "https://api.example/hooks"\n')
    done = shop.run(*words, "--force")
    assert done.exit_code == 0, done.stderr
    assert json.loads(Path("out").read_text())["data"]["endpoint"] == "https://api.example/hooks"
