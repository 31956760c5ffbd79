"""A job that is submitted in the caller's own transaction is stored if, and only if, it commits (T4)."""

import pytest
import sqlalchemy
import sqlalchemy.orm

import pgkit
from redrive import Redrive


@pytest.fixture
def app(url):
    with Redrive(url) as app:
        yield app


@pytest.fixture
def send(app):
    @app.handler("mail.send")
    def send(to): ...

    return send


def test_a_session_of_sqlalchemy_commits_and_rolls_back(app, send):
    engine = sqlalchemy.create_engine(pgkit.url_of().replace("postgresql:", "postgresql+psycopg:"))
    with sqlalchemy.orm.Session(engine) as session:
        send.options(within=session).submit("ada")
        session.rollback()
        kept = send.options(within=session).submit("bob")
        session.commit()
    engine.dispose()
    assert [job.id for job in app.desk.jobs.find().jobs] == [kept.id]
