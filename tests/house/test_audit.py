"""The audit of packages tells apart: nothing known, something known, and nobody to ask, which may pass or fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workers import audit, bootstrap

KNOWN = {"name": "jinja2", "version": "2.10", "vulns": [{"id": "CVE-1", "fix_versions": ["2.10.1"]}]}
CLEAN = {"name": "django", "version": "5.2.9", "vulns": []}
HIT = {"name": "django", "version": "5.2.9", "vulns": [{"id": "CVE-2", "fix_versions": []}]}
SKIPPED = {"name": "jinja2", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("answers", "status", "lenient", "says"),
    [
        ([[KNOWN], [CLEAN]], 0, 0, "No vulnerability is known"),
        ([[KNOWN], [CLEAN, HIT]], 1, 1, "django 5.2.9: CVE-2, mended in none"),
        ([[SKIPPED]], 2, 0, "NOT AUDITED: the registry does not know 1 of 1 packages: jinja2."),
        ([[CLEAN]], 2, 0, "NOT AUDITED: the registry reports no vulnerabilities"),
        ([[KNOWN], [CLEAN, SKIPPED]], 2, 0, "NOT AUDITED: the registry does not know 1 of 2"),
        (["not JSON"], 2, 0, "NOT AUDITED: pip-audit ended with: no network"),
    ],
)
def test_what_the_audit_says(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: list[Any],
    status: int,
    lenient: int,
    says: str,
) -> None:
    for wanted, arguments, expected in (
        ("", [], status),
        ("", ["--if-possible"], lenient),
        ("required", ["--if-possible"], status),
    ):
        monkeypatch.setenv("AUDIT", wanted)
        waiting = iter(answers)

        def run(command: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
            assert command[1:3] == ["-m", "pip_audit"]
            answer = next(waiting)  # noqa: B023  # called in this round alone
            text = answer if isinstance(answer, str) else json.dumps({"dependencies": answer, "fixes": []})
            return subprocess.CompletedProcess(command, 0, text, "no network")

        monkeypatch.setattr(audit.subprocess, "run", run)
        assert audit.main(arguments) == expected
        told = capsys.readouterr()
        assert says in told.out + told.err
        assert ("No vulnerability" in told.out) is (status == 0)
        assert ("It passes all the same; AUDIT=required" in told.err) is (expected != status)


@pytest.mark.parametrize(
    ("wanted", "status", "says"),
    [
        ("", 0, "NOT AUDITED: "),
        ("requird", 1, "error: AUDIT must be required, or not be set, and is 'requird'."),
    ],
)
def test_a_list_out_of_reach_does_not_fail_unless_it_is_required(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], wanted: str, status: int, says: str
) -> None:
    """The real line of `make lint`, on a machine that reaches nothing."""
    monkeypatch.setenv("AUDIT", wanted)
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")  # nobody listens there
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    [line] = [command for command in bootstrap.LINT if command[0] == "workers.audit"]
    assert bootstrap.check_all(Path(sys.executable), (line,)) == status
    told = capfd.readouterr().err
    assert says in told and ("Not clean: workers.audit" in told) is bool(status)
