"""A real browser: the machine's Chromium, driven by Playwright."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import curator, engine, loader, member, no_workers, staff  # noqa: F401  (fixtures)
from tests.workers.conftest import broker_data, workers  # noqa: F401
from workers.system_packages import find_browser


@pytest.fixture(scope="session", autouse=True)
def allow_database_beside_playwright() -> Iterator[None]:
    """Playwright keeps an event loop running in the tests' thread, and Django would refuse the database there."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    yield
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    path = find_browser()
    assert path is not None, "These tests need Chromium; `make test` installs it or says how."
    arguments = [
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")  # Chromium's sandbox does not work for root
    return {**browser_type_launch_args, "executable_path": path, "args": arguments}


@pytest.fixture(autouse=True)
def patience() -> None:
    """The machine may be busy with other things; five seconds, the default, is little then."""
    expect.set_options(timeout=20_000)


@pytest.fixture
def page(page: Page) -> Iterator[Page]:
    """A page on which nothing may go wrong unseen: no script error, and nothing that the policy had to forbid."""
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if "Content Security" in message.text else None)
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    yield page
    assert problems == []
