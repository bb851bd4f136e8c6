"""How often somebody may ask."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.test import RequestFactory
from redis.exceptions import ConnectionError as NoConnection

from tests.web.conftest import FakeEngine, Person
from webapp.access import limits


def request_from(address: str, forwarded: str = "") -> HttpRequest:
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    request = RequestFactory().get("/", REMOTE_ADDR=address, headers=headers)
    request.user = AnonymousUser()
    return request


def seconds_to_wait(request: HttpRequest) -> int | None:
    try:
        limits.count_questions(request)
    except limits.TooManyQuestions as refused:
        return refused.retry_after_s
    return None


def test_each_address_and_account_is_counted_apart(
    settings: Any, member: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ASK_RATE = "1/min"
    monkeypatch.setattr(limits.time, "time", lambda: 90.0)
    assert seconds_to_wait(request_from("10.0.0.1")) is None
    assert seconds_to_wait(request_from("10.0.0.1")) == 30
    assert seconds_to_wait(request_from("10.0.0.2")) is None
    known = request_from("10.0.0.1")
    known.user = member.user
    assert seconds_to_wait(known) is None
    monkeypatch.setattr(limits.time, "time", lambda: 120.0)
    assert seconds_to_wait(request_from("10.0.0.1")) is None


def test_zero_is_no_limit(settings: Any) -> None:
    settings.ASK_RATE = "0"
    assert {seconds_to_wait(request_from("10.0.0.1")) for _ in range(50)} == {None}


def test_what_a_client_claims_is_believed_from_proxies_alone(settings: Any) -> None:
    claimed = request_from("10.0.0.1", "1.1.1.1, 2.2.2.2")
    assert limits.client_address(claimed) == "10.0.0.1"
    settings.PROXIES = 1
    assert limits.client_address(claimed) == "2.2.2.2"
    settings.PROXIES = 3
    assert limits.client_address(claimed) == "10.0.0.1"


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::"),
        ("2001:db8:1:3::1", "2001:db8:1:3::"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("", ""),  # of a Unix socket
    ],
)
def test_a_64_bit_network_of_ipv6_is_one_client(settings: Any, address: str, client: str) -> None:
    assert limits.client_address(request_from(address)) == client
    settings.PROXIES = 1
    assert limits.client_address(request_from("127.0.0.1", address or "unknown")) == (client or "unknown")


def test_without_the_cache_nobody_is_refused(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_options: Any) -> None:
        raise NoConnection("no server")

    settings.ASK_RATE = "1/day"
    monkeypatch.setattr(limits.cache, "add", refuse)
    assert [seconds_to_wait(request_from("10.0.0.1")) for _ in range(3)] == [None, None, None]


def test_page_and_api_share_one_count(settings: Any, outsider: Person, engine: FakeEngine) -> None:
    settings.ASK_RATE = "1/day"
    assert outsider.client.post("/", {"question": "Who?"}).status_code == 302
    body = '{"question": "Who?"}'
    assert outsider.client.post("/api/v1/ask", body, content_type="application/json").status_code == 429
    response = outsider.client.post("/", {"question": "Who?"})
    assert response.status_code == 429 and int(response["Retry-After"]) > 0
    assert "from you or others at your address" in response.content.decode()  # a class may share one
