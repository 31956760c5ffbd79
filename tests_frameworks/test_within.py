"""A job that is submitted in the caller's own transaction is stored if, and only if, it commits.

Each kind of connection is one class below: how to open it, to begin, commit and roll back, and to set a
savepoint and go back to it. The tests are the same for all.
"""

import asyncio
import contextlib
import inspect
import json
import threading

import asyncpg
import django.db.transaction
import django.db.utils
import psycopg
import psycopg2
import psycopg2.extras
import pytest
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from django.conf import settings as django_settings
from django.utils.connection import ConnectionProxy

import pgkit
from redrive import Redrive
from redrive.errors import KeyConflict, UsageError

HOST = str(pgkit.server().pgdata)

if not django_settings.configured:
    django_settings.configure(USE_TZ=True)
    django.setup()


def engine_url(driver, database):
    return sqlalchemy.URL.create(driver, "postgres", database=database, query={"host": HOST})


class Psycopg:
    def open(self, database="postgres", *, autocommit=False):
        self.given = psycopg.connect(
            host=HOST, user="postgres", dbname=database, autocommit=autocommit
        )
        return self.given

    def close(self):
        self.given.close()

    def sql(self, text):
        self.given.execute(text)

    def commit(self):
        self.given.commit()

    def rollback(self):
        self.given.rollback()


class PsycopgAsync(Psycopg):
    async def open(self, database="postgres", *, autocommit=False):
        self.given = await psycopg.AsyncConnection.connect(
            host=HOST, user="postgres", dbname=database, autocommit=autocommit
        )
        return self.given

    async def sql(self, text):
        await self.given.execute(text)

    def commit(self):
        return self.given.commit()

    def rollback(self):
        return self.given.rollback()

    def close(self):
        return self.given.close()


class Psycopg2(Psycopg):
    def open(self, database="postgres", *, autocommit=False):
        self.given = psycopg2.connect(
            host=HOST,
            user="postgres",
            dbname=database,
            cursor_factory=psycopg2.extras.RealDictCursor,
        )
        self.given.autocommit = autocommit
        return self.given

    def sql(self, text):
        with self.given.cursor() as cursor:
            cursor.execute(text)


class Asyncpg:
    async def open(self, database="postgres", *, autocommit=False):
        self.given = await asyncpg.connect(host=HOST, user="postgres", database=database)
        self.transaction = None
        if not autocommit:
            await self.begin()
        return self.given

    async def begin(self):
        self.transaction = self.given.transaction()
        await self.transaction.start()

    def close(self):
        return self.given.close()

    def sql(self, text):
        return self.given.execute(text)

    async def commit(self):
        await self.transaction.commit()
        await self.begin()

    async def rollback(self):
        await self.transaction.rollback()
        await self.begin()


class AsyncpgPooled(Asyncpg):
    """A connection of a pool, which is a proxy of another type."""

    async def open(self, database="postgres", *, autocommit=False):
        self.pool = await asyncpg.create_pool(
            host=HOST, user="postgres", database=database, min_size=1, max_size=1
        )
        self.given = await self.pool.acquire()
        if not autocommit:
            await self.begin()
        return self.given

    def close(self):
        self.pool.terminate()


class Core:
    driver = "postgresql+psycopg"

    def engine(self, database, *, autocommit):
        level = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        return sqlalchemy.create_engine(engine_url(self.driver, database), **level)

    def open(self, database="postgres", *, autocommit=False):
        self._engine = self.engine(database, autocommit=autocommit)
        self.given = self._engine.connect()
        return self.given

    def close(self):
        self.given.close()
        self._engine.dispose()

    def sql(self, text):
        self.given.execute(sqlalchemy.text(text))

    def commit(self):
        self.given.commit()

    def rollback(self):
        self.given.rollback()


class CorePsycopg2(Core):
    driver = "postgresql+psycopg2"


class Orm(Core):
    def open(self, database="postgres", *, autocommit=False):
        self._engine = self.engine(database, autocommit=autocommit)
        self.given = sqlalchemy.orm.Session(self._engine)
        return self.given


