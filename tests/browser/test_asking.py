"""Asking, and taking blocks away, as a person with a browser does it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.web.conftest import FakeEngine, Loader
from tests.web.pages import stored
from tests.web.pages.stored import ODYSSEY
from webapp.models import AskedAnswer

QUESTION = "Who directed 2001: A Space Odyssey?"


def _switch(page: Page, title: str) -> Locator:
    block = next(block for block in ODYSSEY if block.title == title)
    return page.locator(f"#switch-{block.block_id}")


def _expect_without(page: Page, *titles: str) -> None:
    """The page says what the closed form gives, worked out here from the blocks that are left."""
    answer, probability = next(iter(stored.marginals(stored.without(ODYSSEY, *titles)).items()))
    expect(page.locator(".answer__text")).to_have_text(answer)
    shown = page.locator(".sum__table tfoot td:last-child data")
    expect(shown).to_have_text(f"{100 * probability:.1f}\N{NO-BREAK SPACE}%")
    assert float(shown.get_attribute("value") or "") == pytest.approx(probability, abs=1e-9)
    total = page.locator(".sum__table tfoot td:last-child data")
    assert float(total.get_attribute("value") or "") == pytest.approx(probability, abs=1e-9)
    expect(page.locator(".sum__table tbody tr")).to_have_count(len(ODYSSEY) - len(titles))


def test_ask_and_read_the_answer_without_leaving_the_page(
    live_server: LiveServer, engine: FakeEngine, page: Page
) -> None:
    page.goto(live_server.url)
    page.evaluate("window.sameDocument = true")
    page.evaluate(
        "window.said = []; const announcer = document.getElementById('announcer');"
        "new MutationObserver(() => said.push(announcer.textContent.trim())).observe(announcer, {childList: true})"
    )
    page.get_by_label("Your question").fill(QUESTION)
    page.keyboard.press("Enter")
    expect(page.locator(".answer__text")).to_have_text("Stanley Kubrick")
    asked = AskedAnswer.objects.get()
    assert page.url == f"{live_server.url}/answers/{asked.pk}/"
    assert page.evaluate("window.sameDocument")
    assert page.title() == f"{QUESTION} · REALM"
    expect(page.locator("#page-title")).to_be_focused()
    expect(page.locator("#announcer")).to_have_text("Stanley Kubrick, likely, confidence 70 %.")
    assert page.evaluate("said[0]") == "Finding passages and reading them …"
    expect(page.locator(".block")).to_have_count(5)
    _expect_without(page)

    page.go_back()
    expect(page.get_by_role("heading", name="Ask a question")).to_be_visible()
    page.go_forward()
    expect(page.locator(".answer__text")).to_have_text("Stanley Kubrick")

    # On a slow connection one can be back, and forward again, before the scripts have come.
    page.route("**/htmx-2.min.js", lambda route: None)
    page.go_back(wait_until="commit")
    expect(page.get_by_role("heading", name="Ask a question")).to_be_visible()
    page.evaluate("history.forward()")
    page.wait_for_url("**/answers/**", wait_until="commit")
    page.unroute("**/htmx-2.min.js")
    expect(page.locator(".answer__text")).to_have_text("Stanley Kubrick")


def test_shift_and_enter_begin_a_new_line(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    page.goto(live_server.url)
    page.get_by_label("Your question").press_sequentially("Who")
    page.keyboard.press("Shift+Enter")
    expect(page.get_by_label("Your question")).to_have_value("Who\n")


def test_an_example_is_one_click(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    page.goto(live_server.url)
    page.get_by_role("button", name="Who wrote Pride and Prejudice?").click()
    expect(page.locator(".answer__text")).to_be_visible()
    expect(page.get_by_label("Your question")).to_have_value("Who wrote Pride and Prejudice?")


def test_take_blocks_away_and_bring_them_back(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    asked = stored.store()
    page.goto(f"{live_server.url}/answers/{asked.pk}/")
    first, second = _switch(page, "2001: A Space Odyssey"), _switch(page, "Stanley Kubrick")
    page.locator("details[id^=explain]").nth(1).locator("summary").click()
    first.scroll_into_view_if_needed()
    place = first.bounding_box()

    first.click()
    _expect_without(page, "2001: A Space Odyssey")
    expect(first).to_be_focused()
    assert first.bounding_box() == place  # nothing jumped under the pointer
    expect(page.locator("details[id^=explain]").nth(1)).to_have_attribute("open", "")
    assert page.url.endswith(f"/?without={ODYSSEY[0].block_id}")
    expect(page.locator(".block--removed")).to_have_count(1)
    expect(page.locator("#announcer")).to_have_text(
        "Without 1 of 5 passages: Arthur C. Clarke, as likely as not, confidence 42 %."
    )

    second.click()
    _expect_without(page, "2001: A Space Odyssey", "Stanley Kubrick")
    first.click()
    _expect_without(page, "Stanley Kubrick")
    page.go_back()
    _expect_without(page, "2001: A Space Odyssey", "Stanley Kubrick")
    page.get_by_role("link", name="Bring all back").click()
    _expect_without(page)
    expect(page.locator("#evidence-title")).to_be_focused()
    expect(page.locator(".block--removed")).to_have_count(0)
    assert engine.asked == []  # no model ran


def test_switches_that_are_pressed_in_haste_all_count(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    asked = stored.store()
    page.goto(f"{live_server.url}/answers/{asked.pk}/")
    titles = ("HAL 9000", "Ridley Scott", "Stanley Kubrick")
    page.evaluate(
        "ids => ids.forEach(id => document.getElementById(id).click())",
        [f"switch-{block.block_id}" for block in ODYSSEY if block.title in titles],
    )
    _expect_without(page, *titles)

    # Before the scripts have come: they run after the document has become interactive.
    page.add_init_script(
        "document.addEventListener('readystatechange', () => { if (document.readyState === 'interactive')"
        f" document.querySelector('#switch-{ODYSSEY[0].block_id}').click(); }})"
    )
    page.goto(f"{live_server.url}/answers/{asked.pk}/")
    _expect_without(page, ODYSSEY[0].title)


def test_without_all_blocks_and_back(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    asked = stored.store()
    page.goto(f"{live_server.url}/answers/{asked.pk}/?" + "&".join(f"without={b.block_id}" for b in ODYSSEY))
    expect(page.locator(".answer__text")).to_have_text("Nothing left to read")
    _switch(page, "HAL 9000").click()
    _expect_without(page, *(block.title for block in ODYSSEY if block.title != "HAL 9000"))


def test_everything_works_without_javascript(live_server: LiveServer, engine: FakeEngine, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(live_server.url)
    page.get_by_label("Your question").fill(QUESTION)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".answer__text")).to_have_text("Stanley Kubrick")

    for title in ("2001: A Space Odyssey", "HAL 9000"):
        _switch(page, title).click()
    page.get_by_role("button", name="Apply").first.click()
    _expect_without(page, "2001: A Space Odyssey", "HAL 9000")
    expect(_switch(page, "HAL 9000")).to_be_checked()
    page.get_by_role("link", name="Bring all back").click()
    _expect_without(page)

    page.locator("details[id^=explain] summary").first.click()
    expect(page.locator(".explain").first).to_contain_text("Before anything was read")
    page.get_by_role("link", name="History").click()
    page.get_by_role("link", name=QUESTION).click()
    expect(page.locator(".answer__text")).to_have_text("Stanley Kubrick")
    page.get_by_role("button", name="Ask", exact=True).click()  # the question still stands in the box
    assert AskedAnswer.objects.count() == 2
    context.close()


def test_the_keyboard_is_enough(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    page.goto(live_server.url)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Your question")).to_be_focused()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".answer__text")).to_have_text("Stanley Kubrick")

    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "switch":
            break
    expect(_switch(page, "2001: A Space Odyssey")).to_be_focused()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Space")
    _expect_without(page, "2001: A Space Odyssey")
    page.keyboard.press("Space")
    _expect_without(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".explain").first).to_be_visible()


def test_feedback_keeps_the_focus(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    page.goto(f"{live_server.url}/answers/{stored.store().pk}/")
    wrong = page.get_by_role("button", name="Wrong")
    wrong.press("Enter")
    expect(page.locator("#announcer")).to_have_text("Kept, thank you.")
    expect(wrong).to_be_focused()
    page.evaluate("document.addEventListener('htmx:afterSettle', () => document.body.dataset.settled = 'yes')")
    page.get_by_role("button", name="Send").press("Enter")
    expect(page.locator("body")).to_have_attribute("data-settled", "yes")  # the announcer said the same before
    expect(page.locator("#feedback-send")).to_be_focused()
    page.get_by_role("button", name="Take back").press("Enter")  # which is gone afterwards
    expect(page.locator("#announcer")).to_have_text("Taken back.")
    expect(page.get_by_role("button", name="Right", exact=True)).to_be_focused()


def test_a_printed_answer_says_what_was_asked_and_where_it_is_found(
    live_server: LiveServer, engine: FakeEngine, page: Page
) -> None:
    address = f"{live_server.url}/answers/{stored.store().pk}/"
    page.goto(address)
    page.emulate_media(media="print")
    expect(page.get_by_role("heading", level=1, name=QUESTION)).to_have_css("position", "static")
    expect(page.get_by_text(address)).to_be_visible()
    expect(page.locator(".answer__compare").get_by_text("2001: A Space Odyssey")).to_be_visible()
    expect(page.get_by_role("link", name="Permanent link")).to_be_hidden()
    expect(page.locator(".block .print-only").first).to_be_visible()
    for pressed in (".ask", ".feedback", ".switch"):
        expect(page.locator(pressed).first).to_be_hidden()


def test_a_slip_is_explained_where_it_was_made(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    page.goto(live_server.url)
    page.get_by_label("Your question").fill("x" * 1001)
    page.keyboard.press("Enter")
    expect(page.locator("#question-error")).to_contain_text("at most 1000 characters")
    expect(page.get_by_label("Your question")).to_be_focused()
    expect(page.get_by_label("Your question")).to_have_value("x" * 1001)
    expect(page.locator("header")).to_have_count(1)  # the frame was not put into itself


def test_while_the_model_is_loading_the_page_asks_again_by_itself(
    live_server: LiveServer, loader: Loader, page: Page
) -> None:
    stored.deployment()
    loader.may_go_on.clear()
    page.goto(live_server.url)
    page.get_by_label("Your question").fill(QUESTION)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="One moment, please")).to_be_visible()
    expect(page.locator("main bdi")).to_have_text(QUESTION)
    loader.may_go_on.set()
    expect(page.locator(".answer__text")).to_have_text("Stanley Kubrick")


def test_a_lost_connection_is_said(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    page.goto(live_server.url)
    page.get_by_label("Your question").fill(QUESTION)
    page.context.set_offline(True)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="cannot be reached")).to_be_visible()
    expect(page.get_by_label("Your question")).to_have_value(QUESTION)
    page.context.set_offline(False)
    page.keyboard.press("Enter")
    expect(page.locator(".answer__text")).to_have_text("Stanley Kubrick")
    expect(page.locator("#trouble")).to_be_hidden()


def test_markup_from_people_and_corpora_stays_text(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    evil = "<img src=x onerror=alert(1)>"
    block = stored.Read(evil, f"Before {evil} after", 1.0, {evil: 0.9}, 0.1)
    engine.value = stored.payload((block,))
    page.goto(live_server.url)
    page.get_by_label("Your question").fill(f"{evil} <script>alert(2)</script>")
    page.keyboard.press("Enter")
    expect(page.locator(".answer__text")).to_have_text(evil)
    expect(page.locator("mark")).to_have_text(evil)
    _ = page.locator(f"#switch-{block.block_id}").click()
    expect(page.locator(".answer__text")).to_have_text("Nothing left to read")
    expect(page.locator("main img")).to_have_count(0)


def test_the_article_opens_at_the_block(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    asked = stored.store()
    page.goto(f"{live_server.url}/answers/{asked.pk}/")
    page.get_by_role("link", name=re.compile("In its article.*HAL 9000")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("HAL 9000")
    expect(page.locator("#block")).to_be_in_viewport()
    page.get_by_role("link", name="Back to the answer").click()
    expect(page.locator(".answer__text")).to_have_text("Stanley Kubrick")
