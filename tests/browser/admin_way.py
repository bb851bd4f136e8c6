"""The administrator's way, clicked in a real browser against real workers: `python -m tests.browser.admin_way`.

    build → evaluate → deploy → ask → roll back

`make run`'s own supervisor runs on the default corpus in a data folder of its own; what a person would click is
clicked, and what a person would read is read. --postgresql and --redis PROGRAM: with the database and the broker that
production has. --screenshots keeps pictures of every station, of a desk's and a phone's width.

test_admin_way.py walks the same way over a dozen articles.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from benchmarks.web import free_port
from tests.broker import running_broker
from tests.postgres import postgres
from workers.system_packages import find_browser

TOP = Path(__file__).resolve().parents[2]
_START_S = 600.0  # the first one reads the corpus and its index
_BUILD_MS = 1_800_000.0  # an index of 11,806 blocks on two cores that do other things, too
_SIZES = {"desk": (1280, 900), "phone": (390, 844)}


@dataclass(frozen=True)
class Ground:
    """What is walked on. One model, one corpus; its blocks are embedded in shards of so many rows.

    sample: so many of the question set are asked. answers: question → what the model answers.
    """

    blocks: int
    shard_rows: int
    questions: str
    sample: int
    answers: Mapping[str, str]


DEFAULT = Ground(
    blocks=11_806,
    shard_rows=2500,
    questions="plain-dev",
    sample=40,
    answers={"Who directed 2001: A Space Odyssey?": "Stanley Kubrick", "What is the capital of France?": "Paris"},
)


class Way:
    """One walk. base: of the site. password: of its admin. shots: where pictures go, if anywhere."""

    def __init__(self, page: Page, base: str, password: str, ground: Ground, shots: Path | None = None) -> None:
        self._page, self._base, self._password, self._ground, self._shots = page, base, password, ground, shots

    def walk(self) -> None:
        """All of it; raises AssertionError where a page does not show what it should."""
        self._log_in()
        first = self._deployed()
        made = self._build(first)
        self._evaluate(made)
        self._deploy(made)
        self._ask(made)
        self._roll_back(first)
        self._audit()

    def _log_in(self) -> None:
        page = self._page
        page.goto(f"{self._base}/manage/")
        page.get_by_label("User name").fill("admin")
        page.get_by_label("Password").fill(self._password)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        self._picture("overview")

    def _deployed(self) -> str:
        """The generation that answers."""
        self._open("Overview")
        return self._page.locator("section", has_text="Active deployment").get_by_role("link").nth(1).inner_text()

    def _build(self, first: str) -> str:
        page = self._page
        self._open("Overview")
        page.get_by_role("link", name="Start a job").click()
        page.get_by_role("link", name="Build an index").click()
        page.get_by_label("Model").select_option(index=1)
        page.get_by_label("Corpus").select_option(index=1)
        page.get_by_label("Shard rows").fill(str(self._ground.shard_rows))
        self._picture("build-form")
        page.get_by_role("button", name="Build an index").click()
        expect(page.locator(".progress-line")).to_contain_text(f"of {self._ground.blocks:,} blocks", timeout=_BUILD_MS)
        self._picture("build-running")
        expect(page.locator(".state-line")).to_contain_text("succeeded", timeout=_BUILD_MS)
        self._picture("build-done")
        made = page.locator("section", has_text="What it made").get_by_role("link").first.inner_text()
        assert made != first, "what answers is never overwritten"
        return made

    def _evaluate(self, made: str) -> None:
        page = self._page
        self._open("Jobs")
        page.get_by_role("link", name="Start a job").click()
        page.get_by_role("link", name="Evaluate").click()
        self._choose("Index", made)
        self._choose("Questions", self._ground.questions)
        page.get_by_label("Sample").fill(str(self._ground.sample))
        page.get_by_role("button", name="Evaluate").click()
        expect(page.locator(".state-line")).to_contain_text("succeeded", timeout=_BUILD_MS)
        expect(page.locator("section", has_text="What it made")).to_contain_text(f"of {self._ground.sample} questions")
        self._picture("evaluated")

    def _deploy(self, made: str) -> None:
        page = self._page
        self._open("Indexes")
        page.get_by_role("link", name=f"Deploy … {made}").click()
        self._picture("deploy")
        page.get_by_label("Note").fill("Built anew")
        if page.get_by_role("checkbox").count():
            page.get_by_role("checkbox").check()
        page.get_by_role("button", name="Deploy").click()
        expect(page.get_by_role("status").first).to_contain_text("answers questions as soon as it is loaded")
        self._picture("deployed")
        assert self._deployed() == made

    def _ask(self, expected: str) -> None:
        """Ask until the pair answers that is deployed, and look at what it says."""
        page, until = self._page, time.monotonic() + 120
        while True:
            for question, answer in self._ground.answers.items():
                page.goto(self._base)
                page.get_by_role("textbox").fill(question)
                page.get_by_role("textbox").press("Enter")
                expect(page.locator(".answer__text")).to_have_text(answer)
            if expected in page.content():
                break
            assert time.monotonic() < until, f"{expected} does not answer"
        self._picture("asked")

    def _roll_back(self, first: str) -> None:
        page = self._page
        self._open("Deployments")
        page.get_by_role("link", name=re.compile("^Go back")).first.click()
        self._picture("roll-back")
        if page.get_by_role("checkbox").count():
            page.get_by_role("checkbox").check()
        page.get_by_role("button", name="Go back").click()
        expect(page.get_by_role("status").first).to_be_visible()
        assert self._deployed() == first
        self._ask(first)

    def _audit(self) -> None:
        page = self._page
        page.goto(f"{self._base}/manage/")
        self._open("Audit")
        expect(page.locator("tbody tr", has_text="admin")).to_have_count(5)
        self._picture("audit")

    def _choose(self, label: str, of: str) -> None:
        """Choose the option whose text holds `of`."""
        field = self._page.get_by_label(label, exact=True)
        option = field.locator("option", has_text=of).first.get_attribute("value")
        assert option, f"{label} does not offer {of}"
        field.select_option(option)

    def _open(self, name: str) -> None:
        if "/manage/" not in self._page.url:
            self._page.goto(f"{self._base}/manage/")
        self._page.get_by_role("navigation", name="Manage").get_by_role("link", name=name, exact=True).click()

    def _picture(self, name: str) -> None:
        if self._shots is None:
            return
        for size, (width, height) in _SIZES.items():
            self._page.set_viewport_size({"width": width, "height": height})
            self._page.screenshot(path=self._shots / f"{name}-{size}.png", full_page=True)
        width, height = _SIZES["desk"]
        self._page.set_viewport_size({"width": width, "height": height})


@contextmanager
def running(data: Path, urls: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """`make run` on a data folder; address, and the administrator's password. urls: of servers that it uses."""
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_URL")} | urls
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "workers.supervisor"],
        cwd=TOP,
        env=environment | {"REALM_DATA": str(data), "PORT": str(port)},
        stdout=subprocess.PIPE,
        text=True,
    )
    said: list[str] = []
    assert supervisor.stdout is not None
    reader = threading.Thread(target=said.extend, args=(supervisor.stdout,), daemon=True)
    reader.start()
    try:
        until = time.monotonic() + _START_S
        while not _is_ready(port):
            assert supervisor.poll() is None and time.monotonic() < until, "".join(said)
            time.sleep(0.5)
        password = data / "first_password"
        assert password.exists(), "The data folder is not new: nobody knows the password of its administrator."
        yield f"http://127.0.0.1:{port}", password.read_text()
    finally:
        supervisor.send_signal(signal.SIGINT)
        supervisor.wait(60)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--postgresql", action="store_true", help="on a PostgreSQL of its own instead of SQLite")
    parser.add_argument("--redis", metavar="PROGRAM", help="for a broker as production has it, such as redis-server")
    parser.add_argument("--screenshots", type=Path, help="folder for pictures of every station")
    arguments = parser.parse_args()
    if arguments.screenshots is not None:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    path = find_browser()
    assert path is not None, "There is no Chromium; `make test` installs it or says how."
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # it does not work for root
    urls: dict[str, str] = {}
    with ExitStack() as stack:
        if arguments.postgresql:
            urls["DATABASE_URL"] = stack.enter_context(postgres())
        if arguments.redis:
            urls |= stack.enter_context(running_broker(arguments.redis)).urls
        data = stack.enter_context(tempfile.TemporaryDirectory())
        base, password = stack.enter_context(running(Path(data), urls))
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=path, args=sandbox)
        expect.set_options(timeout=30_000)
        Way(browser.new_page(), base, password, DEFAULT, arguments.screenshots).walk()
        browser.close()
    print(f"Built, evaluated, deployed, asked and rolled back in {time.monotonic() - began:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