class Scoped(Core):
    """The session of Flask-SQLAlchemy is one of these."""

    def open(self, database="postgres", *, autocommit=False):
        self._engine = self.engine(database, autocommit=autocommit)
        self.given = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(self._engine))
        return self.given


class CoreAsync(Core):
    def engine(self, database, *, autocommit):
        level = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        make = sqlalchemy.ext.asyncio.create_async_engine
        return make(engine_url(self.driver, database), **level)

    async def open(self, database="postgres", *, autocommit=False):
        self._engine = self.engine(database, autocommit=autocommit)
        self.given = await self._engine.connect()
        return self.given

    async def close(self):
        await self.given.close()
        await self._engine.dispose()

    async def sql(self, text):
        await self.given.execute(sqlalchemy.text(text))

    def commit(self):
        return self.given.commit()

    def rollback(self):
        return self.given.rollback()


class CoreAsyncpg(CoreAsync):
    driver = "postgresql+asyncpg"


class OrmAsync(CoreAsync):
    async def open(self, database="postgres", *, autocommit=False):
        self._engine = self.engine(database, autocommit=autocommit)
        self.given = sqlalchemy.ext.asyncio.AsyncSession(self._engine)
        return self.given


class OrmAsyncpg(OrmAsync):
    driver = "postgresql+asyncpg"


class Django:
    def open(self, database="postgres", *, autocommit=False):
        backend = "django.db.backends.postgresql"
        one = {"ENGINE": backend, "NAME": database, "USER": "postgres", "HOST": HOST}
        self.handler = django.db.utils.ConnectionHandler({"default": one})
        self.given = self.handler["default"]
        if not autocommit:
            self.given.set_autocommit(False)
        return self.given

    def close(self):
        self.given.rollback() if not self.given.get_autocommit() else None
        self.given.close()

    def sql(self, text):
        with self.given.cursor() as cursor:
            cursor.execute(text)

    def commit(self):
        self.given.commit()

    def rollback(self):
        self.given.rollback()


SYNC = [Psycopg, Psycopg2, Core, CorePsycopg2, Orm, Scoped, Django]
ASYNC = [PsycopgAsync, Asyncpg, AsyncpgPooled, CoreAsync, CoreAsyncpg, OrmAsync, OrmAsyncpg]


@pytest.fixture
def app(url):
    with Redrive(url) as app:
        yield app


@pytest.fixture
def send(app):
    @app.handler("mail.send")
    def send(to): ...

    return send


@pytest.fixture(params=SYNC + ASYNC, ids=lambda kind: kind.__name__)
def tried(request, app, send):
    """Runs a coroutine function with a user of one kind of connection, sync or async."""

    def run(work, **options):
        user = User(request.param(), send)

        async def main():
            try:
                await user.call(user.kind.open, **options)
                await work(user)
            finally:
                await user.call(user.kind.close)

        asyncio.run(main()) if request.param in ASYNC else _run_sync(main())

    return run


def _run_sync(coroutine):
    """Run a coroutine that awaits nothing: there is no loop, as in a sync program."""
    with contextlib.suppress(StopIteration):
        coroutine.send(None)
        raise AssertionError("it waited for something")


class User:
    """Uses a connection in one way, sync or async."""

    def __init__(self, kind, send):
        self.kind, self.handler = kind, send

    async def call(self, function, *args, **options):
        answer = function(*args, **options)
        return await answer if inspect.isawaitable(answer) else answer

    async def submit(self, to, **options):
        handler = self.handler.options(within=self.kind.given, **options)
        return await self.call(handler.asubmit if type(self.kind) in ASYNC else handler.submit, to)

    async def submit_many(self, items):
        handler = self.handler.options(within=self.kind.given)
        verb = handler.asubmit_many if type(self.kind) in ASYNC else handler.submit_many
        return await self.call(verb, items)

    async def sql(self, text):
        await self.call(self.kind.sql, text)

    async def commit(self):
        await self.call(self.kind.commit)

    async def rollback(self):
        await self.call(self.kind.rollback)


def stored(app):
    return [job.id for job in app.desk.jobs.find().jobs]


