"""axe on every page, as everybody who may see it sees it.

    python -m tests.browser.accessibility     every page in every state and look, minutes, as with NIGHTLY=1

Without that each kind of page is looked at in one state and one look (`Visitor.also` has the other states), and
colours are left to `look` of test_appearance.py, which is quicker at it. Every rule of axe counts, those
that it calls best practice, too. A page that somebody must do something for (a form with errors, a token that was just
made) is made by doing it in the browser.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings as django_settings
from django.core.cache import cache
from django.db import OperationalError
from django.urls import Resolver404, resolve
from playwright.sync_api import Browser, Page, Response
from pytest_django.live_server_helper import LiveServer

import webapp.serving.engine
from realm_core.errors import RealmError
from tests.browser.test_appearance import look
from tests.browser.test_console import addresses
from tests.nightly import NIGHTLY
from tests.web.asked import ask
from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.console import another_index, another_model, question_set, whole, write_files
from tests.web.documents.conftest import answering, deployed, folders  # noqa: F401  (fixtures)
from tests.web.pages import stored
from tests.web.pages.ingested import AUSTRALIA, ingested
from tests.web.pages.stored import ODYSSEY
from tests.web.test_authorisation import PAGES, POST
from webapp.deployments.service import CONFIRMATION
from webapp.kinds import KINDS
from webapp.models import ApiToken, CorpusChange, Deployment, Feedback, Job, JobState, Review

pytestmark = pytest.mark.usefixtures("no_workers")
LOOKS: dict[str, dict[str, Any]] = {
    "wide and light": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    "phone and dark": {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark", "has_touch": True},
}
THOROUGH = "EVERY_LOOK" in os.environ or NIGHTLY
COLOURS = ("color-contrast", "link-in-text-block")
RULES: dict[str, Any] = {
    "resultTypes": ["violations"],
    "rules": {rule: {"enabled": THOROUGH} for rule in COLOURS},
}
AXE = Axe()
# Shows what is folded, forms among it. The hundreds of the API's description are alike; to look at all takes twenty
# seconds.
UNFOLD = "document.querySelectorAll('details').forEach(closed => { closed.open = true; });"
FEWER = "document.querySelectorAll('.operation').forEach((one, number) => { if (number % 10) one.remove(); });"
READY = f"document.addEventListener('DOMContentLoaded', () => {{ {UNFOLD} {'' if THOROUGH else FEWER} }});"
VIOLATIONS = "([context, options]) => axe.run(context, options).then(found => found.violations)"
# What is Django's and not ours to change: signs beside search boxes that have labels of their own, too.
CONTEXT = {"exclude": [[".help-tooltip"]]}

# The names of the addresses that each test looks at.
LOOKED_AT = {
    "test_who_is_not_known": "answer api-docs ask block feedback fill history how-it-works login",
    "test_an_asker": "account account-password account-token-make answer-why manage",
    "test_a_curator": "manage-compare manage-feedback manage-questions",
    "test_an_admin": "manage manage-audit manage-compare manage-comparison manage-corpora manage-corpus "
    "manage-corpus-remove manage-deploy manage-deployments manage-evaluation manage-index "
    "manage-index-remove manage-indexes manage-job manage-job-kinds manage-job-new manage-jobs "
    "manage-model manage-model-remove manage-models manage-question-set manage-questions "
    "manage-questions-remove manage-retention manage-roll-back manage-schedule manage-schedule-new "
    "manage-schedules manage-sources manage-spans",
    "test_jobs_of_all_kinds_and_states": "manage-job manage-job-new",
    "test_documents": "answer manage-document manage-document-add manage-document-change manage-document-change-page "
    "manage-document-changes manage-document-purge manage-document-remove manage-document-restore manage-documents "
    "manage-purge",
    "test_collections": "answer ask manage-collection manage-collections manage-document manage-documents",
    "test_an_admin_confirms_an_unmeasured_pair": "manage-compare manage-compare-measure manage-deploy "
    "manage-deploy-measure manage-deployments",
    "test_the_administration": "admin:app_list admin:auth_user_add admin:auth_user_change admin:auth_user_history "
    "admin:index admin:webapp_askedanswer_change admin:webapp_askedanswer_changelist admin:webapp_askedanswer_delete",
}
# Addresses without a page of their own, beside those that lead to another page when something was posted.
NO_PAGE = {
    **dict.fromkeys(("metrics", "healthz", "readyz"), "for programs"),
    **dict.fromkeys(("manage-status", "manage-jobs-table", "manage-deployed"), "a part of a page, fetched anew"),
    **dict.fromkeys(("manage-job-status", "manage-job-log", "manage-job-plots"), "a part of a page, fetched anew"),
    "document-original": "a PDF, which the browser shows",
    **dict.fromkeys(("manage-job-plot", "manage-evaluation-plot"), "an image"),
    **dict.fromkeys(("manage-feedback-export", "manage-job-whole-log"), "a file"),
    "account-token-revoke": "leads to the account",
}


class Visitor:
    """A browser that notes what axe finds on the pages that it is led to."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.found: list[str] = []
        self.names: set[str] = set()  # of the addresses that were looked at
        self._address = address

    def log_in(self, person: Person) -> None:
        """Be somebody from now on."""
        cookie = person.client.cookies[django_settings.SESSION_COOKIE_NAME]
        self.page.context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": self._address}])

    def open(self, address: str) -> None:
        """Open a page that was looked at before, for what is done there next."""
        response = self.page.goto(self._address + address)
        assert response is not None and response.status == 200, address

    def look(self, *addresses: str, status: int = 200, note: bool = True) -> None:
        """Open pages, which must answer with this status, and note what axe finds there. note: as `press` has it."""
        for address in addresses:
            self._note(address, self.page.goto(self._address + address), status, note)

    def also(self, *addresses: str, status: int = 200) -> None:
        """`look` at pages of a kind that is looked at elsewhere, in another state: not every day."""
        if THOROUGH:
            self.look(*addresses, status=status, note=False)

    def press(self, button: str, status: int = 200, /, *, note: bool = True, **fields: str) -> None:
        """Fill fields (by their names), press a button, and note what axe finds on the page that comes of it.

        What the browser would refuse to send is sent, so that the server refuses it. note: False if that page is only
        on the way to another, and not looked at every day.
        """
        self.page.evaluate("for (const form of document.forms) form.noValidate = true")
        self.page.evaluate("for (const field of document.querySelectorAll('[maxlength]')) field.maxLength = 999")
        for field, text in fields.items():
            self.page.locator(f"[name={field}]:visible").first.fill(text)
        with self.page.expect_navigation() as going:
            self.page.get_by_role("button", name=button).first.click()
        self._note(f"{button} {fields}", going.value, status, note)

    def _note(self, what: str, response: Response | None, status: int, note: bool) -> None:
        assert response is not None and response.status == status, f"{what}: {response and response.status}"
        if note:
            with suppress(Resolver404):  # what is shown at no address
                self.names.add(resolve(urlsplit(self.page.url).path).view_name)
        elif not THOROUGH:
            return
        for violation in self.page.evaluate(VIOLATIONS, [CONTEXT, RULES]):
            for node in violation["nodes"]:
                self.found.append(f"{what}: {violation['id']} at {node['target']}: {node['html'][:200]}")


