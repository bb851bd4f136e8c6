"""axe on every page, as everybody who may see it sees it.

    python -m tests.browser.accessibility     every page in every look, minutes; without that: in one look each

Every rule of axe counts, those that it calls best practice, too. A page that somebody must do something for (a form
with errors, a token that was just made) is made by doing it in the browser. In one look, contrasts are left to
test_appearance.py and test_console.py, which are quicker at it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings as django_settings
from django.core.cache import cache
from playwright.sync_api import Browser, Page, Response
from pytest_django.live_server_helper import LiveServer

import webapp.engine
from realm_core.errors import RealmError
from tests.browser.test_console import addresses
from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.console import whole
from tests.web.pages import stored
from tests.web.pages.stored import ODYSSEY
from webapp import queue
from webapp.kinds import KINDS
from webapp.models import ApiToken, Deployment, Feedback, Job, JobKind, JobState, Review

LOOKS: dict[str, dict[str, Any]] = {
    "wide and light": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    "phone and dark": {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark", "has_touch": True},
}
THOROUGH = "EVERY_LOOK" in os.environ
RULES: dict[str, Any] = {"resultTypes": ["violations"], "rules": {"color-contrast": {"enabled": THOROUGH}}}
AXE = Axe()


class Visitor:
    """A browser that notes what axe finds on the pages that it is led to."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.found: list[str] = []
        self._address = address

    def log_in(self, person: Person) -> None:
        """Be somebody from now on."""
        cookie = person.client.cookies[django_settings.SESSION_COOKIE_NAME]
        self.page.context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": self._address}])

    def look(self, *addresses: str, status: int = 200) -> None:
        """Open pages, which must answer with this status, and note what axe finds there."""
        for address in addresses:
            self._note(address, self.page.goto(self._address + address), status)

    def press(self, button: str, status: int = 200, /, **fields: str) -> None:
        """Fill fields (by their names), press a button, and note what axe finds on the page that comes of it."""
        for field, text in fields.items():
            self.page.locator(f"[name={field}]:visible").first.fill(text)
        with self.page.expect_navigation() as going:
            self.page.get_by_role("button", name=button).first.click()
        self._note(f"{button} {fields}", going.value, status)

    def _note(self, what: str, response: Response | None, status: int) -> None:
        assert response is not None and response.status == status, f"{what}: {response and response.status}"
        self.page.evaluate("document.querySelectorAll('details').forEach(closed => { closed.open = true; })")
        for violation in AXE.run(self.page, options=RULES).response["violations"]:
            for node in violation["nodes"]:
                self.found.append(f"{what}: {violation['id']} at {node['target']}: {node['html'][:200]}")


def looks(one: str) -> pytest.MarkDecorator:
    """A test in every look, or in this one."""
    return pytest.mark.parametrize("look", LOOKS if THOROUGH else [one])


@pytest.fixture
def visitor(look: str, browser: Browser, live_server: LiveServer, engine: FakeEngine) -> Iterator[Visitor]:
    """Without JavaScript of our own, so that every form is a page; axe runs all the same. Nothing may be found."""
    context = browser.new_context(reduced_motion="reduce", **LOOKS[look])
    context.route("**/static/js/*", lambda route: route.abort())
    context.route("**/htmx*.js", lambda route: route.abort())
    visiting = Visitor(context.new_page(), live_server.url)
    yield visiting
    context.close()
    assert visiting.found == []


@pytest.fixture(autouse=True)
def _no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "_send", lambda *_: None)


@looks("wide and light")
def test_axe_finds_what_is_wrong(visitor: Visitor) -> None:
    visitor.page.set_content("<html><body><img src='/static/img/favicon.svg'><input></body></html>")
    found = {violation["id"] for violation in AXE.run(visitor.page).response["violations"]}
    assert {"image-alt", "label", "html-has-lang", "document-title"} <= found


