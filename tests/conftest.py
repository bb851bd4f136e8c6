"""For every test: an environment of its own, the database, and no silent skips.

Nothing of the surrounding environment reaches a test: data folder, database, broker and cache are set here,
before Django reads its settings. `TEST_DATABASE_URL` names the server of the PostgreSQL run (tests/run.py).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import django
import pytest

_DATA = Path(tempfile.mkdtemp(prefix="realm-test-"))

for _name in (
    "DEBUG",
    "ALLOWED_HOSTS",
    "CSRF_TRUSTED_ORIGINS",
    "HTTPS",
    "PROXIES",
    "REALM_PUBLIC",
    "LOG_LEVEL",
    "REALM_DEVICE",
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
# Everybody and everything at every address: minutes, and of the two databases PostgreSQL is the one that refuses more.
_MANY_REQUESTS = {"test_api_contract.py", "test_requests.py"}
_EVERYBODY_EVERYWHERE = {"test_administration.py", "test_authorisation.py"}  # the same, beside the attacks
# What the database decides: locks, transactions, constraints, order, and what a row may hold. These run on either;
# pages and the API do the same on both and run on SQLite, and so do a web server's faults; workers run on PostgreSQL.
_DATABASE_DECIDES = {
    f"web/{name}"
    for name in (
        *("test_asking.py", "test_backups.py", "test_database_away.py", "test_deployments_model.py"),
        *("test_feedback.py", "test_idempotency.py", "test_jobs_model.py", "test_parts.py", "test_presence.py"),
        *("test_question_sets.py", "test_queue.py", "test_retention.py", "test_removing.py", "test_scheduling.py"),
        "test_starting_together.py",
    )
} | {"pages/test_history.py", "browser/test_whole_way.py"}
_FAULTS_ON_SQLITE = {
    *("test_clock_faults.py", "test_deploy_under_load.py", "test_jobs.py", "test_web_faults.py"),
    "test_web_processes.py",
}
# Parts of the library's tests that run with "the others", for the streams to be about as long as one another.
_NOT_WITH_LIBRARY = ("corpus", "salient", "selfcheck")


def pytest_configure(config: pytest.Config) -> None:
    from django.conf import settings

    # The real hasher is slow on purpose.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what touches the database, so that it runs on PostgreSQL too, and what runs beside what (tests/run.py)."""
    top = Path(__file__).parent
    for item in items:
        elsewhere = any(item.path.is_relative_to(top / "core" / part) for part in _NOT_WITH_LIBRARY)
        if item.path.is_relative_to(top / "core") and not elsewhere:
            item.add_marker("library")
        fixtures = set(getattr(item, "fixturenames", ()))
        if item.get_closest_marker("django_db") or fixtures & {"db", "transactional_db", "live_server"}:
            if item.path.is_relative_to(top / "core"):
                raise pytest.UsageError(f"{item.nodeid} touches the database, and realm_core knows none.")
            item.add_marker("database")
            if f"{item.path.parent.name}/{item.path.name}" in _DATABASE_DECIDES or item.get_closest_marker(
                "postgresql_only"
            ):
                pass
            elif item.path.name in _MANY_REQUESTS:
                item.add_marker("postgresql_only")
            elif item.path.parent == top / "attacks" or item.path.name in _EVERYBODY_EVERYWHERE:
                item.add_marker("once")
            elif item.path.parent == top / "workers" and item.path.name not in _FAULTS_ON_SQLITE:
                item.add_marker("postgresql_only")
            else:
                item.add_marker("sqlite_only")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _skipped.append(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skipped and session.exitstatus == 0:
        session.exitstatus = 1
    shutil.rmtree(_DATA, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _skipped:
        terminalreporter.section("skipped tests count as failures")
        for name in _skipped:
            terminalreporter.line(name)


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """Keep SQLite's test database in a file, so that other processes (workers) can open it too."""
    from django.db import connection

    if connection.vendor == "sqlite":
        connection.settings_dict["TEST"]["NAME"] = str(_DATA / "test.sqlite3")


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
