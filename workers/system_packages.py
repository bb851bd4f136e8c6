"""The browser of the tests, which no wheel has."""

from __future__ import annotations

import os
import shutil
import subprocess

from workers.refusal import Refusal

# Chromium without windows takes half the processor time of the whole one, which opens a window for each test.
_SHELL = "chromium-headless-shell"
BROWSERS = (_SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FONTS = "fonts-dejavu-core"


def find_browser() -> str | None:
    """The path of a Chromium or Chrome, if the machine has one."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def ensure_browser() -> None:
    """Install Debian's Chromium if possible, without windows where there is that; otherwise any browser will do.

    Raises Refusal with instructions if there is none.
    """
    found = find_browser()
    if found and shutil.which(_SHELL):
        return
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        if found:
            return
        raise Refusal(
            "The browser tests need Chromium. Install it and run this again "
            f"(Debian: sudo apt-get install {_SHELL}; Ubuntu: sudo apt-get install chromium; "
            "macOS: brew install --cask chromium)."
        )
    print("Installing Chromium for the browser tests (apt-get)", flush=True)
    if found:
        reason = _refused(apt, "install", _SHELL)
        if reason:
            print(f"{_SHELL} could not be installed ({reason}); {found} is used, which takes longer.", flush=True)
        return
    reason = _refused(apt, "update")
    if not reason and _refused(apt, "install", _SHELL, _FONTS):
        reason = _refused(apt, "install", "chromium", _FONTS)
    if reason:
        raise Refusal(
            f"Chromium for the browser tests could not be installed ({reason}). Install it by hand and run this again."
        )


def _refused(apt: str, command: str, *packages: str) -> str:
    """Why apt-get does not do this; empty if it does. It takes nothing away for what it installs."""
    options = ["--yes", "--no-install-recommends", "--no-remove"] if packages else []
    done = subprocess.run(
        [apt, "-qq", "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", command, *options, *packages],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode == 0:
        return ""
    said = done.stdout.strip().splitlines()
    return said[-1] if said else "apt-get gave no reason"
