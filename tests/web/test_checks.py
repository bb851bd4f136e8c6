"""Our own checks, as `manage.py check --deploy --database default` makes them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder

from webapp.checks import check_admins, check_version


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("person", "found"),
    [
        ({"username": "Stella", "password": "Stella", "is_staff": True}, True),
        ({"username": "Stella", "password": "admin", "is_staff": True}, True),
        ({"username": "Stella", "password": "password", "is_staff": True}, True),
        ({"username": "Stella", "password": "123456", "is_staff": True}, True),
        ({"username": "Stella", "password": "a river in the north", "is_staff": True}, False),
        ({"username": "Stella", "password": None, "is_staff": True}, False),
        ({"username": "Stella", "password": "Stella", "is_staff": True, "is_active": False}, False),
        ({"username": "Stella", "password": "Stella"}, False),
    ],
)
def test_an_admin_whose_password_anybody_guesses_is_named(person: dict[str, object], found: bool) -> None:
    User.objects.create_user(**person)  # type: ignore[arg-type]
    errors = check_admins(databases=["default"])
    assert [error.id for error in errors] == ["webapp.E001"] * found
    assert all("Stella" in error.msg for error in errors)
    assert check_admins() == []


@pytest.mark.django_db
def test_a_database_that_does_not_answer_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise DatabaseError("gone")

    monkeypatch.setattr(connection, "cursor", gone)
    assert check_admins(databases=["default"]) == [] and check_version(databases=["default"]) == []


@pytest.mark.django_db
def test_a_database_of_a_newer_version_is_refused_before_it_is_migrated() -> None:
    assert check_version(databases=["default"]) == []
    MigrationRecorder(connection).record_applied("webapp", "0999_what_comes_later")
    assert check_version() == []
    (error,) = check_version(databases=["default"])
    assert error.id == "webapp.E002" and "0999_what_comes_later" in error.msg
    with pytest.raises(SystemCheckError, match="newer version"):
        call_command("migrate", "--no-input", verbosity=0, skip_checks=False)
