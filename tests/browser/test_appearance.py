"""Every page on every screen: nothing sticks out, and text can be read in light and dark.

Those of the console are looked at in test_accessibility.py, which opens them all.
"""

from __future__ import annotations

from collections.abc import Sequence

from playwright.sync_api import Browser, Page
from pytest_django.live_server_helper import LiveServer

from tests.web.conftest import FakeEngine
from tests.web.pages import stored
from tests.web.pages.stored import ODYSSEY, Read

_LONG = "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch" * 3


def _addresses() -> list[str]:
    asked = stored.store()
    unbroken = stored.store(
        stored.payload((Read(_LONG, f"It is {_LONG}.", 1.0, {_LONG: 0.9}, 0.1, section=_LONG),), question=_LONG)
    )
    return [
        "/",
        f"/answers/{asked.pk}/",
        f"/answers/{asked.pk}/?without={ODYSSEY[0].block_id}",
        f"/answers/{unbroken.pk}/",
        f"/blocks/{ODYSSEY[0].block_id}/?answer={asked.pk}",
        "/history/",
        "/how-it-works/",
        "/accounts/login/",
        "/nowhere/",
        "/fill/",
        "/fill/?sentence=The+[MASK]+of+[MASK].",
        f"/fill/?sentence={_LONG}+[MASK]+[MASK]+[MASK]&truth={_LONG}",
    ]


CONTRASTS = """() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => {
    const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const grounds = new Map([[null, [255, 255, 255]]]);
  const background = (e) => {
    if (!grounds.has(e)) {
      const c = parse(getComputedStyle(e).backgroundColor);
      grounds.set(e, c.length === 3 || (c.length === 4 && c[3] === 1) ? c : background(e.parentElement));
    }
    return grounds.get(e);
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    const inactive = e.closest("script, noscript") || !e.checkVisibility();
    if (inactive || !walker.currentNode.data.trim()) continue;
    const [a, b] = [luminance(parse(getComputedStyle(e).color)), luminance(background(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)}: ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  return poor;
}"""

# Links among other words that look like these: neither underlined nor framed nor on a ground of their own.
HIDDEN_LINKS = """() => Array.from(document.querySelectorAll("a[href]")).filter(link => {
  const style = getComputedStyle(link), around = link.parentElement;
  const words = Array.from(around.childNodes).some(node => node.nodeType === Node.TEXT_NODE && /\\w/.test(node.data));
  return words && style.display === "inline" && link.checkVisibility() && style.textDecorationLine === "none"
    && style.borderBottomWidth === "0px" && style.backgroundColor === "rgba(0, 0, 0, 0)";
}).map(link => link.outerHTML)"""


def look(page: Page, widths: Sequence[int]) -> None:
    """Look at the open page on every screen and in light and dark; to load it anew takes far longer."""
    address = page.url
    page.emulate_media(reduced_motion="reduce")  # no colour is on its way to another
    for width in widths:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (address, width)
    assert page.evaluate(HIDDEN_LINKS) == [], address
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(21, 23, 26)"
        assert dark is (scheme == "dark"), address
        assert page.evaluate(CONTRASTS) == [], (address, scheme)


def test_every_page_fits_the_screen_and_can_be_read(live_server: LiveServer, engine: FakeEngine, page: Page) -> None:
    for address in _addresses():
        page.goto(live_server.url + address)
        look(page, (320, 360, 768, 1440, 1600))


def test_nothing_moves_for_those_who_asked_for_it(live_server: LiveServer, browser: Browser) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(live_server.url + _addresses()[1])
    moving = page.evaluate(
        "Array.from(document.querySelectorAll('*')).filter(e => { const s = getComputedStyle(e);"
        " return s.transitionDuration !== '0s' || s.animationName !== 'none'; }).length"
    )
    assert moving == 0
    context.close()


def test_right_to_left_text_runs_from_the_right(live_server: LiveServer, page: Page) -> None:
    block = Read("ירושלים", "ירושלים היא עיר הבירה של ישראל.", 1.0, {"ירושלים": 0.9}, 0.1)
    asked = stored.store(stored.payload((block,), question="מהי בירת ישראל?"))
    page.goto(f"{live_server.url}/answers/{asked.pk}/")
    for selector in ("#question", ".answer__text", ".block__text"):
        assert page.locator(selector).first.evaluate("e => getComputedStyle(e).direction") == "rtl"
