"""What every response tells the browser, whoever made it: page, API, static file, redirect, error."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.web.conftest import FakeEngine

WANTED = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NONE, SELF = "'none'", "'self'"
POLICY = {
    "default-src": NONE,
    "script-src": SELF,
    "style-src": SELF,
    "form-action": SELF,
    "frame-ancestors": NONE,
    "base-uri": NONE,
}


def check(headers: Any) -> None:
    """That a response's headers are those of this site."""
    assert {name: headers.get(name) for name in WANTED} == WANTED
    assert "camera=()" in headers["Permissions-Policy"] and "geolocation=()" in headers["Permissions-Policy"]
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert POLICY.items() <= policy.items()
    assert policy.get("object-src", policy["default-src"]) == NONE
    assert "unsafe" not in str(policy) and "*" not in str(policy)
    assert headers.get("Access-Control-Allow-Origin") is None


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/", 200),
        ("/fill/?sentence=A+[MASK].", 200),
        ("/history/", 200),
        ("/how-it-works/", 200),
        ("/accounts/login/", 200),
        ("/static/css/app.css", 200),
        ("/static/nowhere.css", 404),
        ("/nowhere/", 404),
        ("/account/", 302),
        ("/admin/login/", 302),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/api/v1/docs/", 200),
        ("/api/v1/schema/", 200),
        ("/api/v1/jobs", 401),
        ("/api/v1/answers/nothing", 404),
        ("/api/v1/ask", 405),
        ("/mcp", 405),
    ],
)
def test_every_response_has_them(client: Client, engine: FakeEngine, address: str, status: int) -> None:
    response = client.get(address)
    response.close()
    assert response.status_code == status
    check(response.headers)
    if "text/html" in response.headers.get("Content-Type", ""):
        page = response.content.decode()
        assert not any(inline in page for inline in ("<script>", "<style", " style=", " onclick="))


def test_errors_have_them(client: Client, engine: FakeEngine) -> None:
    client.raise_request_exception = False
    engine.error = RuntimeError("a mistake")
    for response in (
        client.post("/", {"question": "Who?"}),
        client.post("/api/v1/ask", {"question": "Who?"}, content_type="application/json"),
    ):
        assert response.status_code == 500
        check(response.headers)
    unknown = Client(headers={"Host": "elsewhere.example"}).get("/")
    assert unknown.status_code == 400
    check(unknown.headers)
    forged = Client(enforce_csrf_checks=True).post("/", {"question": "Who?"})
    assert forged.status_code == 403
    check(forged.headers)