async def until_blocked():
    """Wait until a transaction waits for another."""
    with pgkit.connect() as watcher:
        while watcher.execute("SELECT FROM pg_locks WHERE NOT granted").fetchone() is None:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)


def test_the_job_is_stored_when_the_caller_commits_and_not_before(app, tried):
    async def work(user):
        job = await user.submit("ada")
        assert job.is_new
        assert stored(app) == []
        await user.commit()
        assert stored(app) == [job.id]

    tried(work)


def test_nothing_is_stored_when_the_caller_rolls_back(app, tried):
    async def work(user):
        await user.submit("ada", key="k")
        await user.rollback()
        assert stored(app) == []
        kept = await user.submit("bob", key="k")
        await user.commit()
        assert stored(app) == [kept.id]

    tried(work)


def test_a_savepoint_of_the_caller_undoes_only_what_came_after_it(app, tried):
    async def work(user):
        kept = await user.submit("ada")
        await user.sql("SAVEPOINT one")
        await user.submit("bob")
        await user.sql("ROLLBACK TO SAVEPOINT one")
        await user.commit()
        assert stored(app) == [kept.id]

    tried(work)


def test_a_conflict_leaves_the_callers_transaction_as_it_was(app, send, tried):
    first = send.options(key="k").submit("ada")

    async def work(user):
        other = await user.submit("cy")
        with pytest.raises(KeyConflict):
            await user.submit("bob", key="k")
        same = await user.submit("ada", key="k")
        assert (same.id, same.is_new) == (first.id, False)
        await user.commit()
        assert {*stored(app)} == {first.id, other.id}

    tried(work)


def test_many_are_stored_when_the_caller_commits(app, tried):
    async def work(user):
        jobs = await user.submit_many({"to": str(number)} for number in range(1200))
        assert stored(app) == []
        await user.commit()
        assert [json.loads(job.payload)["to"] for job in jobs] == [*map(str, range(1200))]
        assert sum(count.jobs for count in app.desk.jobs.counts()) == 1200

    tried(work)


def test_of_many_with_a_conflict_nothing_is_stored_and_the_transaction_goes_on(app, send, tried):
    first = send.options(key="k1100").submit("somebody")
    items = [send.options(key=f"k{number}").item(str(number)) for number in range(1200)]

    async def work(user):
        with pytest.raises(KeyConflict, match=r"items\[1100\]: .*'k1100'.*first 0 are stored"):
            await user.submit_many(items)
        kept = await user.submit("ada")
        await user.commit()
        assert {*stored(app)} == {first.id, kept.id}

    tried(work)


def test_autocommit_is_refused_and_nothing_is_stored(app, tried):
    async def work(user):
        with pytest.raises(UsageError, match="autocommit"):
            await user.submit("ada")
        assert stored(app) == []

    tried(work, autocommit=True)


def test_another_database_is_refused_by_its_name(app, tried):
    async def work(user):
        with pytest.raises(UsageError, match="to the database 'template1'"):
            await user.submit("ada")

    tried(work, database="template1")


def test_a_submit_by_name_is_stored_when_the_caller_commits(app, tried):
    async def work(user):
        verb = app.asubmit if type(user.kind) in ASYNC else app.submit
        job = await user.call(verb, "other.program", {"to": "ada"}, within=user.kind.given)
        assert stored(app) == []
        await user.commit()
        assert stored(app) == [job.id]

    tried(work)


def test_text_of_all_kinds_arrives_as_it_was(app, tried):
    text = "ﬁne ¡日本語! '%s' %% :name $1 \\ \" \n 🎉"

    async def work(user):
        job = await user.submit(text, tags=["x"])
        await user.commit()
        assert json.loads(app.get(job.id).payload) == {"to": text}
        assert app.get(job.id).tags == ("x",)

    tried(work)