def looks(one: str) -> pytest.MarkDecorator:
    """A test in every look, or in this one."""
    return pytest.mark.parametrize("look", LOOKS if THOROUGH else [one])


@contextmanager
def visiting(browser: Browser, look: str, address: str, test: str) -> Iterator[Visitor]:
    """Without JavaScript of our own, so that every form is a page; axe runs all the same. Nothing may be found."""
    context = browser.new_context(reduced_motion="reduce", **LOOKS[look])
    context.add_init_script(f"{AXE.axe_script};{READY}")  # to send it to each page anew takes longer
    page = context.new_page()
    network = context.new_cdp_session(page)  # not `route`, which would have each page fetch its styles anew
    network.send("Network.enable")
    network.send("Network.setBlockedURLs", {"urls": ["*/static/js/*", "*/htmx*.js"]})
    visitor = Visitor(page, address)
    yield visitor
    assert visitor.page.evaluate("typeof htmx") == "undefined"
    context.close()
    assert not visitor.found, "\n".join(visitor.found)
    assert sorted(visitor.names) == LOOKED_AT.get(test, "").split()


@pytest.fixture
def visitor(
    look: str, browser: Browser, live_server: LiveServer, engine: FakeEngine, request: pytest.FixtureRequest
) -> Iterator[Visitor]:
    with visiting(browser, look, live_server.url, request.function.__name__) as one:
        yield one


