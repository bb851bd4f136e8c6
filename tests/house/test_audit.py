"""The audit of packages tells apart: nothing known, something known, and nobody to ask."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from workers import audit

KNOWN = {"name": "jinja2", "version": "2.10", "vulns": [{"id": "CVE-1", "fix_versions": ["2.10.1"]}]}
CLEAN = {"name": "django", "version": "5.2.9", "vulns": []}
HIT = {"name": "django", "version": "5.2.9", "vulns": [{"id": "CVE-2", "fix_versions": []}]}
SKIPPED = {"name": "jinja2", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("answers", "status", "lenient", "says"),
    [
        ([[KNOWN], [CLEAN]], 0, 0, "No vulnerability is known"),
        ([[KNOWN], [CLEAN, HIT]], 1, 1, "django 5.2.9: CVE-2, mended in none"),
        ([[SKIPPED]], 2, 0, "Not audited: the registry does not know 1 of 1 packages: jinja2."),
        ([[CLEAN]], 2, 0, "Not audited: the registry tells nothing of vulnerabilities"),
        ([[KNOWN], [CLEAN, SKIPPED]], 2, 0, "Not audited: the registry does not know 1 of 2"),
        (["not JSON"], 2, 0, "Not audited: pip-audit ended with: no network"),
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
    for arguments, expected in (([], status), (["--if-possible"], lenient)):
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
