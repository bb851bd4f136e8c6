"""Converts published question sets to question files: `python -m realm_core questions --format squad FILE --output …`

own     question files, from which some questions are to be left out
nq      NQ-open and EfficientQA: JSON lines of {"question", "answer": [text, …]}
webq    WebQuestions: a JSON list of {"utterance", "targetValue": "(list (description text) …)"}
trec    CuratedTREC: JSON lines as nq, or number ⇥ kind ⇥ question ⇥ expression; answers are regular expressions
trivia  TriviaQA: {"Data": [{"Question", "Answer": {"Value", "Aliases"}}]}
squad   SQuAD 1.1 and 2.0: articles of paragraphs; questions without an answer are left out
dpr     question ⇥ Python list of answers, the format of DPR and other retrieval benchmarks; or DPR's training sets, a
        JSON list of {"question", "answers", "positive_ctxs", …}, whose passages are not read
tsv     question ⇥ answer ⇥ other answers that are right, too
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from realm_core.files import parse_json, refuse_existing, replaced
from realm_core.questions.answers import normalise_answer
from realm_core.questions.question_file import checked_question, read_questions
from realm_core.questions.tasks import Questions
from realm_core.runs.activity import Activity

Row = dict[str, Any]
_LIST_OF_OBJECTS = re.compile(r"\s*\[\s*\{")
# One value of a WebQuestions list: in quotes, with \" inside, or a word without spaces.
_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^\s()"]+))\)')


def main(task: Questions, activity: Activity) -> None:
    """Read, check, leave out, write."""
    refuse_existing(task.output)
    without = [question for path in task.without for question in read_questions(path, answerable=None)]
    kept_out = {normalise_answer(question.question) for question in without}
    rows = [row for path in task.files for row in read_published(path, task.format)]
    wanted = [row for row in rows if normalise_answer(row["question"]) not in kept_out]
    if not wanted:
        raise RealmError(f"No questions are left of {len(rows):,}.")
    with replaced(task.output) as temporary:
        temporary.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in wanted), encoding="utf-8")
    left_out = f"; {len(rows) - len(wanted):,} left out" if task.without else ""
    activity.say(f"{task.output}: {len(wanted):,} questions{left_out}.")
    activity.result({"path": str(task.output), "questions": len(wanted), "left_out": len(rows) - len(wanted)})


def read_published(path: Path, format: str) -> Iterator[Row]:
    """The questions of a published file as rows of a question file; RealmError, with file and place, for bad input."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RealmError(f"{path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise RealmError(f"{path} is not UTF-8: {error}.") from None
    except MemoryError:
        raise RealmError(f"{path} does not fit into memory.") from None
    for place, row in FORMATS[format](text, str(path)):
        checked_question(row, place)
        yield row


def _lines(text: str, path: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.split("\n"), start=1):  # not splitlines: JSON strings may contain U+2028
        if line.strip():
            yield f"{path}, line {number}", line


def _own(text: str, path: str) -> Iterator[tuple[str, Row]]:
    for place, line in _lines(text, path):
        yield place, parse_json(line, place)


def _nq(text: str, path: str) -> Iterator[tuple[str, Row]]:
    for place, line in _lines(text, path):
        row = parse_json(line, place)
        with _at(place):
            question = {"question": row["question"], "answers": row["answer"]}
        yield place, question


def _trec(text: str, path: str) -> Iterator[tuple[str, Row]]:
    if text.lstrip().startswith("{"):
        for place, row in _nq(text, path):
            yield place, {**row, "answer_type": "regex"}
        return
    for place, line in _lines(text, path):
        fields = line.split("\t")
        if len(fields) < 4:
            raise RealmError(f"{place}: four columns are expected: number, kind, question and expression.")
        yield place, {"question": fields[2], "answers": [fields[3].strip()], "answer_type": "regex"}


def _webq(text: str, path: str) -> Iterator[tuple[str, Row]]:
    for number, one in enumerate(_list(parse_json(text, path), path), start=1):
        place = f"{path}, question {number}"
        with _at(place):
            found = _DESCRIPTION.findall(one["targetValue"])
            question = one["utterance"]
        answers = [re.sub(r"\\(.)", r"\1", quoted) if quoted else bare for quoted, bare in found]
        yield place, {"question": question, "answers": answers}


def _trivia(text: str, path: str) -> Iterator[tuple[str, Row]]:
    whole = parse_json(text, path)
    with _at(path):
        data = whole["Data"]
    for number, one in enumerate(_list(data, path), start=1):
        place = f"{path}, question {number}"
        with _at(place):
            answer = one["Answer"]
            row = {"question": one["Question"], "answers": _once([answer["Value"], *answer.get("Aliases", [])])}
        yield place, row


def _squad(text: str, path: str) -> Iterator[tuple[str, Row]]:
    whole = parse_json(text, path)
    with _at(path):
        articles = whole["data"]
    for number, article in enumerate(_list(articles, path), start=1):
        place = f"{path}, article {number}"
        with _at(place):
            title = article["title"].replace("_", " ")
            paragraphs = article["paragraphs"]
        for paragraph in _list(paragraphs, place):
            with _at(place):
                context, asked = paragraph["context"], paragraph["qas"]
            for one in _list(asked, place):
                with _at(place):
                    answers = _once([answer["text"] for answer in one["answers"]])
                    row = {"question": one["question"], "answers": answers, "title": title, "context": context}
                if answers:  # SQuAD 2.0 also has questions that its paragraph does not answer
                    yield place, row


def _dpr(text: str, path: str) -> Iterator[tuple[str, Row]]:
    if _LIST_OF_OBJECTS.match(text):
        for number, one in enumerate(_list(parse_json(text, path), path), start=1):
            place = f"{path}, question {number}"
            with _at(place):
                row = {"question": one["question"], "answers": _once(one["answers"])}
            yield place, row
        return
    for place, line in _lines(text, path):
        question, tab, answers = line.rstrip("\r").partition("\t")
        try:
            listed = ast.literal_eval(answers.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            listed = None
        if not tab or not isinstance(listed, list):
            raise RealmError(f"{place}: two columns are expected: a question and a list of answers.")
        yield place, {"question": question, "answers": listed}


def _tsv(text: str, path: str) -> Iterator[tuple[str, Row]]:
    for place, line in _lines(text, path):
        question, *answers = (cell.strip() for cell in line.split("\t"))
        listed = _once(list(filter(None, answers)))
        if not listed:
            raise RealmError(f"{place}: a question and its answers are expected, with tabs between.")
        yield place, {"question": question, "answers": listed}


FORMATS: dict[str, Callable[[str, str], Iterator[tuple[str, Row]]]] = {
    "own": _own,
    "nq": _nq,
    "webq": _webq,
    "trec": _trec,
    "trivia": _trivia,
    "squad": _squad,
    "dpr": _dpr,
    "tsv": _tsv,
}


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Turn errors of a missing key or a wrong type into a RealmError that begins with `place`."""
    try:
        yield
    except KeyError as error:
        raise RealmError(f"{place}: there is no {error}; is the file in another format?") from None
    except (TypeError, AttributeError):
        raise RealmError(f"{place}: a value has an unexpected type; is the file in another format?") from None


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise RealmError(f"{place}: a list is expected, not {type(value).__name__}.")
    return value


def _once(texts: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(texts))
