"""Known vulnerabilities of the pinned packages, from the registry, by pip-audit.

    python -m workers.audit [--if-possible]

Status 0: none is known. 1: these are. 2: the registry could not be queried; with --if-possible that is 0 with a
message, unless the environment says AUDIT=required. pip-audit reports packages that it could not query as free of
vulnerabilities, so a release with a well-known one is queried first: if that is not reported, the registry has no data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from workers.refusal import TOP

_KNOWN: Final = "jinja2==2.10"  # CVE-2019-10906 and others
_TIMEOUT_S: Final = 600.0


class CannotAsk(Exception):
    """No vulnerability data can be reached; the message says what happened instead."""


def main(arguments: list[str] | None = None) -> int:
    """Audit constraints.txt and print the result."""
    parser = argparse.ArgumentParser(prog="workers.audit")
    parser.add_argument("--if-possible", action="store_true", help="no failure if the registry cannot be queried")
    options = parser.parse_args(arguments)
    wanted = os.environ.get("AUDIT", "")
    if wanted not in ("", "required"):
        print(f"error: AUDIT must be required, or not be set, and is {wanted!r}.", file=sys.stderr)
        return 1
    lenient = options.if_possible and not wanted
    try:
        found = audit(TOP / "constraints.txt")
    except CannotAsk as reason:
        pass_over = " It passes all the same; AUDIT=required makes it fail." if lenient else ""
        print(f"NOT AUDITED: {reason}{pass_over}", file=sys.stderr)
        return 0 if lenient else 2
    for line in found:
        print(line)
    print(f"{len(found)} known vulnerabilities" if found else "No vulnerability is known of the pinned packages.")
    return 1 if found else 0


def audit(pins: Path) -> list[str]:
    """Known vulnerabilities of the packages pinned in a file, one line each; `CannotAsk` if they cannot be queried."""
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder) / "known.txt"
        known.write_text(_KNOWN + "\n", encoding="utf-8")
        if not _vulnerabilities(known):
            raise CannotAsk("the registry reports no vulnerabilities, not even well-known ones.")
    return _vulnerabilities(pins)


def _vulnerabilities(pins: Path) -> list[str]:
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(pins), "--no-deps", "--disable-pip"]
    command += ["--progress-spinner=off", "--format=json", "--timeout=15"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        asked: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        raise CannotAsk(f"the registry did not answer within {_TIMEOUT_S:.0f} seconds.") from None
    except (ValueError, KeyError, TypeError):
        raise CannotAsk(f"pip-audit ended with: {(done.stderr.strip().splitlines() or ['nothing'])[-1]}") from None
    unasked = [str(package["name"]) for package in asked if "vulns" not in package]
    if unasked:
        raise CannotAsk(
            f"the registry does not know {len(unasked)} of {len(asked)} packages: {', '.join(unasked[:5])}."
        )
    return [
        f"{package['name']} {package['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or 'none'}"
        for package in asked
        for found in package["vulns"]
    ]


if __name__ == "__main__":
    sys.exit(main())