@pytest.fixture
def visitor_of_a_corpus(
    look: str,
    browser: Browser,
    live_server: LiveServer,
    answering: Deployment,  # noqa: F811
    request: pytest.FixtureRequest,
) -> Iterator[Visitor]:
    """One for whom a real engine answers, from a corpus whose files are there."""
    with visiting(browser, look, live_server.url, request.function.__name__) as one:
        yield one


def test_every_page_is_looked_at() -> None:
    elsewhere = {name for name, page in PAGES.items() if page.method == POST and page.status == 302}
    looked_at = {name for names in LOOKED_AT.values() for name in names.split()}
    assert (PAGES.keys() | {"api-docs"}) - elsewhere - NO_PAGE.keys() == {name for name in looked_at if ":" not in name}


@looks("wide and light")
def test_axe_reports_violations(visitor: Visitor) -> None:
    visitor.page.set_content("<html><body><img src='/static/img/favicon.svg'><input></body></html>")
    found = {violation["id"] for violation in AXE.run(visitor.page).response["violations"]}
    assert {"image-alt", "label", "html-has-lang", "document-title"} <= found


@looks("wide and light")
def test_who_is_not_known(visitor: Visitor, engine: FakeEngine, loader: Loader, settings: Any, tmp_path: Path) -> None:
    visitor.also("/history/")  # empty
    asked = stored.store()
    none = stored.store(stored.payload(explains="no_answer"))
    answer = f"/answers/{asked.pk}/"
    whole_article = ingested(tmp_path, AUSTRALIA).block(0)
    read = stored.Read(whole_article.title, whole_article.text, 1.0, {"Canberra": 0.9}, 0.1)
    canberra = stored.store(stored.payload((read,), "What is the capital of Australia?"))
    all_blocks = "&".join(f"without={block.block_id}" for block in ODYSSEY)
    visitor.look("/", f"{answer}?without={ODYSSEY[0].block_id}", f"/blocks/{read.block_id}/?answer={canberra.pk}")
    visitor.look("/how-it-works/", "/fill/?sentence=The+[MASK]+of+[MASK].", "/api/v1/docs/")
    visitor.also("/?q=Who", answer, f"{answer}?{all_blocks}", f"/answers/{none.pk}/", f"/blocks/{read.block_id}/")
    visitor.also(f"/blocks/{ODYSSEY[0].block_id}/?answer={asked.pk}")  # whose corpus is gone
    visitor.also("/accounts/login/", "/fill/", "/fill/?sentence=Paris+is+the+[MASK]+of+France.&truth=capital")
    visitor.look("/nowhere/", status=404)
    visitor.look("/fill/?sentence=No+gap.", status=422)
    engine.error = RealmError("The index has lost a file.")
    visitor.also("/fill/?sentence=The+[MASK].", status=422)
    engine.error = None
    engine.has_encoder = False
    visitor.also("/fill/")
    visitor.look("/fill/?sentence=The+[MASK].")
    engine.has_encoder = True

    visitor.open("/")
    visitor.press("Ask", question="Who directed it?", note=False)
    visitor.press("Right", note=False)
    visitor.press("Wrong")
    visitor.press("Send", better_answer="x" * 299, note=False)
    visitor.press("Send", 422, better_answer="x" * 301)
    visitor.look("/history/")
    visitor.open("/")
    visitor.press("Ask", 422, question=" ")
    engine.error = RealmError("The index has lost a file.")
    visitor.press("Ask", 422, question="Who?", note=False)
    engine.error = RuntimeError("a mistake")
    visitor.press("Ask", 500, question="Who else?")
    visitor.open("/")
    engine.error = OperationalError("the connection is lost")
    visitor.press("Ask", 503, question="Who keeps it?")
    engine.error = None
    cache.clear()  # of what was counted in another look
    settings.ASK_RATE = "1/day"
    for status in (200, 429):
        visitor.open("/")
        visitor.press("Ask", status, question="Who?", note=status == 429)
    visitor.also("/fill/?sentence=The+[MASK].", status=429)
    settings.ASK_RATE = "0"

    visitor.open("/accounts/login/")
    visitor.press("Log in", username="Memo", password="wrong")
    settings.AXES_FAILURE_LIMIT = 1
    visitor.press("Log in", 429, username="Memo", password="wrong")
    visitor.open("/accounts/login/")
    visitor.page.context.clear_cookies(name=settings.CSRF_COOKIE_NAME)
    visitor.press("Log in", 403, username="Memo", password="wrong")  # the form has expired

    webapp.serving.engine.holder().close()
    loader.may_go_on.clear()
    webapp.serving.engine._holder = None
    visitor.open("/")
    visitor.press("Ask", 503, question="Who waits?", note=False)
    visitor.also("/fill/?sentence=The+[MASK].", status=503)
    loader.may_go_on.set()


