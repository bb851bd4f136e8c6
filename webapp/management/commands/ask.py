"""`manage.py ask "…"`: ask one question on the command line; the answer is stored as any other."""

from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from webapp.access.collections import access_of
from webapp.asking import service as asking
from webapp.asking.conditions import counted_conditions
from webapp.asking.kept_api import answer_json
from webapp.asking.offering import offered
from webapp.management.operator import OperatorCommand
from webapp.models import AskedAnswer
from webapp.serving.engine import holder
from webapp.text import counted

_AROUND = 100  # characters of the passage before and after the answer


class Command(OperatorCommand):
    """Ask a question of the deployed model and print the answer with its evidence."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("question")
        parser.add_argument("--k", type=int, help="how many blocks to read (default: as many as the model is set to)")
        parser.add_argument(
            "--collection", action="append", default=[], help="look in this one only; may be given several times"
        )
        for name in ("language", "tag", "title"):
            parser.add_argument(
                f"--{name}", action="append", default=[], help=f"of documents with this {name}; several: any will do"
            )
        parser.add_argument("--since", default="", help="of documents from this day on, such as 2026-01-31")
        parser.add_argument("--until", default="", help="of documents up to this day")
        parser.add_argument("--as-typed", action="store_true", help="do not correct its spelling")
        parser.add_argument("--json", action="store_true", help="print the object of the REST API")

    def handle(self, *_args: Any, question: str, k: int | None, **options: Any) -> None:
        filters = {
            "languages": options["language"],
            "tags": options["tag"],
            "titles": options["title"],
            "since": options["since"],
            "until": options["until"],
        }
        try:
            everything = access_of(None)
            asking.checked(question, k, filters=filters, access=everything)  # before seconds are spent on loading
            holder().refresh(wait=True)
            where = {"collections": options["collection"], "filters": filters}
            wanted = asking.checked(question, k, **where, as_typed=options["as_typed"], access=everything)
            asked = asking.ask(wanted, asker=None)
            offer = offered(None, asked.collections)
        finally:
            holder().close()
        if options["json"]:
            self.stdout.write(json.dumps(answer_json(asked), ensure_ascii=False, indent=2))
        else:
            self._print(asked, [] if offer is None else [one.value for one in offer.alone])

    def _print(self, asked: AskedAnswer, alone: Sequence[str]) -> None:
        payload = asked.reading
        if payload["read_as"]:
            self.stdout.write(f"Read as: {payload['read_as']}")
        if payload["answer"]:
            self.stdout.write(f"{payload['answer']['text']}   (confidence {payload['confidence']:.3f})")
        else:
            why = "in the blocks read" if payload["evidence"] else "because no block passes"
            self.stdout.write(f"No answer was found {why}.")
            if alone:
                self.stdout.write(
                    f"A small collection may have one by itself: --collection {' or '.join(map(shlex.quote, alone))}"
                )
        if not payload["evidence"]:
            for one in counted_conditions(asked, access_of(None)):
                fits = "no document" if one.excludes_all else counted(one.documents or 0, "document")
                self.stdout.write(f"{one.name} {', '.join(one.values)}: fits {fits}")
        for block in payload["evidence"]:
            section = f", {block['section']}" if block["section"] else ""
            self.stdout.write(f"\n{block['rank']}. {block['title']}{section}   {block['url']}")
            self.stdout.write(
                f"   prior {block['prior']:.3f}   likelihood {block['likelihood']:.3f}   "
                f"posterior {block['posterior']:.3f}   support {block['support']:+.3f}"
            )
            self.stdout.write(f"   {_excerpt(block)}")
        computed = [f"{a['text']} {a['probability']:.3f}" for a in payload["answers"][:5]]
        if payload["no_answer_probability"] is not None:
            computed.append(f"no answer {payload['no_answer_probability']:.3f}")
        if computed:
            self.stdout.write(f"\np(y | x), the sum over the blocks: {', '.join(computed)}")
        self.stdout.write(
            f"\n{payload['model']} · {payload['index']} · {payload['corpus']} · {payload['latency_ms']:.0f} ms"
        )


def _excerpt(block: dict[str, Any]) -> str:
    """The passage around the answer, the answer in [brackets]; without an answer, the beginning."""
    text: str = block["text"]
    start, end = block["start"], block["end"]
    if start is None:
        return text[: 2 * _AROUND].replace("\n", " ") + ("…" if len(text) > 2 * _AROUND else "")
    low, high = max(0, start - _AROUND), min(len(text), end + _AROUND)
    marked = f"{text[low:start]}[{text[start:end]}]{text[end:high]}"
    return (("…" if low else "") + marked + ("…" if high < len(text) else "")).replace("\n", " ")
