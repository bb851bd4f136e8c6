"""A document in, asked about, changed, removed, the ledger of it, and purged: in a real browser.

The whole way on a phone; what administrators do of it at the width of a desktop, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import FilePayload, Page, ViewportSize, expect
from pytest_django.live_server_helper import LiveServer

from tests.web.conftest import Person
from tests.web.documents.conftest import answering, deployed, folders  # noqa: F401  (fixtures)
from webapp.asking import service as asking
from webapp.documents.forms import FilesForm, TextForm
from webapp.models import AskedAnswer, Deployment

PHONE: ViewportSize = {"width": 390, "height": 844}
DESKTOP: ViewportSize = {"width": 1280, "height": 800}
TEXT = "Turku is a city in Finland. Its castle was founded in 1280 at the mouth of the river Aura."


@pytest.fixture(autouse=True)
def _signed_in(page: Page, live_server: LiveServer, staff: Person) -> None:
    page.set_default_timeout(90_000)  # the machine may be busy
    session = staff.client.cookies["sessionid"].value
    page.context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])


@pytest.fixture
def fits(page: Page) -> Callable[[str], None]:
    """Checks at each station that nothing is wider than the screen."""

    def look(name: str) -> None:
        assert page.viewport_size is not None
        assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"], name

    return look


def _file(name: str, text: str) -> FilePayload:
    return {"name": name, "mimeType": "", "buffer": text.encode()}


def test_upload_ask_change_remove_the_ledger_and_a_purge_on_a_phone(
    live_server: LiveServer,
    answering: Deployment,  # noqa: F811
    page: Page,
    fits: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The tiny model's vectors are random: every block is read, so that the document is among them.
    checked = asking.checked
    monkeypatch.setattr(asking, "checked", lambda question, k=20, *more, **named: checked(question, k, *more, **named))
    page.set_viewport_size(PHONE)

    page.goto(f"{live_server.url}/manage/documents/")
    fits("list")
    page.get_by_role("link", name="Add a document").click()
    page.get_by_role("link", name="Upload files").click()
    turku, oulu = _file("turku.md", f"# Turku\n\n{TEXT}"), _file("oulu.md", "# Oulu\n\nOulu is a city by the sea.")
    page.get_by_label("Files").set_input_files([turku, _file("cut.pdf", "%PDF-1.7 cut"), _file("no.docx", "PK no")])
    page.get_by_label("Licence").fill("CC0 1.0")
    page.get_by_text("More about it").click()
    page.get_by_label("Tags").fill(f"towns that are also ports and have a castle at the mouth of a river, {'x' * 90}")
    fits("add")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("alert").get_by_role("listitem")).to_contain_text(["cut.pdf", "no.docx"])
    fits("refused")
    page.get_by_label("Files").set_input_files([turku, oulu])
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text(
        re.compile("These 2 documents are in the collection .* now: 2 passages.")
    )
    page.get_by_role("link", name="Turku", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Turku")
    fits("document")
    document = page.url

    page.goto(live_server.url)
    page.get_by_label("Your question").fill("When was the castle of Turku founded?")
    page.keyboard.press("Enter")
    expect(page.locator(".block").first).to_be_visible()
    asked = AskedAnswer.objects.get()
    assert "Turku" in {block["title"] for block in asked.payload["evidence"]}

    page.goto(document)
    page.get_by_role("link", name="Change …").click()
    page.get_by_label("Text").fill(TEXT.replace("1280", "1281"))
    fits("change")
    page.get_by_role("button", name="See what it changes").click()
    expect(page.locator("main")).to_contain_text("1 kept answer has read what goes.")
    fits("preview")
    page.get_by_role("button", name="Back to the form").click()
    expect(page.get_by_label("Text")).to_have_value(TEXT.replace("1280", "1281"))
    page.get_by_role("button", name="See what it changes").click()
    page.get_by_role("button", name="Change it").click()
    expect(page.locator("main")).to_contain_text("1 kept answer had read what it took away.")
    fits("changed")
    page.get_by_role("link", name="When was the castle of Turku founded?").click()
    expect(page.locator(".block__gone")).to_contain_text(re.compile("This passage was changed on .* Ask again"))
    fits("answer")
    page.locator(".block__gone").get_by_role("button", name=re.compile("^Ask again")).click()
    expect(page.locator(".answer__since")).to_contain_text("This question had been asked before")

    page.goto(document)
    page.get_by_role("link", name="Remove …").click()
    expect(page.locator("main")).to_contain_text("1 kept answer has read it.")
    fits("remove")
    page.get_by_role("button", name="Remove it").click()
    expect(page.get_by_role("status").first).to_contain_text("“Turku” is removed.")
    fits("removed")
    page.get_by_role("link", name="All changes").click()
    expect(page.locator("tbody tr")).to_have_count(4)
    expect(page.locator("tbody tr").first).to_contain_text("1 had read it")
    fits("ledger")
    page.get_by_role("link", name="All documents").click()
    page.get_by_label("Title").fill("Turku")
    expect(page.get_by_text("No document is like that.")).to_be_visible()
    page.get_by_role("link", name="Removed").click()
    page.get_by_role("link", name="Turku").click()
    fits("of a removed document")
    page.get_by_role("button", name="Restore it").click()
    expect(page.get_by_role("status").first).to_contain_text("“Turku” is restored")
    expect(page.locator("main")).to_contain_text("1281")
    fits("restored")
    page.get_by_role("link", name="Remove …").click()
    page.get_by_role("button", name="Remove it").click()

    page.goto(document)
    page.get_by_role("link", name="Purge …").click()
    fits("purge")
    page.get_by_role("button", name="Purge it").click()  # the browser holds it back until the box is ticked
    expect(page.get_by_role("heading", level=1)).to_have_text("Purge this document?")
    page.get_by_label("I know that this cannot be undone").check()
    page.get_by_role("button", name="Purge it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("1 document purged")
    expect(page.locator("main")).to_contain_text(re.compile(r"passages were taken out of \d"))
    fits("receipt")
    page.goto(f"{live_server.url}/answers/{asked.pk}/")
    expect(page.locator(".block").first).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("1280")
    page.goto(document)
    expect(page.locator("main")).to_contain_text("It was purged on")
    expect(page.locator("main")).not_to_contain_text("Turku")
    fits("purged")


def test_upload_change_remove_and_the_ledger_on_a_desktop(
    live_server: LiveServer,
    deployed: Deployment,  # noqa: F811
    page: Page,
    fits: Callable[[str], None],
) -> None:
    page.set_viewport_size(DESKTOP)
    page.goto(f"{live_server.url}/manage/documents/")
    expect(page.get_by_role("columnheader", name="Licence")).to_be_visible()
    fits("list")
    page.get_by_role("link", name="Add a document").click()
    page.get_by_role("link", name="Upload files").click()
    page.get_by_label("Files").set_input_files(_file("turku.md", f"# Turku\n\n{TEXT}"))
    page.get_by_label("Licence").fill("CC0 1.0")
    fits("add")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Turku")
    fits("document")
    document = page.url

    page.get_by_role("link", name="Change …").click()
    page.get_by_label("Text").fill(TEXT.replace("1280", "1281"))
    fits("change")
    page.get_by_role("button", name="See what it changes").click()
    expect(page.get_by_role("button", name="Change it")).to_be_visible()
    fits("preview")
    page.get_by_role("button", name="Change it").click()
    expect(page.locator("main")).to_contain_text("No kept answer had read what it took away.")
    fits("changed")

    page.goto(document)
    page.get_by_role("link", name="Remove …").click()
    expect(page.get_by_role("button", name="Remove it")).to_be_visible()
    fits("remove")
    page.get_by_role("button", name="Remove it").click()
    expect(page.get_by_role("status").first).to_contain_text("“Turku” is removed.")
    fits("removed")
    page.get_by_role("link", name="All changes").click()
    expect(page.get_by_role("columnheader", name="Kept answers")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(3)
    fits("ledger")


def test_a_text_that_is_too_long_is_not_sent_and_stays(
    live_server: LiveServer,
    deployed: Deployment,  # noqa: F811
    page: Page,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(TextForm.base_fields["text"].widget.attrs, "data-most-bytes", 2048)
    page.goto(f"{live_server.url}/manage/documents/add/")
    page.get_by_label("Title").fill("Turku")
    page.get_by_label("Licence").fill("CC0 1.0")
    page.get_by_label("Text").fill("Å\n" * 600)  # 1,200 characters, 2,400 bytes as they are sent
    said = page.get_by_role("alert").filter(
        has_text="This is 3 KB, and at most 2 KB can be typed: upload it as a file."
    )
    expect(said).to_be_visible()
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_label("Text")).to_be_focused()
    expect(page.get_by_label("Text")).to_have_value("Å\n" * 600)
    expect(said).to_be_visible()
    page.get_by_label("Text").fill("Å\n" * 500)
    expect(said).to_have_count(0)


def test_files_are_not_sent_without_the_licence_that_they_need(
    live_server: LiveServer,
    answering: Deployment,  # noqa: F811
    page: Page,
) -> None:
    def is_asked_for() -> bool:
        return bool(licence.evaluate("field => field.matches(':focus:invalid')"))

    page.goto(f"{live_server.url}/manage/documents/add/?from=file")
    files, licence = page.get_by_label("Files"), page.get_by_label("Licence")
    add = page.get_by_role("button", name="Add", exact=True)
    rows = _file("rows.JSONL.gz", "cut")
    files.set_input_files([rows])
    expect(licence).to_have_js_property("required", value=False)
    files.set_input_files([rows, _file("turku.md", f"# Turku\n\n{TEXT}")])
    add.click()
    assert is_asked_for() and files.evaluate("field => field.files.length") == 2
    licence.fill("CC0 1.0")

    further = page.get_by_label("Address of the original")
    page.get_by_text("More about it").click()
    further.fill("no address")
    page.get_by_text("More about it").click()
    add.click()
    expect(further).to_be_visible()
    further.fill("")

    files.set_input_files([_file("turku.md", f"# Turku\n\n{TEXT}")])
    add.click()
    expect(page.get_by_role("status").first).to_contain_text("is in the collection")


def test_files_that_are_too_large_together_are_not_sent(
    live_server: LiveServer,
    deployed: Deployment,  # noqa: F811
    page: Page,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FilesForm.base_fields["file"].widget.attrs, "data-most-bytes", 2**20)
    page.goto(f"{live_server.url}/manage/documents/add/?from=file")
    files, said = page.get_by_label("Files"), page.get_by_role("alert").filter(has_text="1.2 MB are chosen")
    page.get_by_label("Licence").fill("CC0 1.0")
    files.set_input_files([_file("one.md", "a" * 600_000), _file("two.md", "a" * 600_000)])
    expect(said).to_have_text("1.2 MB are chosen, and at most 1 MB can be sent.")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(files).to_be_focused()
    assert files.evaluate("field => field.files.length") == 2
    files.set_input_files([_file("one.md", "a" * 600_000)])
    expect(said).to_have_count(0)
