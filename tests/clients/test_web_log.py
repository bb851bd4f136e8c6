"""What the web server's log tells an operator, and what it does not."""

from __future__ import annotations

import httpx
import pytest

from tests.clients.conftest import Running
from tests.waiting import wait_until

PRIVATE = "Whom+did+Ada+meet"


@pytest.mark.parametrize("path", [f"/?q={PRIVATE}", f"/fill/?sentence={PRIVATE}+%5BMASK%5D"])
def test_a_question_in_an_address_is_not_logged(running: Running, path: str) -> None:
    request_id = f"asked-{len(path)}"
    httpx.get(running.address + path, headers={"X-Request-ID": request_id}).raise_for_status()
    wait_until(lambda: request_id in running.log.read_text())
    log = running.log.read_text()
    (line,) = [line for line in log.splitlines() if line.endswith(f" {request_id}")]
    assert f'"GET {path.partition("?")[0]} HTTP/1.1" 200' in line
    assert PRIVATE not in log
