"""The whole way for real: a model, an index and a corpus on the disk, the page in a browser, no stand-ins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

import webapp.serving.engine
from tests.tiny import tiny_deployment
from webapp.artefacts.registering import record_corpus, record_index, record_model
from webapp.models import AskedAnswer, Deployment


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    return tiny_deployment(tmp_path_factory.mktemp("deployment"))


@pytest.fixture
def deployed(
    transactional_db: None, folders: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployment]:
    """The tiny model, deployed and loaded by the engine holder itself."""
    model, index, corpus = folders
    record_corpus(corpus)
    recorded = record_model(model)
    deployment = Deployment.activate(record_index(index, model=recorded))
    monkeypatch.setattr(webapp.serving.engine, "_holder", None)
    webapp.serving.engine.holder().refresh(wait=True)
    yield deployment
    webapp.serving.engine.holder().close()


def test_ask_take_the_best_block_away_and_open_its_article(
    live_server: LiveServer, deployed: Deployment, page: Page
) -> None:
    page.goto(live_server.url)
    page.get_by_label("Your question").fill("Who directed 2001: A Space Odyssey?")
    page.keyboard.press("Enter")
    expect(page.locator(".block")).to_have_count(5)
    asked = AskedAnswer.objects.get()
    payload = asked.payload
    evidence = payload["evidence"]

    # What is stored adds up, by arithmetic that knows nothing of the site's.
    assert sum(block["prior"] for block in evidence) == pytest.approx(1, abs=1e-9)
    assert sum(block["posterior"] for block in evidence) == pytest.approx(1, abs=1e-9)
    probability = sum(block["prior"] * block["likelihood"] for block in evidence)
    assert payload["answers"][0]["probability"] == pytest.approx(probability, abs=1e-9)
    shown = page.locator(".sum__table tfoot td:last-child data")
    assert float(shown.get_attribute("value") or "") == pytest.approx(probability, abs=1e-6)

    # The best block goes: prior renormalised over the rest, the likeliest answer of what is left.
    kept = evidence[1:]
    weight = sum(block["prior"] for block in kept)
    marginals: dict[str, float] = {}
    for block in kept:
        for candidate in block["candidates"]:
            share = block["prior"] / weight * candidate["likelihood"]
            marginals[candidate["key"]] = marginals.get(candidate["key"], 0) + share
    page.locator(f"#switch-{evidence[0]['block_id']}").click()
    expect(page.locator(".sum__table tbody tr")).to_have_count(4)
    assert float(shown.get_attribute("value") or "") == pytest.approx(max(marginals.values()), abs=1e-6)
    page.locator(f"#switch-{evidence[0]['block_id']}").click()
    expect(page.locator(".sum__table tbody tr")).to_have_count(5)
    assert float(shown.get_attribute("value") or "") == pytest.approx(probability, abs=1e-6)

    page.goto(f"{live_server.url}/blocks/{evidence[0]['block_id']}/")
    expect(page.get_by_role("heading", level=1)).to_contain_text(evidence[0]["title"])
    expect(page.locator(".in-block").first).to_contain_text(evidence[0]["text"][:30])


def test_the_permanent_link_shows_what_was_answered(live_server: LiveServer, deployed: Deployment, page: Page) -> None:
    page.goto(f"{live_server.url}/?q=")
    page.get_by_label("Your question").fill("How many moons has Mars?")
    page.keyboard.press("Enter")
    expect(page.locator(".block")).to_have_count(5)
    text = page.locator(".answer__text").inner_text()
    webapp.serving.engine.holder().close()  # no engine is needed to show it again
    page.goto(f"{live_server.url}/answers/{AskedAnswer.objects.get().pk}/")
    expect(page.locator(".answer__text")).to_have_text(text)
