"""The language of a document that states none is told by its text; of one that the model does not read, one is told."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from urllib.parse import quote

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client

from tests.core.text.test_language import CODE, NAMES, TEXTS
from tests.web.conftest import Person
from tests.web.documents.conftest import titles
from tests.web.operating import TokenClient, post
from tests.web.pages import stored
from tests.web.pages.stored import ODYSSEY
from webapp.documents import previewing, service
from webapp.documents.inputs import DocumentInput, File, Text
from webapp.documents.languages import settled
from webapp.models import Deployment, Document

ALONE = "the model was trained on English alone and may read it badly."
DETECTED = f"Its language is stated nowhere, and its text seems to be in French: {ALONE}"
STATED = f"Its language is French: {ALONE}"
CONTRADICTED = f"Its language is given as English, but its text seems to be in French: {ALONE}"


def _added(text: str, language: str | None = None, document_id: str = "hours") -> Document:
    service.add([DocumentInput(Text(text), document_id, "Hours", language=language)], by=None)
    return Document.objects.get(document_id=document_id)


@pytest.mark.parametrize(
    ("stated", "text", "corpus", "language", "said"),
    [
        ("", "fr", "en", "fr", DETECTED),
        ("", "en", "en", "en", ""),
        ("", "en", "fr", "en", "Its language is stated nowhere, and its text seems to be in English."),
        ("", "fr", "fr", "fr", STATED),
        ("", "short", "en", "en", ""),
        ("", "short", "fr", "fr", STATED),
        ("fr", "fr", "en", "fr", STATED),
        ("fr-CA", "fr", "en", "fr-CA", STATED),
        ("fr", "short", "en", "fr", STATED),
        ("en", "fr", "en", "en", CONTRADICTED),
        ("fr", "en", "en", "fr", "Its language is given as French, but its text seems to be in English."),
        ("es", "fr", "en", "es", f"Its language is Spanish: {ALONE}"),
        ("en-GB", "en", "fr", "en-GB", ""),
        ("French", "short", "en", "French", ""),
        ("xx", "short", "en", "xx", f"Its language is xx: {ALONE}"),
    ],
)
def test_which_language_and_what_is_said(stated: str, text: str, corpus: str, language: str, said: str) -> None:
    texts = TEXTS | {"short": "La bibliothèque ouvre à neuf heures."}
    assert settled(stated, texts[text], corpus) == (language, (said,) if said else ())


@pytest.mark.parametrize(
    ("text", "language", "name"),
    [
        (TEXTS["fr"], "fr", "French"),
        (TEXTS["es"], "es", "Spanish"),
        (TEXTS["de"], "de", "German"),
        (TEXTS["en"], "en", ""),
        ("La bibliothèque ouvre à neuf heures.", "en", ""),
        ("\n".join([TEXTS["fr"], TEXTS["en"]] * 3), "en", ""),
        (NAMES, "en", ""),
        (CODE, "en", ""),
    ],
    ids=["French", "Spanish", "German", "English", "short", "mixed", "names", "code"],
)
def test_a_pasted_text(deployed: Deployment, text: str, language: str, name: str) -> None:
    document = _added(text)
    assert document.language == language
    assert [one for one in document.warnings if f"stated nowhere, and its text seems to be in {name}:" in one] == (
        document.warnings
    )
    assert bool(document.warnings) == bool(name)


def test_the_page_names_the_detected_language_and_questions_filter_by_it(answering: Deployment, staff: Person) -> None:
    form = {"title": "Horaires", "text": TEXTS["fr"], "licence": "CC0"}
    page = staff.client.post("/manage/documents/add/", form, follow=True).content.decode()
    assert f"“Horaires”: {DETECTED}" in page and "<dt>Language</dt><dd>fr</dd>" in page
    asked = post(staff.client, "ask", {"question": "When does it open?", "filters": {"languages": ["fr"]}}).json()
    assert {one["title"] for one in asked["evidence"]} == {"Horaires"} < titles()


def test_rest_and_the_command_name_the_detected_language(
    deployed: Deployment, program: TokenClient, tmp_path: Path
) -> None:
    file = SimpleUploadedFile("heures.txt", TEXTS["fr"].encode())
    [added] = program.post("/api/v1/documents", {"file": file, "title": "Heures"}).json()["documents"]
    assert added["warnings"] == [DETECTED]
    shown = Client().get(f"/api/v1/documents/{added['id']}").json()
    assert (shown["language"], shown["warnings"]) == ("fr", [DETECTED])

    path, out = tmp_path / "stunden.txt", StringIO()
    path.write_text(TEXTS["de"])
    call_command("documents", "add", str(path), "--id", "stunden", stdout=out)
    [_, _, said] = out.getvalue().splitlines()
    assert said == f"  {DETECTED.replace('French', 'German')}"


def test_a_language_that_a_file_states_is_believed(deployed: Deployment) -> None:
    paragraphs = "".join(f"<p>{number}. {TEXTS['fr']}</p>" for number in range(5))
    page = f"<html lang='en'><head><title>Hours</title></head><body><h1>Hours</h1>{paragraphs}</body></html>".encode()
    service.add([DocumentInput(File(page, "hours.html", "text/html"), "hours")], by=None)
    document = Document.objects.get()
    assert (document.language, document.warnings) == ("en", [CONTRADICTED])


def test_a_language_that_is_corrected(deployed: Deployment, program: TokenClient) -> None:
    _added(TEXTS["fr"])
    address = "/api/v1/documents/hours"
    kept = program.patch(address, {"licence": "CC0"}, content_type="application/json").json()["documents"][0]
    assert kept["warnings"] == [DETECTED]
    for language, said in (("es", f"Its language is Spanish: {ALONE}"), ("en", CONTRADICTED), ("fr", STATED)):
        changed = program.patch(address, {"language": language}, content_type="application/json").json()["documents"][0]
        assert changed["warnings"] == [said]


def test_a_change_to_a_text_in_another_language_is_told_before(
    answering: Deployment, staff: Person, program: TokenClient
) -> None:
    assert _added(TEXTS["en"]).warnings == []
    preview = previewing.of_change("hours", DocumentInput(Text(TEXTS["fr"]), title="Hours"))
    assert preview.warnings == (CONTRADICTED,)
    told = post(program, "documents/hours/touched", {"title": "Hours", "text": TEXTS["fr"]}).json()
    assert told["warnings"] == [CONTRADICTED]
    form = {"title": "Hours", "text": TEXTS["fr"], "licence": "CC0", "language": ""}
    page = staff.client.post(f"/manage/documents/document/change/?id={quote('hours')}", form).content.decode()
    assert DETECTED in page and "Nothing has been changed yet." in page


@pytest.mark.parametrize(
    ("language", "code", "name"),
    [("fr", "fr", "French"), ("fr-CA", "fr", "French"), ("en", None, ""), ("en-GB", None, "")],
)
def test_an_answer_that_was_read_from_another_language(
    answering: Deployment, client: Client, language: str, code: str | None, name: str
) -> None:
    film, director = ODYSSEY[0], ODYSSEY[1]
    given = [
        DocumentInput(Text(film.text), "film", film.title, language=language),
        DocumentInput(Text(director.text), "director", director.title, language="en"),
    ]
    service.add(given, by=None)
    asked = stored.store()
    told = f"The passage that this was read from is in {name}. The model was trained on English alone"
    page = client.get(f"/answers/{asked.pk}/").content.decode()
    assert (told in page) == ("The passage that this was read from is in" in page) == bool(name)
    address = f"/api/v1/answers/{asked.pk}"
    assert client.get(address).json()["passage_language"] == code
    assert client.get(f"{address}?without={film.block_id}").json()["passage_language"] is None
    without = client.get(f"/answers/{asked.pk}/?without={film.block_id}").content.decode()
    assert "The passage that this was read from" not in without
    service.remove(["film"], by=None)
    assert "The passage that this was read from" not in client.get(f"/answers/{asked.pk}/").content.decode()
    assert client.get(address).json()["passage_language"] is None


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("fr", "This question and the passage that its answer was read from are in French."),
        ("de", "and the passage that this was read from is in German, so the answer may well be wrong."),
        (
            "en",
            "This question seems to be in French. The model was trained on English alone",
        ),
    ],
)
def test_a_question_in_another_language_and_its_passage(
    answering: Deployment, client: Client, language: str, said: str
) -> None:
    film = ODYSSEY[0]
    service.add([DocumentInput(Text(film.text), "film", film.title, language=language)], by=None)
    asked = stored.store(stored.payload(question="Qui était le réalisateur du film ?"))
    page = " ".join(client.get(f"/answers/{asked.pk}/").content.decode().split())
    assert said in page and page.count("trained on English alone") == 1


def test_who_asks_over_rest_is_told_of_a_passage_in_another_language(answering: Deployment, client: Client) -> None:
    _added(TEXTS["fr"])
    told = post(client, "ask", {"question": "When does it open?", "filters": {"languages": ["fr"]}}).json()
    assert told["answer"] is not None and told["passage_language"] == "fr"


def test_an_answer_in_a_corpus_that_cannot_be_read_has_its_page(client: Client, db: None) -> None:
    assert client.get(f"/answers/{stored.store().pk}/").status_code == 200
