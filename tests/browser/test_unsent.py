"""A form that is sent after the session has ended: what was typed is there again after the login."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.web.conftest import Person

TOLD = "nothing of it was saved"
AGAIN = "What you typed is here again."


def open_form(page: Page, live_server: LiveServer, staff: Person) -> None:
    """The form of a new token, filled in."""
    session = staff.client.cookies["sessionid"].value
    page.context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    page.goto(f"{live_server.url}/account/")
    page.get_by_label("What it is for").fill("A script with a <b>name")
    page.get_by_label("documents").check()


def log_in(page: Page, name: str, password: str) -> None:
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(password)
    page.locator("main").get_by_role("button", name="Log in").click()


def test_what_was_typed_is_there_again(live_server: LiveServer, staff: Person, page: Page) -> None:
    page.set_default_timeout(60_000)
    open_form(page, live_server, staff)
    Session.objects.all().delete()
    page.get_by_role("button", name="Make a token").click()
    expect(page.get_by_role("alert").first).to_contain_text(TOLD)
    expect(page.get_by_role("alert").first).to_contain_text("What you typed is kept in this tab.")
    log_in(page, "Stella", "wrong")
    expect(page.get_by_role("alert").first).to_contain_text(TOLD)
    log_in(page, "Stella", "p")
    expect(page.get_by_label("What it is for")).to_have_value("A script with a <b>name")
    expect(page.get_by_label("documents")).to_be_checked()
    expect(page.get_by_text(AGAIN)).to_be_visible()
    page.get_by_role("button", name="Make a token").click()
    expect(page.locator("main")).to_contain_text("A script with a <b>name")
    page.goto(f"{live_server.url}/account/")
    expect(page.get_by_text(AGAIN)).to_have_count(0)
    assert page.evaluate("sessionStorage.getItem('unsent form')") is None


def test_another_person_does_not_get_it(live_server: LiveServer, staff: Person, page: Page) -> None:
    page.set_default_timeout(60_000)
    User.objects.create_user("Memo", password="p")
    open_form(page, live_server, staff)
    Session.objects.all().delete()
    page.get_by_role("button", name="Make a token").click()
    expect(page.get_by_role("alert").first).to_contain_text(TOLD)
    log_in(page, "Memo", "p")
    expect(page.get_by_label("What it is for")).to_have_value("")
    expect(page.get_by_text(AGAIN)).to_have_count(0)
