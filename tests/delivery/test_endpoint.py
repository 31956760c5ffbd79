"""Endpoints as their users see them: what goes out, keys, pauses, settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from postkit import OK, Receiver, answer, receiver
from redrive import GiveUp, Policy, Redrive
from redrive.delivery.courier import Courier
from redrive.delivery.signing import verify
from redrive.errors import KeyConflict, UsageError
from redrive.policies import presets
from redrive.testing import ManualClock

TOKEN = "token-of-railway"
SECRET, OTHER = "whsec_" + "A" * 32, "whsec_" + "B" * 32


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILWAY_TOKEN", TOKEN)
    monkeypatch.setenv("RAILWAY_SECRET", SECRET)
    monkeypatch.setenv("RAILWAY_SECRET_NEW", OTHER)
    monkeypatch.chdir(tmp_path)


class TestWhatGoesOut:
    @pytest.mark.parametrize("key", ["a\n X-Injected: 1", "a\r\n\tX: 1", "\x00", "ключ", ""])
    def test_a_key_that_cannot_travel_is_the_end(self, key: str) -> None:
        """Whoever wrote into the store, nothing of it becomes a header."""
        with receiver() as there:
            courier = Courier("railway", {"url": there.url(), "allow": there.allow})
            with pytest.raises(GiveUp, match="visible ASCII characters only"):
                courier.deliver({}, ident=key, key=None)
            with pytest.raises(GiveUp, match="visible ASCII characters only"):
                courier.deliver({}, ident="m-1", key=key)
        assert there.accepted == 0

    def test_a_post_of_json_with_the_token(self, app: Redrive) -> None:
        """Read from the environment when it is sent, and not in the job."""
        with receiver() as there:
            endpoint = there.endpoint(
                app,
                url=there.url(path="/in?x=1"),
                token_env="RAILWAY_TOKEN",
                headers={"x-team": "a b"},
            )
            job = endpoint.send({"text": "grüß", "n": [1, None]})
            app.run_due()
        assert (job.handler, job.lane) == ("railway", "railway")
        assert json.loads(job.payload) == {"body": {"text": "grüß", "n": [1, None]}}
        [post] = there.posts
        assert post.line == "POST /in?x=1 HTTP/1.1"
        assert json.loads(post.body) == {"text": "grüß", "n": [1, None]}
        assert post.headers == {
            "host": f"127.0.0.1:{there.port}",
            "accept-encoding": "identity",
            "connection": "close",
            "content-length": str(len(post.body)),
            "content-type": "application/json",
            "user-agent": "redrive",
            "authorization": f"Bearer {TOKEN}",
            "x-team": "a b",
        }

    @pytest.mark.parametrize("body", [{}, [], [1], "text", 7, 1.5, True, None])
    def test_any_json_can_be_sent(self, app: Redrive, body: Any) -> None:
        with receiver() as there:
            assert there.endpoint(app).try_now(body).done
        assert json.loads(there.posts[0].body) == body

    def test_a_key_goes_out_with_every_attempt_and_in_the_body_where_asked(
        self, app: Redrive
    ) -> None:
        """H2, and M8: after an edit it is another one."""
        with receiver(answer(500), answer(500), OK) as there:
            endpoint = there.endpoint(app, key_field="idempotencyKey")
            job = endpoint.send({"n": 1}, key="order-7")
            assert not endpoint.send({"n": 1}, key="order-7").is_new
            with pytest.raises(KeyConflict):
                endpoint.send({"n": 2}, key="order-7")
            app.run_due()
            app.run_due(ignore_backoff=True)
            app.desk.edit(job.id, '{"body":{"n":3}}')
            app.run_due(ignore_backoff=True)
            with pytest.raises(UsageError, match="must be an object"):
                endpoint.send([1], key="order-8")
        sent = [(p.headers["idempotency-key"], json.loads(p.body)) for p in there.posts]
        assert sent == [("order-7", {"n": 1, "idempotencyKey": "order-7"})] * 2 + [
            ("order-7.1", {"n": 3, "idempotencyKey": "order-7.1"})
        ]

    def test_none_by_default(self, app: Redrive) -> None:
        with receiver() as there:
            endpoint = there.endpoint(app, key_field="idempotencyKey")
            job = endpoint.send({})
            app.desk.edit(job.id, '{"body":{"n":1}}')
            app.run_due()
        assert "idempotency-key" not in there.posts[0].headers
        assert json.loads(there.posts[0].body) == {"n": 1}

    def test_a_signed_post_is_believed(self, app: Redrive, monkeypatch: pytest.MonkeyPatch) -> None:
        """The id stays, the time is that of the attempt, two secrets in rotation."""
        now = [1_800_000_000.0]
        monkeypatch.setattr("redrive.delivery.courier.time.time", lambda: now[0])
        names = ["RAILWAY_SECRET", "RAILWAY_SECRET_NEW"]
        with receiver(answer(503), OK) as there:
            job = there.endpoint(app, secret_env=names).send({"n": 1})
            app.run_due()
            now[0] += 1000
            app.run_due(ignore_backoff=True)
        for post, sent in zip(there.posts, (1_800_000_000, 1_800_001_000), strict=True):
            assert post.headers["webhook-id"] == job.id
            for secret in (SECRET, OTHER):
                assert verify(post.headers, post.body, secret, now=sent)
            assert not verify(post.headers, post.body + b" ", SECRET, now=sent)


def spent(app: Redrive) -> list[int]:
    return sorted(job.attempts for job in app.desk.jobs.each())


class TestPauses:
    def three(self, app: Redrive, there: Receiver, **settings: Any) -> None:
        endpoint = there.endpoint(app, **settings)
        for number in range(3):
            endpoint.send({"n": number}, key=f"k-{number}")

    @pytest.mark.parametrize("status", [401, 403])
    def test_refused_credentials_stop_the_lane_and_a_probe_starts_it_again(
        self, app: Redrive, clock: ManualClock, status: int
    ) -> None:
        with receiver(answer(status), answer(status), OK) as there:
            self.three(app, there)
            app.run_due()
            assert (len(there.posts), spent(app)) == (1, [0, 0, 1])
            [note] = app.store.notes("pause:")
            assert note.name == "pause:railway"
            assert json.loads(note.value)["reason"] == f"a job failed: status {status}"
            clock.advance(61)
            app.run_due()  # a probe, which fails and spends nothing
            assert (len(there.posts), spent(app)) == (2, [0, 0, 1])
            for _ in range(4):
                clock.advance(61)
                app.run_due()
        assert sorted(job.state for job in app.desk.jobs.each()) == [
            "completed",
            "completed",
            "dead",
        ]
        assert app.store.notes("pause:") == []

    def test_gone_stops_it_until_a_person_resumes_it(
        self, app: Redrive, clock: ManualClock
    ) -> None:
        with receiver(answer(410), OK) as there:
            self.three(app, there)
            for _ in range(5):
                app.run_due()
                clock.advance(3600)
            assert (len(there.posts), spent(app)) == (1, [0, 0, 1])
            [note] = app.store.notes("pause:")
            assert json.loads(note.value)["reason"] == "gone permanently: status 410"
            app.desk.lanes.resume("railway")
            app.run_due()
        assert len(there.posts) == 3

    @pytest.mark.parametrize("status", [401, 410])
    def test_a_try_in_place_does_so_too(self, app: Redrive, status: int) -> None:
        with receiver(answer(status)) as there:
            there.endpoint(app).try_now({})
        assert [note.name for note in app.store.notes("pause:")] == ["pause:railway"]

    @pytest.mark.parametrize("status", [401, 410])
    @pytest.mark.parametrize("policy", [presets.WEBHOOKS, Policy(attempts=3)], ids=["hooks", "own"])
    def test_a_policy_without_pauses_has_none(
        self, app: Redrive, status: int, policy: Policy
    ) -> None:
        with receiver(answer(status)) as there:
            self.three(app, there, policy=policy)
            app.run_due()
        assert (len(there.posts), app.store.notes("pause:")) == (3, [])

    def test_a_pause_of_a_person_is_left_alone(self, app: Redrive) -> None:
        with receiver(answer(410)) as there:
            endpoint = there.endpoint(app)
            app.desk.lanes.pause("railway", reason="they asked us to")
            endpoint.try_now({})
        [note] = app.store.notes("pause:")
        assert json.loads(note.value)["reason"] == "they asked us to"

    @pytest.mark.parametrize("value", [None, "", "two words", "grüß", "a\nb"])
    def test_without_its_token_nothing_is_sent_and_the_others_wait(
        self, app: Redrive, monkeypatch: pytest.MonkeyPatch, value: str | None
    ) -> None:
        monkeypatch.delenv("RAILWAY_TOKEN")
        if value is not None:
            monkeypatch.setenv("RAILWAY_TOKEN", value)
        with receiver() as there:
            self.three(app, there, token_env="RAILWAY_TOKEN")
            app.run_due()
        [dead] = app.desk.jobs.find(state="dead").jobs
        assert dead.failure is not None
        assert (dead.failure.category, dead.failure.why) == ("auth", "no token in the environment")
        assert "the environment variable RAILWAY_TOKEN" in dead.failure.message
        assert (there.posts, spent(app)) == ([], [0, 0, 1])

    def test_a_secret_that_cannot_sign_counts_as_missing(
        self, app: Redrive, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RAILWAY_SECRET", "whsec_short")
        with receiver() as there:
            tried = there.endpoint(app, secret_env="RAILWAY_SECRET").try_now({})
        assert tried.job is not None
        assert tried.job.failure is not None
        assert tried.job.failure.category == "auth"
        assert "whsec_short" not in tried.job.failure.message


def test_six_hours_are_waited_across_a_restart(tmp_path: Path) -> None:
    """The server's wish is kept by the store."""
    clock, place = ManualClock(), f"jsonl:{tmp_path}/jobs.jsonl"
    with receiver(answer(503, retry_after="21600"), OK) as there:
        with Redrive(place, clock=clock, rand=lambda: 0.0) as first:
            there.endpoint(first).send({}, key="k")
            first.run_due()
        clock.advance(21599)
        with Redrive(place, clock=clock) as second:
            there.endpoint(second)
            assert second.run_due().taken == 0
            clock.advance(2)
            assert second.run_due().succeeded == 1


