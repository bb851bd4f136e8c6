"""For every test: an environment of its own, the database, and no silent skips.

Nothing of the surrounding environment reaches a test: data folder, database, broker and cache are set here,
before Django reads its settings. `TEST_DATABASE_URL` names the server of the PostgreSQL run (tests/run.py).
"""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pytest

from tests.migrated import IS_MADE, migrated

gc.disable()  # nothing of what is loaded goes; pytest_collection_finish
_DATA = Path(tempfile.mkdtemp(prefix="realm-test-"))

for _name in (
    "DEBUG",
    "ALLOWED_HOSTS",
    "CSRF_TRUSTED_ORIGINS",
    "HTTPS",
    "PROXIES",
    "LOGIN_HEADER",
    "LOGIN_GROUPS_HEADER",
    "REALM_PUBLIC",
    "LOG_LEVEL",
    "REALM_DEVICE",
    "REALM_SEARCH",
    "REALM_MILVUS_URI",
    "REALM_MILVUS_TOKEN",
    "REALM_FOLD",
    "REALM_STORE",
    "JOB_LEASE_S",
):
    os.environ.pop(_name, None)
os.environ.update(
    DJANGO_SETTINGS_MODULE="webapp.settings",
    REALM_DATA=str(_DATA),
    DATABASE_URL=os.environ.get("TEST_DATABASE_URL") or f"sqlite:///{_DATA / 'db.sqlite3'}",
    BROKER_URL="memory://",
    CACHE_URL="locmem://",
    ASK_RATE="0",
    METRICS_OPEN="1",
    JOB_NICENESS="0",  # many tests run at once, and jobs would starve
    SECRET_KEY="only-for-tests-" + "0" * 40,
    HF_HUB_OFFLINE="1",
    TOKENIZERS_PARALLELISM="false",
)
django.setup()  # conftest files of the folders below import records

_skipped: list[str] = []
_seconds: defaultdict[str, float] = defaultdict(float)  # of each file


def pytest_configure(config: pytest.Config) -> None:
    from django.conf import settings

    # The real hasher is slow on purpose.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    _load_middleware_once()
    _delete_rows_alone()


def _load_middleware_once() -> None:
    """Each test client loads it at its first request, which takes as long as many a request; now with new settings."""
    from django.conf import settings
    from django.test.client import ClientHandler

    load, loaded = ClientHandler.load_middleware, dict[tuple[str, ...], dict[str, Any]]()

    def load_middleware(self: ClientHandler, is_async: bool = False) -> None:
        assert not is_async
        levels = [settings._wrapped]
        while hasattr(levels[-1], "default_settings"):  # what a test sets lies above what was there
            levels.append(levels[-1].default_settings)
        key = tuple(repr(vars(level)) for level in levels)
        if key not in loaded:
            one = ClientHandler()
            load(one)
            loaded[key] = {name: value for name, value in vars(one).items() if "_middleware" in name}
        vars(self).update(loaded[key])

    ClientHandler.load_middleware = load_middleware


def _delete_rows_alone() -> None:
    """Behind a test that commits Django truncates all tables, and makes permissions and content types anew.

    To delete the few rows that there are takes a twentieth of the time on PostgreSQL.
    """
    from django.contrib.contenttypes.models import ContentType
    from django.db import connections, transaction
    from django.test import TransactionTestCase

    def empty(self: TransactionTestCase) -> None:
        for name in self._databases_names(include_mirrors=False):
            connection = connections[name]
            tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
            with transaction.atomic(using=name), connection.cursor() as cursor:
                for table in sorted({*tables} - {"auth_permission", "django_content_type"}):
                    cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")
        ContentType.objects.clear_cache()  # a test may have made them anew

    TransactionTestCase._fixture_teardown = empty


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark what touches the database: only that of a file for both databases runs on PostgreSQL, too (tests/run.py).

    Browser tests come last: Playwright leaves an event loop running in its process, in which no test can start another.
    """
    core, browser = Path(__file__).parent / "core", Path(__file__).parent / "browser"
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if item.get_closest_marker("django_db") or fixtures & {"db", "transactional_db", "live_server"}:
            if item.path.is_relative_to(core):
                raise pytest.UsageError(f"{item.nodeid} touches the database, and realm_core knows none.")
            item.add_marker("database")
    yield  # pytest-django puts tests with a database first
    items.sort(key=lambda item: item.path.is_relative_to(browser))


def pytest_collection_finish() -> None:
    """From here on the garbage collector looks through what the tests make, and not through all that was loaded.

    pytest attaches its handlers to the root logger and to all that do not propagate to it, six times for each test;
    torch alone has forty of these.
    """
    for name, logger in logging.Logger.manager.loggerDict.items():
        if name.partition(".")[0] == "torch" and isinstance(logger, logging.Logger):
            logger.propagate = True
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # with 700, 10 and 10, as usual, it takes a twentieth of the time
    gc.enable()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.partition("::")[0]] += report.duration
    # What the machine lacks is no fault of the tests; such skips say so, and are listed.
    if report.skipped and "this machine" not in str(report.longrepr):
        _skipped.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _skipped.append(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skipped and session.exitstatus == 0:
        session.exitstatus = 1
    if kept := os.environ.get("TEST_SECONDS"):
        Path(kept).write_text(json.dumps({file: round(taken_s, 1) for file, taken_s in _seconds.items()}))
    shutil.rmtree(_DATA, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _skipped:
        terminalreporter.section("skipped tests count as failures")
        for name in _skipped:
            terminalreporter.line(name)


def _unused() -> None:
    """Stands in for what a plugin would do around every test for marks and settings that no test has."""


# Each would be set up 5,600 times.
_dj_autoclear_mailbox = _django_clear_site_cache = _django_isolate_apps = _django_set_urlconf = pytest.fixture(
    scope="session"
)(_unused)
_pw_trace_api_requests = _template_string_if_invalid_marker = _django_set_urlconf


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Take SQLite's test database as it is: a copy of the one that tests/run.py has migrated."""
    return IS_MADE and not os.environ.get("TEST_DATABASE_URL")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_keepdb: bool) -> None:
    """Keep SQLite's test database in a file, so that other processes (workers) can open it too."""
    from django.db import connection

    if connection.vendor == "sqlite":
        connection.settings_dict["TEST"]["NAME"] = str(_DATA / "test.sqlite3")
    if django_db_keepdb:
        migrated(_DATA / "test.sqlite3")
        connection.settings_dict["TEST"]["MIGRATE"] = False


@pytest.fixture
def database_url(transactional_db: None) -> Iterator[str]:
    """The test database's DATABASE_URL for another process; what the test writes is committed."""
    from django.db import connection

    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        yield f"sqlite:///{name}"
    else:
        server, _, _ = os.environ["TEST_DATABASE_URL"].partition("?")
        yield os.environ["TEST_DATABASE_URL"].replace(server, f"{server.rpartition('/')[0]}/{name}", 1)
