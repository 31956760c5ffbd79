"""A real Django project, the one on its page, against a real PostgreSQL: each part in a process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

import pgkit
import walkkit
from redrive.contrib.django.project import _postgres_url

PAGE = walkkit.ROOT / "docs" / "howto" / "django.md"
SETTINGS = "shop_site/settings.py"
SETUP = "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'shop_site.settings'\ndjango.setup()\n"


class Project:
    """The project of the page in a directory, with a database of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ: dict[str, str] = {}
        walk = walkkit.Walk(folder)
        for language, body in walkkit.BLOCK.findall(PAGE.read_text("utf-8")):
            if walkkit.NAMED.match(body):
                walk.block(language, body)

    def add(self, name: str, text: str) -> None:
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(text)

    def run(self, *words: str, code: int = 0, cwd: Path | None = None) -> str:
        environ = {**os.environ, "PYTHONPATH": "", **self.environ}
        done = subprocess.run(
            [sys.executable, "-W", "error", *words],
            cwd=cwd or self.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def python(self, text: str, code: int = 0) -> str:
        return self.run("-c", SETUP + text, code=code)

    def manage(self, *words: str, code: int = 0, cwd: Path | None = None) -> str:
        return self.run(str(self.folder / "manage.py"), *words, code=code, cwd=cwd)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture
def shop(project):
    """The project with its tables."""
    project.environ |= pgkit.empty_database("shop")
    project.manage("makemigrations", "shop")
    project.manage("migrate", "--verbosity", "0")
    return project


def test_the_page_does_what_it_says(tmp_path):
    assert walkkit.Walk(tmp_path, dict(pgkit.empty_database("shop"))).page(PAGE) > 10


def test_a_rolled_back_transaction_stores_neither_order_nor_job(shop):
    said = shop.python(
        """
from django.db import connection, transaction
from shop.handlers import app, confirm
from shop.models import Order
try:
    with transaction.atomic():
        confirm.options(within=connection).submit(Order.objects.create(customer="ada").pk)
        raise KeyError
except KeyError:
    pass
with transaction.atomic():
    confirm.options(within=connection).submit(Order.objects.create(customer="bob").pk)
print(Order.objects.count(), len(app.desk.jobs.find().jobs))
print(app.run_due().succeeded, connection.connection, Order.objects.get().is_confirmed)
"""
    )
    assert (
        said == "1 1\n1 None True\n"
    )  # None: the attempt closed its connection, as a request does


HANDLERS = """

@app.handler("order.apart", timeout=30)
def apart(order: int) -> None:
    import sys
    Order.objects.create(customer=f"apart {'redrive.cli.child' in sys.modules['__main__'].__spec__.name}")


@app.handler("order.async")
async def aconfirm(order: int) -> None:
    await Order.objects.acreate(customer="async")
"""


def test_a_supervised_worker_runs_plain_async_and_isolated_handlers(shop, tmp_path_factory):
    """It is started from another directory, with a supervisor, a worker process and a child."""
    shop.add("shop/handlers.py", HANDLERS)
    shop.python(
        """
from shop.handlers import aconfirm, apart, confirm
from shop.models import Order
for handler in (confirm, apart, aconfirm):
    handler.submit(Order.objects.create(customer="ada").pk)
"""
    )
    worker = subprocess.Popen(
        [sys.executable, str(shop.folder / "manage.py"), "redrive", "work", "--processes", "1"],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        env={**os.environ, "PYTHONPATH": "", **shop.environ},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wanted = [("ada", False)] * 2 + [("ada", True), ("apart True", False), ("async", False)]
        deadline = time.monotonic() + 90
        with pgkit.connect(dbname="shop") as connection:
            orders = "SELECT customer, is_confirmed FROM shop_order ORDER BY 1, 2"
            while connection.execute(orders).fetchall() != wanted:
                assert worker.poll() is None, worker.stderr.read()
                assert time.monotonic() < deadline, connection.execute(orders).fetchall()
                time.sleep(0.1)
        worker.send_signal(signal.SIGTERM)
        _, said = worker.communicate(timeout=60)
        assert worker.returncode == 0, said
    finally:
        if worker.poll() is None:
            worker.kill()
        worker.communicate()


def test_commands_use_the_store_of_the_project(shop, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shop.environ["REDRIVE_STORE"] = "other.db"
    shop.manage("redrive", "init", "--settings", "shop_site.settings", cwd=elsewhere)
    shown = shop.manage("redrive", "doctor", "--plain", cwd=elsewhere)
    assert "postgresql:///shop" in shown
    assert "DATABASES['default'] in the settings of Django" in shown
    assert shop.manage("redrive", "dlq", "--json", cwd=elsewhere).count('"jobs"') <= 1
    assert not list(elsewhere.iterdir())


def test_a_command_can_be_called_from_a_program(shop):
    said = shop.python(
        """
from django.core.management import CommandError, call_command
call_command("redrive", "init")
try:
    call_command("redrive", "show", "01J0000000")
except CommandError as error:
    print(error, error.returncode)
"""
    )
    assert said.splitlines()[-1] == "redrive show 01J0000000 ended with exit code 3 3"


def test_tests_of_django_use_a_store_in_the_test_database(shop):
    shop.add(
        "shop/tests.py",
        """
from django.test import TransactionTestCase
from redrive.contrib.django import app
from shop.handlers import confirm

class RealStoreTest(TransactionTestCase):
    def test_the_store(self):
        self.addCleanup(app.close)
        confirm.submit(1)
        assert "/test_shop" in app.store.url, app.store.url
        assert app.run_due().succeeded == 1
""",
    )
    shop.manage("test", "--verbosity", "0")
    assert shop.python("from shop.handlers import app\nprint(app.store.counts())") == "[]\n"


def test_sqlite_has_a_file_beside_the_database(project):
    project.add(
        SETTINGS,
        "\nfrom pathlib import Path\n"
        "NAME = Path(__file__).parent.parent / 'data' / 'db.sqlite3'\n"
        "DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': NAME}}\n",
    )
    (project.folder / "data").mkdir()
    project.manage("makemigrations", "shop")
    project.manage("migrate", "--verbosity", "0")
    project.python("from shop.handlers import confirm\nconfirm.submit(1)")
    project.manage("redrive", "work", "--once", cwd=Path("/"))
    assert (project.folder / "data" / "redrive.db").is_file()
    project.manage("test", "--verbosity", "0")  # within= is accepted in tests


def test_a_database_without_a_store_is_refused(project):
    project.add(SETTINGS, "\nDATABASES = {}\n")
    said = project.manage("redrive", "status", code=2)
    assert "DATABASES['default'] uses django.db.backends.dummy, where Redrive has no store" in said
    project.add(SETTINGS, "\nREDRIVE = {'store': 'memory:', 'release': '7'}\n")
    said = "from redrive.contrib.django import app\nprint(app.store.url, app.submitter.settings.release)"
    assert project.python(said) == "memory: 7\n"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("REDRIVE = {'databse': 'x'}", "REDRIVE in the settings of Django is wrong: "),
        ("INSTALLED_APPS = ['shop']", 'add "redrive.contrib.django" to INSTALLED_APPS'),
    ],
)
def test_wrong_settings_are_named(project, settings, words):
    project.add(SETTINGS, f"\n{settings}\n")
    assert words in project.python("from redrive.contrib.django import app", code=1)


def test_a_worker_says_what_is_wrong_with_the_program(project):
    """`redrive` itself, without manage.py, imports the app by its name."""
    words = ("-m", "redrive", "work", "redrive.contrib.django:app", "--once")
    assert "use manage.py redrive" in project.run(*words, code=2)
    project.add("shop/handlers.py", "\nimport nothing_of_this_name\n")
    project.environ["DJANGO_SETTINGS_MODULE"] = "shop_site.settings"
    said = project.run(*words, code=1)
    assert "No module named 'nothing_of_this_name'" in said
    assert "bug in Redrive" not in said


def test_other_modules_can_have_the_handlers(project):
    project.add(SETTINGS, "\nREDRIVE = {'modules': ['jobs'], 'store': 'memory:'}\n")
    project.add(
        "shop/jobs.py",
        "from redrive.contrib.django import app\napp.handler('mail.send')(lambda to: None)\n",
    )
    said = "from redrive.contrib.django import app\nprint(*app.submitter.registry.names())"
    assert project.python(said) == "mail.send\n"


@pytest.mark.parametrize(
    ("database", "wanted"),
    [
        ({"NAME": "shop"}, {"dbname": "shop"}),
        (
            {"NAME": "sh/op", "USER": "a@b", "PASSWORD": "p:/ä?", "HOST": "db", "PORT": 5433},
            {"dbname": "sh/op", "user": "a@b", "password": "p:/ä?", "host": "db", "port": "5433"},
        ),
        (
            {"NAME": "shop", "HOST": "/run/pg", "PORT": "5433", "OPTIONS": {"sslmode": "require"}},
            {"dbname": "shop", "host": "/run/pg", "port": "5433", "sslmode": "require"},
        ),
        ({"NAME": "s", "HOST": "::1", "USER": "u"}, {"dbname": "s", "host": "::1", "user": "u"}),
        (
            {"NAME": "", "OPTIONS": {"service": "shop", "pool": True, "isolation_level": 2}},
            {"service": "shop"},
        ),
        ({"NAME": "shop", "PASSWORD": "x"}, {"dbname": "shop", "password": "x"}),
    ],
)
def test_the_url_has_what_django_connects_with(database, wanted):
    empty = dict.fromkeys(("NAME", "USER", "PASSWORD", "HOST", "PORT"), "")
    url = _postgres_url({**empty, "OPTIONS": {}, **database})
    assert conninfo_to_dict(url) == wanted
