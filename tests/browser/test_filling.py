"""Filling gaps as a person with a browser does it."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.browser.test_appearance import look
from tests.web.conftest import FakeEngine, Loader
from tests.web.pages import stored
from tests.web.pages.fillings import POLYGON, SENTENCE
from webapp.filling.views import EXAMPLES

FILLED = SENTENCE.replace("[MASK]", "fermat")


def test_fill_without_leaving_the_page(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    page.goto(live_server.url)
    page.get_by_role("link", name="Fill", exact=True).click()
    page.wait_for_url("**/fill/")  # until its scripts have run: Enter is theirs
    page.evaluate("window.sameDocument = true")
    page.get_by_label("Your sentence").fill(SENTENCE)
    page.get_by_label("What is missing, if you know it").fill("Twin")
    page.get_by_label("Your sentence").press("Enter")
    expect(page.locator(".filled")).to_have_text(FILLED)
    expect(page.locator(".ways__title")).to_contain_text("How likely is “twin”?")
    assert page.evaluate("window.sameDocument")
    assert page.title() == f"{SENTENCE} · REALM"
    expect(page.locator("#page-title")).to_be_focused()
    expect(page.locator("#announcer")).to_have_text("fermat, as likely as not, 48.0 %.")
    expect(page.get_by_label("Your sentence")).to_have_value(SENTENCE)
    page.locator(".way").nth(1).get_by_role("link", name=POLYGON.title).click()  # down to the block
    expect(page.locator(f"#block-{POLYGON.block_id}")).to_be_in_viewport()

    page.reload()  # its address is all that it needs
    expect(page.locator(".filled")).to_have_text(FILLED)
    expect(page.get_by_label("What is missing, if you know it")).to_have_value("Twin")
    page.evaluate("history.go(-2)")  # over the block's place in the page
    expect(page.get_by_role("heading", name="Fill the gaps")).to_be_visible()
    page.go_forward()
    expect(page.locator(".ways__title")).to_contain_text("How likely is “twin”?")


def test_an_example_is_one_click_and_what_was_opened_stays_open(
    live_server: LiveServer, engine: FakeEngine, page: Page
) -> None:
    page.goto(f"{live_server.url}/fill/?sentence=[MASK]+or+[MASK]+or+[MASK]")
    page.get_by_text("Piece by piece").first.click()
    expect(page.locator("#words-without .word").first).to_be_visible()
    page.get_by_role("button", name="Fill").click()
    expect(page.locator("#words-without")).to_have_attribute("open", "")
    page.goto(f"{live_server.url}/fill/")
    page.get_by_role("link", name=EXAMPLES[2][0]).click()
    expect(page.get_by_label("Your sentence")).to_have_value(EXAMPLES[2][1])
    expect(page.locator(".block")).to_have_count(3)
    page.locator("#explain-null summary").click()
    expect(page.locator("#explain-null .explain")).to_contain_text("Reading nothing but the sentence")


def test_it_works_without_javascript(live_server: LiveServer, engine: FakeEngine, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{live_server.url}/fill/")
    page.get_by_label("Your sentence").fill("Nothing is missing.")
    page.get_by_role("button", name="Fill").click()
    expect(page.locator("#sentence-error")).to_contain_text("write [MASK] in place of a word")
    page.get_by_label("Your sentence").fill(SENTENCE)
    page.get_by_role("button", name="Fill").click()
    expect(page.locator(".filled")).to_have_text(FILLED)
    page.goto(f"{live_server.url}/fill/")
    page.get_by_role("link", name=EXAMPLES[0][0]).click()
    expect(page.locator(".block")).to_have_count(3)
    context.close()


def test_a_slip_is_explained_where_it_was_made(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    page.goto(f"{live_server.url}/fill/")
    page.get_by_label("Your sentence").fill("Nothing is missing.")
    page.keyboard.press("Enter")
    expect(page.locator("#sentence-error")).to_contain_text("write [MASK] in place of a word")
    expect(page.get_by_label("Your sentence")).to_be_focused()
    expect(page.locator("header.site-header")).to_have_count(1)  # the frame was not put into itself


def test_while_the_model_is_loading_the_page_tries_again_by_itself(
    live_server: LiveServer, loader: Loader, page: Page
) -> None:
    stored.deployment()
    loader.may_go_on.clear()
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{live_server.url}/fill/?sentence={SENTENCE}")
    expect(page.get_by_role("heading", name="One moment, please")).to_be_visible()
    loader.may_go_on.set()
    expect(page.locator(".filled")).to_have_text(FILLED)
    columns = [way.bounding_box() for way in page.locator(".way").all()]
    assert len({box["y"] for box in columns if box}) == 1  # side by side: the style sheet is there, too
    beside = page.locator(".side").bounding_box()
    assert beside and beside["width"] > 300  # and so is the width


def test_a_gap_that_is_read_is_shown_legibly(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    engine.has_encoder = False
    page.goto(f"{live_server.url}/fill/")
    page.get_by_role("link", name="Film").click()
    expect(page.locator(".filled mark")).to_have_text("Fermat")
    expect(page.locator(".way")).to_have_count(2)
    page.wait_for_url("**/fill/?sentence=*")
    look(page, (320,))
