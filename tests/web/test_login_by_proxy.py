"""Login by a proxy that passes the person's name in a header: whom it lets in, and what a client cannot make of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessFailureLog
from django.conf import settings as configured
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from tests.web.conftest import FakeEngine, Person
from tests.web.operating import TokenClient
from webapp.access.collections import access_of
from webapp.accounts.by_proxy import BACKEND
from webapp.models import AuditEntry, Collection

TOP = Path(__file__).resolve().parents[2]


@pytest.fixture
def proxied(db: None, settings: Any) -> None:
    """As with PROXIES=1 LOGIN_HEADER=X-Forwarded-User LOGIN_GROUPS_HEADER=X-Forwarded-Groups, on a closed site."""
    settings.PROXIES = 1
    settings.LOGIN_HEADER = "X-Forwarded-User"
    settings.LOGIN_GROUPS_HEADER = "X-Forwarded-Groups"
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, BACKEND]
    settings.REALM_PUBLIC = False
    settings.METRICS_OPEN = False


def named(name: str, **more: str) -> Client:
    """A browser for which the proxy passes this name."""
    return Client(headers={"X-Forwarded-User": name, **more})


def audited() -> list[tuple[str, str]]:
    return list(AuditEntry.objects.order_by("pk").values_list("action", "name"))


def as_wsgi(text: str) -> str:
    return text.encode().decode("latin-1")


@pytest.mark.parametrize("name", ["ada", "ada.lovelace@example.org", "Zoë", "a" * 150])
def test_the_first_request_makes_an_account_and_a_session(proxied: None, name: str) -> None:
    browser = named(as_wsgi(name))
    for _ in range(3):
        assert browser.get(reverse("account")).status_code == 200
    user = User.objects.get()
    assert (user.username, user.is_staff, user.is_superuser, user.has_usable_password()) == (name, False, False, False)
    assert audited() == [("account.create", "the proxy"), ("login", name)]  # once for the session
    assert "Change your password" not in browser.get(reverse("account")).content.decode()


def test_an_account_that_exists_is_used_with_its_rights(proxied: None, staff: Person, engine: FakeEngine) -> None:
    browser = named("Stella")
    assert browser.get("/manage/").status_code == browser.get("/admin/").status_code == 200
    assert browser.get("/metrics").status_code == 200
    assert browser.session.get_expiry_age() == configured.SHORT_SESSION_SECONDS
    assert User.objects.count() == 1


def test_a_new_name_gets_no_pages_of_admins(proxied: None, staff: Person, engine: FakeEngine) -> None:
    browser = named("ada")
    assert [browser.get(path).status_code for path in ("/", "/manage/", "/metrics")] == [200, 403, 403]
    assert browser.get("/admin/").status_code == 302  # to the login, which leads a person who is logged in back
    assert not User.objects.get(username="ada").is_staff


@pytest.mark.parametrize(
    "name",
    [
        "ada,Stella",  # two header fields, as the server joins them
        "ada Stella",
        "a" * 151,
        "a" * 200,
        "Stella\x00",
        "Stella\x07",
        "Ste\tlla",
        as_wsgi("Stell\N{FULLWIDTH LATIN SMALL LETTER A}"),  # normalised, it would be Stella
        as_wsgi("Stella\N{ZERO WIDTH SPACE}"),
        "\xff\xfe",  # no UTF-8
        "<b>ada</b>",
    ],
)
def test_a_name_that_no_account_can_have_is_refused(proxied: None, staff: Person, name: str) -> None:
    browser = named(name)
    page, said = browser.get("/"), browser.get("/api/v1/answers")
    assert page.status_code == said.status_code == 403
    assert "cannot be used here" in page.content.decode() and "cannot be used here" in said.json()["detail"]
    assert User.objects.count() == 1 and audited() == []
    browser.cookies = staff.client.cookies  # nor does a session of before help
    assert browser.get("/manage/").status_code == 403


@pytest.mark.parametrize("name", ["", "  "])
def test_no_name_is_nobody(proxied: None, name: str) -> None:
    sent = named(name).get(reverse("account"))
    assert sent.status_code == 302 and sent["Location"].startswith(reverse("login"))
    assert not User.objects.exists()


def test_a_closed_account_stays_closed(proxied: None, member: Person) -> None:
    browser = named("Memo")
    assert browser.get(reverse("account")).status_code == 200
    User.objects.update(is_active=False)
    for _ in range(12):  # more than the failed logins after which an address is locked
        page = browser.get(reverse("account"))
        assert page.status_code == 403 and "Your account here is closed." in page.content.decode()
    assert named("Memo").get("/api/v1/answers").json()["detail"].startswith("Your account here is closed.")
    assert not AccessAttempt.objects.exists() and not AccessFailureLog.objects.exists()
    assert named("ada").get(reverse("account")).status_code == 200  # from the same address


def test_without_the_setting_the_header_is_any_other(db: None, settings: Any) -> None:
    settings.REALM_PUBLIC = False
    assert named("ada").get(reverse("account")).status_code == 302
    assert not User.objects.exists()


def test_sessions_end_with_the_setting(proxied: None, settings: Any) -> None:
    browser = named("ada")
    assert browser.get(reverse("account")).status_code == 200
    settings.LOGIN_HEADER = ""
    settings.AUTHENTICATION_BACKENDS = configured.AUTHENTICATION_BACKENDS[:-1]
    later = Client()
    later.cookies = browser.cookies
    assert later.get(reverse("account")).status_code == 302


def test_a_session_counts_only_beside_its_name(proxied: None, staff: Person) -> None:
    browser = named("Stella")
    assert browser.get("/manage/").status_code == 200
    with_token = Client(headers={"Authorization": "Bearer realm_nonsense"})
    with_token.cookies["sessionid"] = browser.cookies["sessionid"].value
    assert with_token.get("/manage/").status_code == 302
    other = named("ada")
    other.cookies["sessionid"] = browser.cookies["sessionid"].value
    assert other.get("/manage/").status_code == 403
    assert "<h1>ada</h1>" in other.get(reverse("account")).content.decode()
    later = Client()  # without a name
    later.cookies["sessionid"] = other.cookies["sessionid"].value
    assert later.get("/api/v1/answers").status_code == 401  # where the proxy may let everybody pass
    assert other.get(reverse("account")).status_code == 200 and ("logout", "ada") not in audited()
    assert later.get(reverse("account")).status_code == 302
    assert audited()[-1] == ("logout", "ada")


def test_the_name_is_stronger_than_a_login_with_a_password(proxied: None, staff: Person) -> None:
    browser = named("ada")
    browser.cookies["sessionid"] = staff.client.cookies["sessionid"].value
    assert browser.get("/manage/").status_code == 403
    led = browser.get(reverse("login"), {"next": "/history/"})  # another login would be undone by the next request
    assert led.status_code == 302 and led["Location"] == "/history/"


def test_without_the_proxy_a_password_lets_in(proxied: None, staff: Person) -> None:
    assert staff.client.get("/manage/").status_code == 200
    said = staff.client.get(reverse("login")).content.decode()
    assert "People log in at the proxy" in said


def test_logging_out_says_what_it_can(proxied: None) -> None:
    browser = named("ada")
    browser.get(reverse("account"))
    page = browser.post(reverse("logout"))
    assert page.status_code == 200 and "Logged out here only" in page.content.decode()
    assert audited()[-1] == ("logout", "ada")
    assert browser.get(reverse("account")).status_code == 200


def test_tokens_need_no_header_and_begin_no_session(proxied: None, member: Person, engine: FakeEngine) -> None:
    program = TokenClient(member.user, "ask")
    assert program.get("/api/v1/answers").status_code == 200
    both = program.get("/api/v1/answers", headers={"X-Forwarded-User": "ada"})
    assert both.status_code == 200 and "sessionid" not in both.cookies
    assert not User.objects.filter(username="ada").exists() and audited() == []


def test_the_proxys_own_bearer_token_does_not_hide_the_name(proxied: None) -> None:
    assert named("ada", Authorization="Bearer eyJhbGciOi").get(reverse("account")).status_code == 200


def test_the_api_takes_the_session_only_with_the_csrf_token(proxied: None, engine: FakeEngine) -> None:
    browser = Client(enforce_csrf_checks=True, headers={"X-Forwarded-User": "ada"})
    assert browser.get("/api/v1/answers").status_code == 200
    body = json.dumps({"question": "Who?"})
    assert browser.post("/api/v1/ask", body, content_type="application/json").status_code == 403
    browser.get(reverse("account"))
    token = browser.cookies["csrftoken"].value
    sent = browser.post("/api/v1/ask", body, content_type="application/json", headers={"X-CSRFToken": token})
    assert sent.status_code == 201
    assert browser.post("/mcp", body, content_type="application/json").status_code == 401  # only tokens count there


def test_an_open_site_stays_open(proxied: None, settings: Any, engine: FakeEngine) -> None:
    settings.REALM_PUBLIC = True
    assert Client().get("/").status_code == named("ada").get("/").status_code == 200
    assert Client().get(reverse("account")).status_code == 302


def test_groups_open_private_collections(proxied: None) -> None:
    law, press, curators = (Group.objects.get_or_create(name=name)[0] for name in ("law", "press", "curators"))
    files = Collection.objects.create(name="files", private=True)
    files.groups.add(law, curators)
    Collection.objects.create(name="news").groups.add(press)  # not private, so it needs no opening
    browser = named("ada", **{"X-Forwarded-Groups": "staff, law,press,curators"})
    browser.get(reverse("account"))
    ada = User.objects.get(username="ada")
    # `press` opens nothing, and `curators` is a role.
    assert [group.name for group in ada.groups.all()] == ["law"] and not access_of(ada).hidden
    ada.groups.add(press)
    browser.get(reverse("account"))
    assert audited().count(("account.groups", "the proxy")) == 1
    browser.get(reverse("account"), headers={"X-Forwarded-Groups": ""})  # within the session
    ada = User.objects.get(username="ada")
    assert [group.name for group in ada.groups.all()] == ["press"] and access_of(ada).hidden == {"files"}


def test_groups_of_an_account_with_a_password_stay(proxied: None, member: Person) -> None:
    law = Group.objects.create(name="law")
    Collection.objects.create(name="files", private=True).groups.add(law)
    named("Memo", **{"X-Forwarded-Groups": "law"}).get(reverse("account"))
    assert not member.user.groups.exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"LOGIN_HEADER": "X-Forwarded-User"}, "LOGIN_HEADER needs PROXIES of at least 1"),
        ({"LOGIN_HEADER": "X_Forwarded_User", "PROXIES": "1"}, "LOGIN_HEADER must name a header that only the proxy"),
        ({"LOGIN_HEADER": "User-Agent", "PROXIES": "1"}, "LOGIN_HEADER must name a header that only the proxy sets"),
        ({"LOGIN_HEADER": "Cookie", "PROXIES": "1"}, "LOGIN_HEADER must name a header that only the proxy sets"),
        ({"LOGIN_GROUPS_HEADER": "Remote-Groups", "PROXIES": "1"}, "LOGIN_GROUPS_HEADER needs LOGIN_HEADER"),
        (
            {"LOGIN_HEADER": "Remote-User", "LOGIN_GROUPS_HEADER": "remote-user", "PROXIES": "1"},
            "must name another header",
        ),
        ({"LOGIN_HEADER": "Remote-User", "LOGIN_GROUPS_HEADER": "Remote-Groups", "PROXIES": "1"}, ""),
    ],
)
def test_what_is_refused_at_the_start(tmp_path: Path, given: dict[str, str], says: str) -> None:
    environment = {**os.environ, "REALM_DATA": str(tmp_path), "REALM_PUBLIC": "0", "SECRET_KEY": "", **given}
    command = [sys.executable, "-c", "import webapp.settings"]
    process = subprocess.run(command, cwd=TOP, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == bool(says) and says in process.stderr
