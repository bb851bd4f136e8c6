"""The browser of the tests, which no wheel has."""

from __future__ import annotations

import os
import shutil
import subprocess

from workers.refusal import Refusal

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    """The path of a Chromium or Chrome, if the machine has one."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def ensure_browser() -> None:
    """Install Debian's Chromium if possible; otherwise raise Refusal with instructions."""
    if find_browser():
        return
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise Refusal(
            "The browser tests need Chromium. Install it and run this again "
            "(Debian and Ubuntu: sudo apt-get install chromium; macOS: brew install --cask chromium)."
        )
    print("Installing Chromium for the browser tests (apt-get)", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"]):
        done = subprocess.run(
            [apt, "-qq", *arguments],
            env=environment,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode != 0:
            reason = done.stdout.strip().splitlines()
            raise Refusal(
                "Chromium for the browser tests could not be installed "
                f"({reason[-1] if reason else 'apt-get gave no reason'}). Install it by hand and run this again."
            )
