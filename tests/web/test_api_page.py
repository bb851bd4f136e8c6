"""The API's description as a page says what the schema says, and leads nowhere where nothing is."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from webapp.rest.reference import Type, _type
from webapp.templatetags.pages import with_code


@pytest.fixture(scope="module")
def schema() -> Any:
    return SchemaGenerator().get_schema(public=True)


@pytest.fixture
def page(db: None, client: Client) -> str:
    response = client.get("/api/v1/docs/")
    assert response.status_code == 200
    return str(response.content.decode())


def test_every_operation_is_on_the_page(page: str, schema: Any) -> None:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            (section,) = re.findall(
                rf'<section [^>]*aria-labelledby="{operation["operationId"]}">.*?</section>', page, re.DOTALL
            )
            assert f"<code>{path}</code>" in section
            assert f">{method.upper()}</strong>" in section
            for parameter in operation.get("parameters", []):
                assert f"<code>{parameter['name']}</code>" in section
            for status in operation["responses"]:
                assert f'<strong class="num">{status}</strong>' in section


def test_all_data_are_on_the_page_with_their_fields(page: str, schema: Any) -> None:
    for name, data in schema["components"]["schemas"].items():
        (section,) = re.findall(rf'<section [^>]*aria-labelledby="data-{name}">.*?</section>', page, re.DOTALL)
        for field in data.get("properties", {}):
            assert f"<code>{field}</code>" in section


def test_links_within_the_page_lead_somewhere(page: str) -> None:
    places = re.findall(r' id="([^"]+)"', page)
    assert len(places) == len(set(places))
    leads_to = set(re.findall(r'href="#([^"]+)"', page))
    assert len(leads_to) > 60
    assert leads_to <= set(places)


def test_a_call_names_this_server_and_holds_the_example(page: str) -> None:
    (section,) = re.findall(r'<section [^>]*aria-labelledby="ask">.*?</section>', page, re.DOTALL)
    call = unescape(re.findall(r"<pre[^>]*><code>(curl.*?)</code>", section, re.DOTALL)[0])
    assert call.startswith(
        'curl -X POST \\\n  -H "Authorization: Bearer $REALM_TOKEN" \\\n  -H "Content-Type: application/json"'
    )
    assert call.endswith("http://testserver/api/v1/ask")
    assert re.search(r"-d '\{\s*\"question\": \"", call)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"$ref": "#/components/schemas/Answer"}, Type("", "Answer")),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Block"}}, Type("list of", "Block")),
        ({"type": "array", "items": {"type": "string", "format": "uuid"}}, Type("list of string (uuid)")),
        ({"type": "integer", "minimum": 1, "maximum": 20}, Type("integer, from 1, to 20")),
        ({"type": "number", "nullable": True}, Type("null or number")),
        ({"enum": ["a", None]}, Type('"a" or null')),
        ({"oneOf": [{"$ref": "#/components/schemas/Block"}, {"enum": [None]}]}, Type("null or", "Block")),
        ({"oneOf": [{"$ref": "#/components/schemas/Block"}, {"type": "string"}]}, Type("string or", "Block")),
        ({"type": "object", "additionalProperties": {"type": "number"}}, Type("object with values number")),
        ({}, Type("any value")),
    ],
)
def test_types_are_said_in_words(told: dict[str, Any], said: Type) -> None:
    assert _type(told) == said


def test_backticks_become_code_and_markup_stays_text() -> None:
    assert with_code("`a<b` or <i>") == "<code>a&lt;b</code> or &lt;i&gt;"
    assert with_code("one ` alone") == "one ` alone"
