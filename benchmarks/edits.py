"""Edit a document while people ask: how soon do answers have it, does a question fail, is one answered from a mixture?

python -m benchmarks.edits [--blocks N] [--rounds N] [--askers N] [--thinks S] [--output FILE]

A real web server over a database of its own. In each round one document is added, changed and removed over REST. None
of its passages is known from the round before, so all are embedded. After each edit its question is asked until an
answer has read the document as it is now: the time from the start of the edit's request to that answer is what a person
waits. Meanwhile others ask, half of them about the document. Every answer names its state of the corpus, and all
answers of a state must have read the same edition.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.askers import Askers, operate
from benchmarks.inputs import Inputs, add_folders, prepare, with_status
from benchmarks.machine import describe, now
from benchmarks.web import database, on_cpu, operator_token, request, server
from realm_core.errors import RealmError
from realm_core.files import write_json

RESULTS = Path(__file__).resolve().parent / "results" / "edits.json"

_TITLE: Final = "Varnholt Light"
_QUESTION: Final = "Who keeps Varnholt Light?"
_EDITION: Final = re.compile(r"Edition (\w+) has this")
_QUESTIONS = 60  # others
_PATIENCE_S = 60.0
_NOWHERE: Final = "none"


@with_status
def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.edits", description=__doc__)
    add_folders(parser)
    parser.add_argument(
        "--blocks",
        type=int,
        default=112,
        help="of the corpus, packed into about half as many passages of the document (default: 112)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="each an addition, a change, a removal (default: 5)")
    parser.add_argument("--askers", type=int, default=4, help="threads that ask meanwhile (default: 4)")
    parser.add_argument("--thinks", type=float, default=1.0, help="mean seconds before each asks again (default: 1)")
    parser.add_argument("--threads", type=int, default=2, help="of the web process (default: 2)")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"JSON file (default: results/{RESULTS.name})")
    arguments = parser.parse_args(argv)
    figures = _measure(prepare(arguments.model, arguments.corpus, arguments.index), arguments)
    write_json(arguments.output, {"machine": describe(), "at": now(), **figures})
    print(f"Written to {arguments.output}.")


def _measure(inputs: Inputs, arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as data:
        environment = database(Path(data), inputs.folders, **on_cpu(arguments.threads))
        token = operator_token(environment)
        questions = [word for one in inputs.first_questions(_QUESTIONS) for word in (one, _QUESTION)]
        seen: defaultdict[str, set[str]] = defaultdict(set)
        with server(environment, Path(data) / "web.log") as (_, port):
            ask = _Asker(port, seen)
            with Askers(ask, questions, arguments.askers, thinks_s=arguments.thinks) as askers:
                time.sleep(5)  # what is made on first use
                began = time.perf_counter()
                edits = [
                    edit for number in range(arguments.rounds) for edit in _round(inputs, arguments, number, ask, token)
                ]
                asked = askers.since(began)
    mixed = sum(len(editions) > 1 for editions in seen.values())
    failed = sum(one.status != 201 for one in asked)
    print(
        f"{len(asked)} questions meanwhile, {failed} failed; {len(seen)} states of the corpus, {mixed} answered mixed."
    )
    return {
        "model": inputs.model.name,
        "askers": arguments.askers,
        "thinks_s": arguments.thinks,
        "edits": edits,
        "questions": len(asked),
        "failed": failed,
        "states": len(seen),
        "mixed": mixed,
    }


class _Asker:
    """Asks a question. seen: the editions of the document that answers have read, by the state that they name."""

    def __init__(self, port: int, seen: defaultdict[str, set[str]]) -> None:
        self.port = port
        self._seen = seen

    def __call__(self, question: str) -> tuple[int, str]:
        """The status, and which edition of the document the answer has read."""
        status, _, body = request(self.port, "POST", "/api/v1/ask", {"question": question})
        if status != 201:
            return status, ""
        answer = json.loads(body)
        own = (block["text"] for block in answer["evidence"] if block["title"] == _TITLE)
        editions = {edition for text in own for edition in _EDITION.findall(text)} or {_NOWHERE}
        if question == _QUESTION:  # reads the document wherever there is one
            self._seen[answer["corpus"]] |= editions
        return status, " ".join(sorted(editions))


def _round(inputs: Inputs, arguments: argparse.Namespace, number: int, ask: _Asker, token: str) -> list[dict[str, Any]]:
    steps = (("add", f"{number}a"), ("change", f"{number}b"), ("remove", _NOWHERE))
    document_id, blocks = "", 0
    done: list[dict[str, Any]] = []
    for name, edition in steps:
        body = None if name == "remove" else _document(inputs, arguments.blocks, edition)
        method = {"add": "POST", "change": "PUT", "remove": "DELETE"}[name]
        address = f"/{document_id}" if document_id else ""
        start = time.perf_counter()
        told = operate(ask.port, token, f"documents{address}", body, method)
        answered = time.perf_counter()
        while ask(_QUESTION)[1] != edition:
            if time.perf_counter() - start > _PATIENCE_S:
                raise RealmError(f"No answer has read the edition {edition} within {_PATIENCE_S:.0f} seconds.")
        if "documents" in told:
            document_id, blocks = told["documents"][0]["id"], told["documents"][0]["blocks"]
        figures = {"edit_s": answered - start, "until_answer_s": time.perf_counter() - start}
        done.append({"edit": name, "blocks": blocks, **figures, "timings_ms": told.get("timings_ms")})
        print(f"{name:<7}{blocks:>4} blocks  {figures['edit_s']:.2f} s, answered {figures['until_answer_s']:.2f} s")
    return done


def _document(inputs: Inputs, blocks: int, edition: str) -> dict[str, str]:
    """Passages of the corpus, of which each begins with the edition, so that none is known."""
    texts = [f"Edition {edition} has this. {text}" for text in inputs.blocks(blocks)[1]]
    keeper = f"Edition {edition} has this. {_TITLE} is kept by Keeper {edition}."
    return {"title": _TITLE, "text": "\n\n".join([keeper, *texts]), "licence": "CC BY-SA 4.0"}


if __name__ == "__main__":
    sys.exit(main())