@looks("phone and dark")
def test_an_asker(visitor: Visitor, member: Person, settings: Any) -> None:
    settings.REALM_PUBLIC = False
    visitor.log_in(member)
    visitor.also("/", "/account/", "/account/password/")
    visitor.look("/manage/", status=403)
    visitor.open("/account/")
    visitor.press("Make a token", 422, note=False)
    visitor.page.get_by_label("ask").check()
    visitor.press("Make a token", name="a script")  # shown, once
    assert ApiToken.objects.filter(user=member.user).exists()
    visitor.look("/account/")
    visitor.open("/account/password/")
    visitor.press("Change it", old_password="wrong", new_password1="1", new_password2="2")
    for status, right_answer in ((422, ""), (200, "Arthur C. Clarke")):
        visitor.open(f"/answers/{stored.store().pk}/")
        visitor.press("See why", status, right_answer=right_answer)


@looks("wide and light")
def test_a_curator(visitor: Visitor, curator: Person) -> None:
    visitor.log_in(curator)
    visitor.look("/manage/compare/")  # empty
    visitor.also("/manage/feedback/", "/manage/questions/")  # empty
    for review in Review.values:
        Feedback.objects.create(
            answer=stored.store(), right=False, better_answer="HAL", block_id=ODYSSEY[0].block_id, review=review
        )
    visitor.also(*(f"/manage/feedback/?show={show}" for show in ("waiting", "accepted", "refused")))
    visitor.look("/manage/feedback/?show=all")
    visitor.press("Let it wait again", note=False)
    visitor.open("/manage/questions/")
    visitor.press("Add", 422)


@looks("phone and dark")
def test_an_admin(visitor: Visitor, staff: Person) -> None:
    visitor.log_in(staff)
    visitor.also(
        "/manage/", *(f"/manage/{part}/" for part in ("jobs", "corpora", "corpora/files", "schedules", "audit"))
    )  # empty
    active = Deployment.active()
    assert active is not None
    shown = addresses(whole(active))
    removable = re.compile(r"/manage/(models|indexes|corpora|questions)/\d+/")
    for address in shown:
        visitor.look(address)
        look(visitor.page, (320, 390, 768, 1280) if NIGHTLY else (320, 1280))
    visitor.look(*(f"{address}remove/" for address in shown if removable.fullmatch(address)))
    visitor.open("/manage/jobs/new/finetune/")
    visitor.press("Fine-tune", 422, epochs="0")
    visitor.open("/manage/corpora/files/")
    visitor.press("Add", 422, note=False)
    Deployment.activate(another_index(active.model), note="again")
    visitor.also("/manage/deployments/")
    visitor.look(f"/manage/deployments/{active.pk}/roll-back/")
    visitor.open("/manage/schedules/new/")
    visitor.press("Save", 422, hours="0")
    visitor.open("/manage/schedules/")
    visitor.press("Save", 422, generations="0", run_days="")


@pytest.mark.nightly  # test_an_admin looks at one form, at a running and at a failed job
@looks("phone and dark")
def test_jobs_of_all_kinds_and_states(visitor: Visitor, staff: Person) -> None:
    visitor.log_in(staff)
    visitor.look(*(f"/manage/jobs/new/{kind}/" for kind, about in KINDS.items() if about.by_hand))
    for state in JobState.values:
        job = Job.objects.create(kind="finetune", state=state, log="line\n" * 50)
        visitor.look(f"/manage/jobs/{job.pk}/")