@looks("wide and light")
def test_who_is_not_known(visitor: Visitor, engine: FakeEngine, loader: Loader, settings: Any) -> None:
    visitor.look("/history/")  # empty
    asked = stored.store()
    none = stored.store(stored.payload(explains="no_answer"))
    answer = f"/answers/{asked.pk}/"
    all_blocks = "&".join(f"without={block.block_id}" for block in ODYSSEY)
    visitor.look(
        "/",
        "/?q=Who",
        answer,
        f"{answer}?without={ODYSSEY[0].block_id}",
        f"{answer}?{all_blocks}",
        f"/answers/{none.pk}/",
        f"/blocks/{ODYSSEY[0].block_id}/?answer={asked.pk}",
        "/how-it-works/",
        "/accounts/login/",
        "/fill/",
        "/fill/?sentence=The+[MASK]+of+[MASK].",
        "/fill/?sentence=Paris+is+the+[MASK]+of+France.&truth=capital",
        "/api/v1/docs/",
    )
    visitor.look("/nowhere/", status=404)
    visitor.look("/fill/?sentence=No+gap.", status=422)
    engine.can_fill = False
    visitor.look("/fill/?sentence=The+[MASK].", status=409)

    visitor.look("/")
    visitor.press("Ask", question="Who directed it?")
    visitor.press("Right")
    visitor.press("Wrong")
    visitor.press("Send", better_answer="x" * 299)
    visitor.look("/history/")
    visitor.look("/")
    visitor.press("Ask", 422, question=" ")
    engine.error = RealmError("The index has lost a file.")
    visitor.press("Ask", 422, question="Who?")
    engine.error = RuntimeError("a mistake")
    visitor.press("Ask", 500, question="Who else?")
    engine.error = None
    cache.clear()  # of what was counted in another look
    settings.ASK_RATE = "1/day"
    for status in (200, 429):
        visitor.look("/")
        visitor.press("Ask", status, question="Who?")
    settings.ASK_RATE = "0"

    visitor.look("/accounts/login/")
    visitor.press("Log in", username="Memo", password="wrong")
    settings.AXES_FAILURE_LIMIT = 1
    visitor.press("Log in", 429, username="Memo", password="wrong")
    visitor.look("/accounts/login/")
    visitor.page.context.clear_cookies(name=settings.CSRF_COOKIE_NAME)
    visitor.press("Log in", 403, username="Memo", password="wrong")  # the form has expired

    webapp.engine.holder().close()
    loader.may_go_on.clear()
    webapp.engine._holder = None
    visitor.look("/")
    visitor.press("Ask", 503, question="Who waits?")
    loader.may_go_on.set()


@looks("phone and dark")
def test_an_asker(visitor: Visitor, member: Person, settings: Any) -> None:
    settings.REALM_PUBLIC = False
    visitor.log_in(member)
    visitor.look("/", "/account/", "/account/password/")
    visitor.look("/manage/", status=403)
    visitor.look("/account/")
    visitor.press("Make a token", 422)
    visitor.page.get_by_label("ask").check()
    visitor.press("Make a token", name="a script")  # shown, once
    assert ApiToken.objects.filter(user=member.user).exists()
    visitor.look("/account/", "/account/password/")
    visitor.press("Change it", old_password="wrong", new_password1="1", new_password2="2")


@looks("wide and light")
def test_a_curator(visitor: Visitor, curator: Person) -> None:
    visitor.log_in(curator)
    visitor.look("/manage/feedback/", "/manage/questions/", "/manage/compare/")  # empty
    for review in Review.values:
        Feedback.objects.create(
            answer=stored.store(), right=False, better_answer="HAL", block_id=ODYSSEY[0].block_id, review=review
        )
    visitor.look(*(f"/manage/feedback/?show={show}" for show in ("waiting", "accepted", "refused", "all")))
    visitor.press("Let it wait again")
    visitor.look("/manage/questions/")
    visitor.press("Add", 422)


@looks("phone and dark")
def test_an_admin(visitor: Visitor, staff: Person) -> None:
    assert staff.user is not None
    staff.user.is_superuser = True
    staff.user.save()
    visitor.log_in(staff)
    visitor.look("/manage/", *(f"/manage/{part}/" for part in ("jobs", "corpora", "schedules", "audit")))  # empty
    active = Deployment.active()
    assert active is not None
    visitor.look(*addresses(whole(active)))
    visitor.look(*(f"/manage/jobs/new/{kind}/" for kind, about in KINDS.items() if about.by_hand))
    visitor.look("/manage/jobs/new/finetune/")
    visitor.press("Fine-tune", 422, epochs="0")
    for state in JobState.values:
        job = Job.objects.create(kind=JobKind.FINETUNE, state=state, log="line\n" * 50)
        visitor.look(f"/manage/jobs/{job.pk}/")
    Deployment.activate(active.index, note="again")
    visitor.look("/manage/deployments/", f"/manage/deployments/{active.pk}/roll-back/", "/manage/schedules/new/")
