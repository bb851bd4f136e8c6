"""axe on every page in every look, contrasts included: python -m tests.browser.accessibility [arguments for pytest]"""

from __future__ import annotations

import os
import sys

import pytest

if __name__ == "__main__":
    os.environ["EVERY_LOOK"] = "1"
    sys.exit(pytest.main(["tests/browser/test_accessibility.py", *sys.argv[1:]]))
