"""What must stay true of the web application as a whole."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client

from tests.web.conftest import FakeEngine, Person
from webapp.models import AskedAnswer


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


def test_no_pickle() -> None:
    """Neither in the session, nor in the cache of a real server, nor in messages."""
    from webapp.cache import JSONSerializer

    serializer = JSONSerializer()
    assert serializer.dumps(7) == 7 and serializer.loads(b"7") == 7
    assert serializer.loads(bytes(str(serializer.dumps({"a": [1.5]}), "utf-8"), "utf-8")) == {"a": [1.5]}
    with pytest.raises(TypeError):
        serializer.dumps(object())
    assert "pickle" not in settings.SESSION_SERIALIZER.lower()


def test_a_question_is_data_and_never_markup(outsider: Person, staff: Person, engine: FakeEngine) -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7|add:7 }}'
    response = outsider.client.post("/", {"question": evil}, follow=True)
    assert response.status_code == 200
    asked = AskedAnswer.objects.get()
    assert asked.question == evil
    pages = [
        response,
        outsider.client.get("/history/"),
        outsider.client.get("/", {"q": evil}),
        outsider.client.post("/", {"question": evil * 30}),  # too long: an error with the question in it
        outsider.client.get("/answers/" + str(asked.pk) + "/"),
    ]
    for page in (p.content.decode() for p in pages):
        assert "<script>alert" not in page and "<img src=x" not in page
        assert "&lt;script&gt;alert" in page and "{{ 7|add:7 }}" in page


def test_ready_and_alive(client: Client, engine: FakeEngine) -> None:
    assert client.get("/healthz").content == b"ok\n"
    ready = client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json() == {
        "ready": True,
        "database": "ok",
        "engine": "ready",
        "model": "realm-mini 1",
        "index": "gen-1",
    }


@pytest.mark.django_db
@pytest.mark.usefixtures("loader")
def test_not_ready_while_nothing_is_deployed(client: Client) -> None:
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["engine"] == "nothing deployed" and "Nothing is deployed" in response.json()["reason"]
    assert client.get("/healthz").status_code == 200


@pytest.mark.django_db
def test_a_form_without_its_token(loader: object) -> None:
    response = Client(enforce_csrf_checks=True).post("/accounts/login/", {"username": "x", "password": "y"})
    assert response.status_code == 403 and b"The form has expired" in response.content