@pytest.mark.parametrize("kind", ASYNC, ids=lambda kind: kind.__name__)
def test_the_loop_goes_on_while_an_asubmit_waits_for_a_lock(app, send, kind):
    """Another transaction holds the key; it ends only after the loop was seen to turn."""

    async def main():
        user = User(kind(), send)
        await user.kind.open()
        with pgkit.connect(autocommit=False) as other:
            first = send.options(key="k", within=other).submit("ada")
            waiting = asyncio.ensure_future(user.submit("ada", key="k"))
            await until_blocked()
            assert not waiting.done()
            other.commit()
            same = await waiting
        assert (same.id, same.is_new) == (first.id, False)
        await user.call(user.kind.close)

    asyncio.run(main())


@pytest.mark.parametrize("kind", [*ASYNC, Psycopg], ids=lambda kind: kind.__name__)
def test_a_call_that_failed_in_place_is_stored_when_the_caller_commits(app, kind):
    @app.handler("shaky")
    async def shaky(number):
        raise ConnectionError

    async def main():
        user = User(kind(), shaky)
        given = await user.call(user.kind.open)
        tried = await shaky.options(within=given).atry_now(7)
        assert not tried.done
        assert stored(app) == []
        await user.commit()
        await user.call(user.kind.close)
        return tried.job

    job = app.get(asyncio.run(main()).id)
    assert (job.attempts, len(job.history), job.failure.category) == (1, 1, "transient")


@pytest.mark.parametrize("kind", [Psycopg, Psycopg2, Core, Orm], ids=lambda kind: kind.__name__)
def test_asubmit_takes_sync_connections_on_another_thread(app, send, kind):
    async def main():
        user = kind()
        job = await send.options(within=user.open()).asubmit("ada")
        assert stored(app) == []
        user.commit()
        user.close()
        return job

    assert asyncio.run(main()).id in stored(app)


def test_asubmit_refuses_djangos_connection_which_belongs_to_its_thread(send):
    user = Django()
    given = user.open()

    async def main():
        with pytest.raises(UsageError, match="sync_to_async"):
            await send.options(within=given).asubmit("ada")

    asyncio.run(main())
    user.close()


@pytest.mark.parametrize("is_proxy", [True, False], ids=["django.db.connection", "its wrapper"])
def test_djangos_atomic_blocks_commit_and_roll_back(app, send, monkeypatch, is_proxy):
    user = Django()
    wrapper = user.open(autocommit=True)
    monkeypatch.setattr(django.db.transaction, "connections", user.handler)
    given = ConnectionProxy(user.handler, "default") if is_proxy else wrapper
    atomic = django.db.transaction.atomic
    with atomic():
        kept = send.options(within=given).submit("ada")
        with contextlib.suppress(ZeroDivisionError), atomic():
            send.options(within=given).submit("bob")
            raise ZeroDivisionError
        assert stored(app) == []
    assert stored(app) == [kept.id]
    with contextlib.suppress(ZeroDivisionError), atomic():
        send.options(within=given).submit("cy")
        raise ZeroDivisionError
    assert stored(app) == [kept.id]
    user.close()


def test_a_sync_session_over_an_async_driver_works_in_run_sync(app, send):
    async def main():
        user = OrmAsyncpg()
        session = await user.open()
        job = await session.run_sync(lambda sync: send.options(within=sync).submit("ada"))
        assert stored(app) == []
        await user.commit()
        await user.close()
        return job

    assert asyncio.run(main()).id in stored(app)


def test_a_connection_to_another_kind_of_database_is_refused(send):
    sqlite = sqlalchemy.create_engine("sqlite://")
    with sqlite.connect() as connection, pytest.raises(UsageError, match="found one to sqlite"):
        send.options(within=connection).submit("ada")
    sqlite.dispose()


def test_a_cancelled_asubmit_uses_a_sync_connection_no_more(app, send):
    """Or the job could be added after the caller's rollback, in the next transaction."""
    locked = threading.Event()

    async def main():
        user = Psycopg()
        user.open()
        with pgkit.connect(autocommit=False) as other:
            send.options(key="k", within=other).submit("ada")
            waiting = asyncio.ensure_future(send.options(key="k", within=user.given).asubmit("ada"))
            await until_blocked()
            waiting.cancel()
            asyncio.get_running_loop().call_later(0.05, lambda: (locked.set(), other.commit()))
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert locked.is_set()
        user.rollback()
        user.close()

    asyncio.run(main())
