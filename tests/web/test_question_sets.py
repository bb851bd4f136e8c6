"""Question sets: read whole, kept unchanged, never both learnt from and measured by; and made of feedback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.urls import reverse

from realm_core.errors import RealmError
from tests.web.conftest import Person
from tests.web.operating import TokenClient, post, problem
from tests.web.pages import stored
from webapp.models import AskedAnswer, AuditEntry, Collection, EvidenceBlock, Feedback, Purpose, QuestionSet, Review
from webapp.questions import service as questions
from webapp.questions import views
from webapp.storage.places import questions_dir, resolve

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql_first]


@pytest.fixture(autouse=True)
def own_data(settings: Any, tmp_path: Path) -> None:
    settings.REALM_DATA = tmp_path / "data"


def lines(*asked: str, **values: Any) -> bytes:
    rows = [{"question": question, "answers": ["Nile"], **values} for question in asked]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_a_set_is_kept_whole_and_found_again(staff: Person) -> None:
    content = lines("Which river?", "Which other river?")
    made = questions.record(content, "rivers", Purpose.LEARN, origin="CC0", by=staff.user)
    assert (made.questions, made.created_by, made.origin) == (2, staff.user, "CC0")
    assert made.path == "questions/rivers.jsonl" and resolve(made.path).read_bytes() == content
    assert questions.record(content, "rivers", Purpose.LEARN) == made
    assert AuditEntry.objects.get().action == "questions.add"
    resolve(made.path).unlink()
    questions.record(content, "rivers", Purpose.LEARN)
    assert resolve(made.path).read_bytes() == content
    with pytest.raises(RealmError, match="There is a question set rivers"):
        questions.record(lines("Another?"), "rivers", Purpose.LEARN)
    with pytest.raises(RealmError, match="There is a question set rivers"):
        questions.record(content, "rivers", Purpose.MEASURE)
    assert resolve(made.path).read_bytes() == content


def test_questions_without_an_answer_are_for_measuring_alone(staff: Person) -> None:
    content = lines("Which river?") + lines("How old is my sister?", answers=[])
    with pytest.raises(RealmError, match=r"^mixed\.jsonl, line 2: `answers` must be .* and not empty: only"):
        questions.record(content, "mixed", Purpose.LEARN)
    made = questions.record(content, "mixed", Purpose.MEASURE)
    page = staff.client.get(f"/manage/questions/{made.pk}/").content.decode()
    assert "How old is my sister?" in page and "no answer exists" in page
    with pytest.raises(RealmError, match="is in mixed"):
        questions.record(lines("How old is my sister?"), "learnt", Purpose.LEARN)
    assert questions.measured_titles() == []


TABLE = "Question;Answer;;title;id\r\nWhich river?;Nile;the Nile;Nile;7\r\n\r\n“Où”, and when?; Oulu ;;;\r\n"


@pytest.mark.parametrize(("file_name", "content"), [("t.csv", TABLE), ("t.TSV", TABLE.replace(";", "\t"))])
def test_a_table_becomes_a_set(staff: Person, file_name: str, content: str) -> None:
    file = SimpleUploadedFile(file_name, b"\xef\xbb\xbf" + content.encode())
    page = staff.client.post(reverse("manage-questions"), {"file": file, "purpose": "learn"}, follow=True)
    made = QuestionSet.objects.get()
    assert "t was recorded: 2 questions." in page.content.decode() and made.name == "t"
    assert [json.loads(line) for line in resolve(made.path).read_text().splitlines()] == [
        {"question": "Which river?", "answers": ["Nile", "the Nile"], "title": "Nile"},
        {"question": "“Où”, and when?", "answers": ["Oulu"]},
    ]


@pytest.mark.parametrize(
    ("file_name", "name"),
    [
        ("our questions.csv", "our-questions"),
        ("Fragen für März (2).csv", "Fragen-fur-Marz-2"),
        ("..hidden.csv", "hidden"),
        ("問題.csv", "questions"),
    ],
)
def test_a_set_is_called_as_its_file_whatever_that_is_called(staff: Person, file_name: str, name: str) -> None:
    """A refused upload has to be chosen again."""
    file = SimpleUploadedFile(file_name, TABLE.encode())
    page = staff.client.post(reverse("manage-questions"), {"file": file, "purpose": "learn"}, follow=True)
    assert f"{name} was recorded: 2 questions." in page.content.decode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("Which river?,Nile", "t.csv, line 1: it must name the columns: question, answer"),
        ("question,answer\nWhich?,Nile\n,Nile", "t.csv, line 3: `question` must be a non-empty text"),
        ("question,answer\nWhich?,", "t.csv, line 2: the column answer is empty: only files to measure by"),
        (
            "question,answer\nWhich?,Svea|the Svea",
            "“Svea|the Svea” is in one cell; give each answer in a column of its own",
        ),
        ('question,answer\n"Which?,Nile', "t.csv, line 2: unexpected end of data"),
        ("question,answer\nWhich?,\udcff", "t.csv is not UTF-8: save it as"),
        ("question,answer\n", "t.jsonl contains no questions"),
    ],
)
def test_what_is_no_table_of_questions_is_refused(staff: Person, content: str, says: str) -> None:
    file = SimpleUploadedFile("t.csv", content.encode(errors="surrogateescape"))
    response = staff.client.post(reverse("manage-questions"), {"file": file, "purpose": "learn"})
    assert response.status_code == 422 and says in response.content.decode() and not QuestionSet.objects.exists()
    assert "each further right answer in another column called answer" in response.content.decode()


def test_questions_can_be_typed(staff: Person) -> None:
    def typed(text: str, purpose: str = "learn", **more: Any) -> str:
        form = {"typed": text, "purpose": purpose, "name": "", **more}
        return staff.client.post(reverse("manage-questions"), form, follow=True).content.decode()

    page = typed(
        "Question;Answer\r\nWhich river?; Nile;the Nile\r\n\r\n Which hill, if any?\tCalton Hill\t \r\n", name="ours"
    )
    made = QuestionSet.objects.get()
    assert "ours was recorded: 2 questions." in page
    assert [json.loads(line) for line in resolve(made.path).read_text().splitlines()] == [
        {"question": "Which river?", "answers": ["Nile", "the Nile"]},
        {"question": "Which hill, if any?", "answers": ["Calton Hill"]},
    ]
    assert "Line 2 has no answer: only sets to measure by" in (page := typed("Who?; I\nHow old is my sister?"))
    assert "How old is my sister?</textarea>" in page  # nothing is lost
    assert "typed-20" in typed("How old is my sister?", "measure") and QuestionSet.objects.count() == 2
    assert "Choose a file, or type." in typed("")
    file = SimpleUploadedFile("t.csv", TABLE.encode())
    assert "not both" in typed("Who?; I", file=file) and QuestionSet.objects.count() == 2


def test_a_table_to_measure_by_has_questions_without_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "mixed.csv"
    path.write_text("question,answer\nWhich river?,Nile\nHow old is my sister?,\n")
    made = questions.record_file(path, Purpose.MEASURE)
    assert made.questions == 2 and '"answers": []' in resolve(made.path).read_text()


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        (lines("One?") + b'{"question": "Two?"}\n', "bad", r"^bad\.jsonl, line 2: `answers` must be"),
        (b"\xff\xfe", "bad", r"^bad\.jsonl is not UTF-8"),
        (b"", "empty", r"^empty\.jsonl contains no questions"),
        (lines("One?"), "../escaped", "cannot be a question set's name"),
        (lines("One?"), ".hidden", "cannot be a question set's name"),
        (lines("One?"), "", "cannot be a question set's name"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_kept(content: bytes, name: str, says: str) -> None:
    with pytest.raises(RealmError, match=says):
        questions.record(content, name, Purpose.LEARN)
    assert not QuestionSet.objects.exists()
    assert not questions_dir().exists() or not list(questions_dir().iterdir())


@pytest.mark.parametrize("first", list(Purpose))
def test_no_question_is_learnt_from_and_measured_by(first: Purpose) -> None:
    other = Purpose.MEASURE if first == Purpose.LEARN else Purpose.LEARN
    questions.record(lines("Which is the longest river?"), "first", first)
    with pytest.raises(RealmError, match=r"“which is a longest RIVER” is in first \(1 question, "):
        questions.record(lines("Who?", "which is a longest RIVER"), "second", other)
    assert questions.record(lines("which is a longest RIVER"), "third", first)


def test_all_questions_of_the_other_purpose_are_counted() -> None:
    questions.record(lines("Which river?", "Which town?"), "measured", Purpose.MEASURE)
    says = (
        r"^“Which town\?” and 1 more of its 3 questions are in measured \(2 questions, to measure by\) or another one"
    )
    with pytest.raises(RealmError, match=says):
        questions.record(lines("Which town?", "Which hill?", "Which river?"), "learnt", Purpose.LEARN)


def test_what_is_measured_by_is_left_out_on_the_page_and_over_rest(staff: Person, program: TokenClient) -> None:
    questions.record(lines("Which river?"), "measured", Purpose.MEASURE)

    def sent(name: str, **more: str) -> dict[str, Any]:
        file = SimpleUploadedFile(f"{name}.jsonl", lines("Which river?", "Which hill?"))
        return {"file": file, "purpose": "learn", **more}

    refused = staff.client.post(reverse("manage-questions"), sent("page"))
    assert refused.status_code == 422 and "unless these are left out" in refused.content.decode()
    page = staff.client.post(reverse("manage-questions"), sent("page", leave_out_measured="on"), follow=True)
    assert "Left out, because models are measured by them: 1." in page.content.decode()
    problem(program.post("/api/v1/question-sets", sent("rest")), 422)
    assert program.post("/api/v1/question-sets", sent("rest", leave_out_measured="true")).json()["questions"] == 1
    assert {one.name: one.questions for one in QuestionSet.objects.all()} == {"measured": 1, "page": 1, "rest": 1}


def test_what_is_measured_by_can_be_left_out() -> None:
    questions.record(lines("Which river?"), "measured", Purpose.MEASURE)
    content = lines("Which town?") + b"\n" + lines("which RIVER", "Which hill?")
    made = questions.record(content, "learnt", Purpose.LEARN, leave_out_measured=True)
    assert resolve(made.path).read_bytes() == lines("Which town?", "Which hill?") and made.questions == 2
    assert questions.record(content, "learnt", Purpose.LEARN, leave_out_measured=True) == made
    with pytest.raises(RealmError, match="Every question of more is in a set to measure by"):
        questions.record(lines("Which river?"), "more", Purpose.LEARN, leave_out_measured=True)


def test_titles_that_are_measured() -> None:
    questions.record(lines("One?", title="Nile") + lines("Two?"), "measured", Purpose.MEASURE)
    questions.record(lines("Three?", title="Mars"), "learnt", Purpose.LEARN)
    assert questions.measured_titles() == ["Nile"]


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "towns.jsonl"
    path.write_bytes(lines("Which town?"))
    call_command("register_questions", path, "--purpose", "measure", "--origin", "CC0")
    assert "Recorded: towns (1 question" in capsys.readouterr().out
    assert QuestionSet.objects.get().purpose == Purpose.MEASURE
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("register_questions", tmp_path / "nothing.jsonl", "--purpose", "learn")


# ── What people said of answers ─────────────────────────────────────────────────────────────────────────────────────


def said(question: str = "Who directed 2001: A Space Odyssey?", **values: Any) -> AskedAnswer:
    asked = stored.store(stored.payload(question=question))
    Feedback.objects.create(answer=asked, session_key=str(asked.pk), **{"review": Review.ACCEPTED, **values})
    return asked


def test_right_and_better_answers_become_questions() -> None:
    first = said(right=True)
    second = said("Who wrote it?", right=False, better_answer="Arthur C. Clarke")
    said("Who else?", right=False)
    third = said("Which is said to be so?", right=None, better_answer="Neither", block_id=stored.ODYSSEY[1].block_id)
    said("Which block says so?", block_id=stored.ODYSSEY[1].block_id)
    rows = {row["question"]: row for row in questions.feedback_questions(hidden=())}
    best = stored.ODYSSEY[0]
    assert rows == {
        "Who directed 2001: A Space Odyssey?": {
            "question": "Who directed 2001: A Space Odyssey?",
            "answers": ["Stanley Kubrick"],
            "answer_ids": [str(first.pk)],
            "block_ids": [],
            "title": best.title,
            "context": best.text,
        },
        "Who wrote it?": {
            "question": "Who wrote it?",
            "answers": ["Arthur C. Clarke"],
            "answer_ids": [str(second.pk)],
            "block_ids": [],
            "title": best.title,
            "context": best.text,
        },
        "Which is said to be so?": {
            "question": "Which is said to be so?",
            "answers": ["Neither"],
            "answer_ids": [str(third.pk)],
            "block_ids": [stored.ODYSSEY[1].block_id],
        },
    }
    recorded = questions.record_feedback("feedback-1", by=None)
    assert (recorded.made.purpose, recorded.made.questions, recorded.left_out) == (Purpose.LEARN, 3, 0)


def test_the_block_that_was_pointed_at_is_the_context() -> None:
    other = stored.ODYSSEY[2]
    said("What was he, too?", right=False, better_answer="Futurist", block_id=other.block_id)
    (row,) = questions.feedback_questions(hidden=())
    assert (row["context"], row["block_ids"]) == (other.text, [other.block_id])


def test_several_people_on_one_question() -> None:
    asked = [said(right=True), said(right=True), said(right=False, better_answer="Kubrick")]
    (row,) = questions.feedback_questions(hidden=())
    assert sorted(row["answers"]) == ["Kubrick", "Stanley Kubrick"]
    assert row["answer_ids"] == [str(one.pk) for one in reversed(asked)]  # the newest word first


def test_what_is_measured_by_is_not_taken_from_feedback(staff: Person, client: Any) -> None:
    questions.record(lines("Who directed 2001: A Space Odyssey?"), "measured", Purpose.MEASURE)
    said(right=True)
    assert questions.feedback_questions(hidden=()) == []
    with pytest.raises(RealmError, match="accepted yet, besides 1 on questions that models are measured by"):
        questions.record_feedback("feedback-1", by=None)
    said("Who wrote it?", right=False, better_answer="Arthur C. Clarke")
    client.force_login(staff.user)
    page = client.post(reverse("manage-questions-from-feedback"), {"name": "feedback-1"}, follow=True).content.decode()
    assert "Left out, because models are measured by their questions: 1." in page and "1 question." in page


def test_what_was_answered_from_a_private_collection_is_in_no_set(staff: Person, client: Any) -> None:
    """Not even in one that an admin makes, because every curator sees it."""
    Collection.objects.create(name="board", private=True)
    EvidenceBlock.objects.filter(answer=said("Which word opens it?", right=True)).update(collection="board")
    with pytest.raises(RealmError, match="besides 1 on answers from private collections"):
        questions.record_feedback("feedback-1", by=staff.user)
    said("Who wrote it?", right=False, better_answer="Arthur C. Clarke")
    client.force_login(staff.user)
    page = client.post(reverse("manage-questions-from-feedback"), {"name": "feedback-1"}, follow=True).content.decode()
    assert "from private collections: 1." in page and "Which word opens it?" not in page
    made = QuestionSet.objects.get()
    assert made.questions == 1 and b"Which word" not in resolve(made.path).read_bytes()


def test_a_file_that_is_too_large_is_refused_with_what_to_do_instead(
    curator: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views._FILE, "largest_bytes", 10)
    sent = {"file": SimpleUploadedFile("rivers.jsonl", lines("Which river?")), "purpose": Purpose.LEARN}
    response = curator.client.post(reverse("manage-questions"), sent)
    assert response.status_code == 422 and not QuestionSet.objects.exists()
    assert "manage.py register_questions" in response.content.decode()
    monkeypatch.undo()
    sent = {"file": SimpleUploadedFile("rivers.jsonl", lines("Which river?")), "purpose": Purpose.LEARN}
    assert curator.client.post(reverse("manage-questions"), sent, follow=True).status_code == 200
    assert QuestionSet.objects.get().name == "rivers"


def test_a_set_is_added_over_rest(staff: Person, program: TokenClient) -> None:

    def add(file_name: str, content: bytes, **more: str) -> Any:
        return program.post("/api/v1/question-sets", {"file": SimpleUploadedFile(file_name, content), **more})

    response = add("rivers.jsonl", lines("Which river?"), purpose="measure", origin="CC0")
    made = QuestionSet.objects.get()
    assert response.status_code == 201 and response["Location"].endswith(f"/api/v1/question-sets/{made.pk}")
    assert response.json() == program.get(response["Location"]).json()
    assert (made.name, made.purpose, made.origin, made.created_by) == ("rivers", "measure", "CC0", staff.user)
    again = add("r.jsonl", lines("Which river?"), purpose="measure", name="rivers")
    assert (again.status_code, again.json()["id"]) == (200, made.pk)
    table = add("table.csv", TABLE.encode(), purpose="measure")
    assert (table.status_code, table.json()["questions"]) == (201, 2)

    assert "to measure by), too" in problem(add("l.jsonl", lines("Which river?"), purpose="learn"), 422)["detail"]
    assert "line 1" in problem(add("l.jsonl", b"no JSON", purpose="learn"), 422)["detail"]
    assert problem(add("l.jsonl", lines("Other?"), purpose="play"), 400)["errors"][0]["field"] == "purpose"
    assert problem(program.post("/api/v1/question-sets", {"purpose": "learn"}), 400)["errors"][0]["field"] == "file"
    problem(post(program, "question-sets", {"purpose": "learn"}), 415)
    large = add("large.jsonl", lines("Another river?", title="x" * (2 << 20)), purpose="learn")  # than other bodies
    assert large.status_code == 201