@looks("phone and dark")
def test_documents(visitor_of_a_corpus: Visitor, staff: Person) -> None:
    """Refused, added, changed, read by an answer, removed."""
    visitor = visitor_of_a_corpus
    visitor.log_in(staff)
    pages = "/manage/documents/"
    visitor.look(pages)  # empty
    visitor.also(f"{pages}?title=no+such+title", f"{pages}add/", f"{pages}changes/")
    visitor.open(f"{pages}add/")
    visitor.press("Add it", 422)
    visitor.press(
        "Add it", title="Turku", licence="CC0", text="Turku is a city in Finland. Its castle was founded in 1280."
    )
    document = visitor.page.url
    address = document.partition("?")[2]
    asked = ask("When was the castle of Turku founded?", k=20, asker=staff.user)
    assert "Turku" in {block["title"] for block in asked.payload["evidence"]}
    visitor.also(f"{pages}document/?{address}")
    visitor.open(f"{pages}document/change/?{address}")
    visitor.press("See what it changes", 422, text="")
    visitor.press("See what it changes", text="Turku is a city. Its castle was founded in 1281.")  # what it touches
    visitor.press("Change it")  # what it touched
    visitor.look(f"{pages}document/remove/?{address}")
    visitor.press("Remove it", note=False)
    visitor.also(f"{pages}document/?{address}", f"{pages}?show=removed")
    CorpusChange.objects.filter(kind="removed").update(readers="admins")  # who may read its collection is others now
    visitor.open(f"{pages}document/?{address}")
    visitor.press("Restore it", 409)
    visitor.look(f"{pages}changes/", f"{pages}document/purge/?{address}")
    visitor.press("Purge it", 422, note=False)
    visitor.page.check("[name=sure]")
    visitor.press("Purge it")
    visitor.also(f"{pages}document/?{address}", f"{pages}?show=purged")
    visitor.look(f"/answers/{asked.pk}/")


@looks("phone and dark")
def test_collections(visitor_of_a_corpus: Visitor, staff: Person) -> None:
    """Put into a collection, made private, looked in."""
    visitor = visitor_of_a_corpus
    visitor.log_in(staff)
    visitor.open("/manage/documents/add/")
    turku = {"title": "Turku", "licence": "CC0", "text": "Turku is a city.", "tags": "cities", "date": "2026-01-31"}
    visitor.press("Add it", new_collection="travel", **turku)
    visitor.look("/manage/documents/collections/", "/manage/documents/?collection=travel")
    visitor.open("/manage/documents/collections/collection/?name=travel")
    visitor.press("Save", 422, weight="0")
    visitor.press("Save", title="Travel guides", weight="2", note=False)
    visitor.look("/")
    visitor.page.get_by_label("Travel guides").check()
    visitor.press("Ask", question="Where is Turku?", tags="cities")
    assert visitor.page.get_by_label("Travel guides").is_checked()
    visitor.press("Ask", tags="no such tag", note=False)
    assert visitor.page.get_by_text("Nothing to read").is_visible()


@pytest.mark.nightly  # test_an_admin has the pages before
@looks("wide and light")
def test_an_admin_confirms_an_unmeasured_pair(visitor: Visitor, staff: Person) -> None:
    """The new pair was never measured: the page offers to measure it, and asks to confirm it otherwise."""
    active = Deployment.active()
    assert active is not None
    whole(active)
    index = another_index(another_model(block_hash="other"))
    write_files(index.model, index, active.index.corpus)
    questions = question_set()
    visitor.log_in(staff)
    pair = f"first={active.model_id}&second={index.model_id}&questions={questions.pk}&corpus={index.corpus_id}"
    visitor.look(f"/manage/compare/?{pair}&sample=2")
    visitor.page.locator("input[type=hidden][name=sample]").evaluate("field => { field.value = '-1'; }")
    visitor.press("Measure now", 422)
    address = f"/manage/deployments/deploy/?index={index.pk}"
    visitor.open(address)
    visitor.press("Measure", 422, sample="-1")
    visitor.press("Deploy", 422)
    assert Deployment.active() == active
    visitor.page.get_by_label(CONFIRMATION).check()
    visitor.press("Deploy")
    assert Deployment.objects.get(is_active=True).index == index


@looks("phone and dark")
def test_the_administration(visitor: Visitor, staff: Person) -> None:
    """Django's pages, with one of each kind of ours in them."""
    staff.user.is_superuser = True
    staff.user.save()
    job = Job.objects.create(kind="finetune")
    asked = stored.store()
    visitor.log_in(staff)
    answers, user = "/admin/webapp/askedanswer/", f"/admin/auth/user/{staff.user.pk}/"
    visitor.look("/admin/", "/admin/webapp/", answers, f"{answers}{asked.pk}/change/", f"{answers}{asked.pk}/delete/")
    visitor.also("/admin/webapp/job/", f"/admin/webapp/job/{job.pk}/change/", "/admin/auth/user/")
    visitor.look(f"{user}change/", f"{user}history/")
    visitor.open("/admin/auth/user/add/")
    visitor.press("Save", username="")