class TestSettings:
    def write(self, text: str) -> None:
        Path("redrive.toml").write_text(text, "utf-8")

    def test_an_endpoint_can_stand_in_the_configuration(self, app: Redrive) -> None:
        """And what the program says wins."""
        with receiver() as there:
            self.write(
                f'[endpoints.railway]\nurl = "{there.url()}"\ntoken_env = "RAILWAY_TOKEN"\n'
                f'allow = ["http", ":{there.port}", "127.0.0.0/8"]\ntimeout = "5s"\n'
                '[endpoints.railway.headers]\nX-Team = "hooks"\n'
            )
            assert app.endpoint("railway", headers={"X-Team": "mine"}).try_now({}).done
        assert there.posts[0].headers["authorization"] == f"Bearer {TOKEN}"
        assert there.posts[0].headers["x-team"] == "mine"

    def test_a_path_there_counts_from_the_file(
        self, app: Redrive, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.write(
            '[endpoints.e]\nurl = "https://a.example"\nca_file = "none.pem"\nallow=["a.example"]'
        )
        Path("below").mkdir()
        monkeypatch.chdir("below")
        monkeypatch.setattr("redrive.delivery.guard.resolve", lambda *_: ["127.0.0.1"])
        tried = app.endpoint("e").try_now({})
        assert tried.job is not None
        assert tried.job.failure is not None
        assert tried.job.failure.type == "FileNotFoundError"

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({}, "url is missing"),
            ({"url": 7}, "url must be text"),
            (
                {"url": "https://a.example", "verify": False},
                "unknown settings: verify; known: url, ",
            ),
            ({"url": "https://a.example", "allow": "127.0.0.1"}, "allow must be a list"),
            ({"url": "https://a.example", "allow": [1]}, "allow must be text"),
            ({"url": "https://a.example", "headers": {"Host": "b"}}, "the header 'Host' is set by"),
            (
                {"url": "https://a.example", "headers": {"X": "a\nb"}},
                "header X may only have visible",
            ),
            ({"url": "https://a.example", "headers": {"X:": "a"}}, "the header 'X:' is set by"),
            ({"url": "https://a.example", "headers": {"X": "1", "x": "2"}}, "used twice"),
            (
                {"url": "https://a.example", "token_env": "T", "headers": {"authorization": "x"}},
                "the header 'authorization' is set by",
            ),
            ({"url": "https://a.example", "timeout": "soon"}, "timeout"),
        ],
    )
    def test_what_cannot_be_is_said_in_words(
        self, app: Redrive, settings: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(UsageError, match=said) as caught:
            app.endpoint("railway", **settings)
        assert str(caught.value).startswith("endpoint 'railway': ")

    @pytest.mark.parametrize("text", ["endpoints = 7", "[endpoints]\nrailway = 7"])
    def test_a_table_that_is_none_is_said(self, app: Redrive, text: str) -> None:
        self.write(text)
        with pytest.raises(UsageError, match="must be a table"):
            app.endpoint("railway")

    def test_attempts_may_be_given_like_those_of_any_handler(self, app: Redrive) -> None:
        endpoint = app.endpoint("e", url="https://a.example", attempts=2, lane="theirs")
        assert (endpoint.send({}).max_attempts, endpoint.send({}).lane) == (2, "theirs")
        with pytest.raises(UsageError, match="not on both"):
            app.endpoint("f", url="https://a.example", attempts=2, policy=presets.WEBHOOKS)
