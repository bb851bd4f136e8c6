"""Sessions, passwords and tokens in the hands of others: forged forms, planted sessions, guesses, ways out."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.attacks.texts import SHORT, TEXTS, in_turn
from tests.web.conftest import FakeEngine, Person
from tests.web.operating import TokenClient, post
from tests.web.pages import stored
from tests.web.test_authorisation import API, PAGES, Address, _ends
from webapp.access import limits
from webapp.logs import JSONLines, TextLines
from webapp.models import ApiToken, Feedback, Job, Schedule

PASSWORD = "a long walk by the sea"


@pytest.fixture
def somebody(db: None) -> User:
    return User.objects.create_user("Somebody", password=PASSWORD, is_staff=True)


def log_in(client: Client, password: str = PASSWORD, **more: Any) -> Any:
    form = {"username": "Somebody", "password": password, "next": more.pop("next", "")}
    return client.post(reverse("login"), form, **more)


@pytest.mark.parametrize("name", [name for name in PAGES | API if name != "mcp"])
def test_no_other_site_sends_a_form(name: str, engine: FakeEngine, staff: Person) -> None:
    """Addresses that use no session need no protection: `mcp` (tests/web/test_mcp.py), health and metrics."""
    browser = Client(enforce_csrf_checks=True)
    browser.cookies = staff.client.cookies
    address = (PAGES | API)[name]
    before = counted()
    answered = browser.post(reverse(name, args=_ends(address.ends)), data={}, content_type=kind(address))
    if name not in ("metrics", "healthz", "readyz"):
        assert answered.status_code == 403, name
    made = {"answer": 1, "said": 1, "running": 1, "ended": 1, "schedule": 1}
    assert counted() - before <= sum(made.get(end, 0) for end in address.ends)


def kind(address: Address) -> str:
    return "application/json" if address in API.values() else "application/x-www-form-urlencoded"


def counted() -> int:
    return Job.objects.count() + Feedback.objects.count() + Schedule.objects.count()


def test_a_planted_session_stays_outside(somebody: User, engine: FakeEngine) -> None:
    browser = Client()
    browser.cookies["sessionid"] = "planted0planted0planted0planted0"
    browser.post("/", {"question": "Who?"})
    before = browser.cookies["sessionid"].value
    assert before != "planted0planted0planted0planted0"  # a session that the server does not know is no session
    assert log_in(browser).status_code == 302
    inside = browser.cookies["sessionid"]
    assert inside.value != before and inside["httponly"] and inside["samesite"] == "Lax"
    planted = Client()
    planted.cookies["sessionid"] = before
    assert planted.get(reverse("account")).status_code == 302

    assert browser.get(reverse("account")).status_code == 200
    kept = Client()
    kept.cookies["sessionid"] = inside.value
    browser.post(reverse("logout"))
    assert kept.get(reverse("account")).status_code == 302
    assert "Who?" not in browser.get(reverse("history")).content.decode()


def test_there_is_one_way_in(somebody: User) -> None:
    assert Client().get("/admin/login/?next=/admin/").headers["Location"] == f"{reverse('login')}?next=/admin/"


def test_passwords_are_not_guessed(somebody: User, settings: Any) -> None:
    form = {"username": "Somebody", "password": "wrong"}
    for number in range(10):
        # A client's own word on where it comes from does not make it another one.
        Client().post(reverse("login"), form, headers={"X-Forwarded-For": f"192.0.2.{number}"})
    refused = log_in(Client())
    assert refused.status_code == 429 and b"Too many attempts" in refused.content
    assert log_in(Client(), REMOTE_ADDR="192.0.2.99").status_code == 302  # whoever guesses locks out nobody else
    settings.PROXIES = 1
    assert log_in(Client(), headers={"X-Forwarded-For": "192.0.2.7"}).status_code == 302
    assert log_in(Client(), headers={"X-Forwarded-For": "192.0.2.7, 127.0.0.1"}).status_code == 429


def test_logins_of_many_names_from_one_address_are_limited(somebody: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_LOGINS", (12, 1800))  # more than axes allows one name
    for number in range(12):
        response = Client().post(reverse("login"), {"username": f"name{number}", "password": "Password1"})
        assert response.status_code == 200
    assert log_in(Client()).status_code == 429
    assert log_in(Client(), REMOTE_ADDR="192.0.2.99").status_code == 302


def test_a_whole_department_logs_in_from_one_address(somebody: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_LOGINS", (2, 1800))
    assert [log_in(Client()).status_code for _ in range(4)] == [302] * 4
    for number in range(2):
        Client().post(reverse("login"), {"username": f"name{number}", "password": "Password1"})
    assert log_in(Client()).status_code == 429


def test_a_wrong_token_tells_nothing(engine: FakeEngine, somebody: User) -> None:
    record, token = ApiToken.issue(somebody, "one", ["ask"])
    assert len(token) >= 43  # 256 bits
    ApiToken.objects.filter(pk=record.pk).update(revoked_at=record.created_at)
    answers = set()
    for wrong in ("", "realm_", token, token[:-1], "realm_" + "a" * 43, *SHORT.values()):
        value = f"Bearer {wrong}".encode().decode("latin-1")
        response = Client(headers={"Authorization": value}).get("/api/v1/answers")
        told = response.json()
        answers.add((response.status_code, told["detail"], response["WWW-Authenticate"]))
    assert len(answers) == 1 and answers.pop()[0] == 401


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "///evil.example",
        "javascript:alert(1)",
        "http:evil",
    ],
)
def test_no_way_leads_out(elsewhere: str, somebody: User, staff: Person, engine: FakeEngine) -> None:
    assert log_in(Client(), next=elsewhere)["Location"] == "/"
    said = Feedback.objects.create(answer=stored.store(), right=True)
    review = reverse("manage-feedback-review", args=[said.pk])
    assert staff.client.post(review, {"verdict": "x", "back": elsewhere})["Location"] == reverse("manage-feedback")
    headers = {"HX-Request": "true", "HX-Current-URL": elsewhere}
    led = Client(headers=headers).get(reverse("account"))["HX-Redirect"]
    assert led.startswith("/accounts/login/?next=/") and "evil" not in led


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "localhost:80@evil.example", "a\tb", ""])
def test_the_host_is_not_the_clients_word(host: str, settings: Any, engine: FakeEngine) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    body = json.dumps({"question": "Who?"})
    assert Client().post("/api/v1/ask", body, content_type="application/json", HTTP_HOST=host).status_code == 400
    assert Client().get("/", HTTP_HOST=host).status_code == 400
    made = Client(headers={"X-Forwarded-Host": host}).post(
        "/api/v1/ask", body, content_type="application/json", HTTP_HOST="localhost"
    )
    assert made["Location"].startswith("http://localhost/api/v1/answers/")


def test_what_is_for_one_is_kept_by_no_proxy(engine: FakeEngine, staff: Person) -> None:
    asked = stored.store(asker=staff.user)
    token = TokenClient(staff.user, "ask", "operate")
    for client, address in (
        *(
            (staff.client, address)
            for address in ("/", "/history/", "/account/", "/manage/", "/fill/", "/manage/audit/")
        ),
        *((staff.client, reverse(name, args=[asked.pk])) for name in ("answer", "api-answer")),
        *((token, address) for address in ("/api/v1/answers", "/api/v1/jobs", "/api/v1/models", "/api/v1/deployments")),
    ):
        said = client.get(address)["Cache-Control"]
        assert "private" in said or "no-store" in said, address
    made = post(token, "ask", {"question": "Who?"})
    assert "private" in made["Cache-Control"]


@pytest.mark.parametrize("text", in_turn(TEXTS, 5))
@pytest.mark.parametrize("formatter", [JSONLines(), TextLines("{levelname} {message}", style="{")])
def test_a_line_of_the_log_is_a_line(formatter: logging.Formatter, text: str) -> None:
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    output.write(formatter.format(logging.makeLogRecord({"msg": f"Not found: {text}", "levelname": "INFO"})))
    output.flush()
    written = output.buffer.getvalue().decode()
    assert len(written.splitlines()) == 1
    assert not {"\x1b", "\u202e", "\u2066", "\x00"} & set(written)
