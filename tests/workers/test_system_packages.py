"""The browser of the tests is installed where it can be, the one without windows if there is that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.refusal import Refusal
from workers.system_packages import ensure_browser, find_browser

APT = """#!/bin/sh
echo "$*" >> "{folder}/asked"
for last; do case " {known} " in *" $last "*) name=$last;; esac; done
case "$*" in
  *install*) [ "$name" ] || {{ echo "E: Unable to locate package"; exit 100; }}
    printf '#!/bin/sh\\n' > "{folder}/$name" && /bin/chmod +x "{folder}/$name";;
esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder with programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def program(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.write_text(text)
    path.chmod(0o755)


def asked(folder: Path) -> list[str]:
    path = folder / "asked"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(
    ("known", "installed"),
    [("chromium-headless-shell chromium", "chromium-headless-shell"), ("chromium", "chromium")],
)
def test_it_is_installed(programs: Path, known: str, installed: str) -> None:
    program(programs / "apt-get", APT.format(folder=programs, known=known))
    ensure_browser()
    assert find_browser() == str(programs / installed)
    before = asked(programs)
    assert "update" in before[0] and all("--no-remove" in one for one in before[1:])
    if installed == "chromium-headless-shell":
        ensure_browser()
        assert asked(programs) == before


def test_chromium_without_windows_is_installed_beside_another_browser(programs: Path) -> None:
    program(programs / "chromium")
    program(programs / "apt-get", APT.format(folder=programs, known="chromium-headless-shell"))
    ensure_browser()
    assert find_browser() == str(programs / "chromium-headless-shell")


def test_the_installed_browser_is_used_where_none_can_be_installed(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(programs / "chromium")
    ensure_browser()  # no apt-get
    program(programs / "apt-get", APT.format(folder=programs, known=""))
    ensure_browser()
    assert "could not be installed (E: Unable to locate package); " in capsys.readouterr().out
    assert find_browser() == str(programs / "chromium")
    count = len(asked(programs))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    ensure_browser()
    assert len(asked(programs)) == count


def test_without_any_it_is_said_what_to_do(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(programs / "apt-get", APT.format(folder=programs, known=""))
    with pytest.raises(Refusal, match="could not be installed \\(E: Unable to locate package\\)"):
        ensure_browser()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Refusal, match="The browser tests need Chromium"):
        ensure_browser()
