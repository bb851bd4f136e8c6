"""What the console's tests have in common: whole files on the disk, measured models, question sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings

from realm_core.corpus.tables import FORMAT as CORPUS_FORMAT
from realm_core.evaluation.figures import summarise
from realm_core.evaluation.predictions import Header, Prediction, PredictionFile, read_predictions
from realm_core.evaluation.why import Why
from realm_core.files import sha256_of_file
from realm_core.index.manifest import FORMAT as INDEX_FORMAT
from realm_core.model.identity import model_hash
from webapp.models import CorpusSnapshot, Deployment, Evaluation, IndexGeneration, ModelVersion, Purpose, QuestionSet
from webapp.storage.places import resolve

ASKED = ("Who wrote Faust?", "When did the Wall fall?", "What is the capital of Bhutan?", "What melts at 3,422 °C?")
ANSWERS = ("Goethe", "1989", "Thimphu", "Tungsten")


def write_files(model: ModelVersion, index: IndexGeneration, corpus: CorpusSnapshot) -> None:
    """Put files where records point, with the checksums that belong to them; the model's row gets its files' hash."""
    weights = _file(resolve(model.path) / "model.safetensors", f"weights of {model}")
    config = {"weights_sha256": weights, "block_hash": model.block_hash, "model": {"normalisation": "joint"}}
    _json(resolve(model.path) / "config.json", config)
    model.model_hash = model_hash(config)
    model.save(update_fields=["model_hash"])
    shard = _file(resolve(index.path) / "vectors-00000.safetensors", f"vectors of {index.generation}")
    _json(
        resolve(index.path) / "manifest.json",
        {
            "format": INDEX_FORMAT,
            "shards": [{"file": "vectors-00000.safetensors", "sha256": shard, "start": 0, "stop": index.rows}],
        },
    )
    blocks = _file(resolve(corpus.path) / "blocks.arrow", "blocks")
    _json(resolve(corpus.path) / "manifest.json", {"format": CORPUS_FORMAT, "files": {"blocks.arrow": blocks}})


def whole(deployment: Deployment) -> Deployment:
    """The deployment, its files written."""
    write_files(deployment.model, deployment.index, deployment.index.corpus)
    return deployment


def another_corpus(name: str = "other", **values: Any) -> CorpusSnapshot:
    """A corpus beside the deployed one."""
    about = {"snapshot_id": name[:1] * 16, "path": f"corpora/{name}", "source": "jsonl", "language": "en"}
    return CorpusSnapshot.objects.create(name=name, **about | {"articles": 2, "blocks": 3} | values)


def another_model(name: str = "realm-tuned", **values: Any) -> ModelVersion:
    """A model beside the deployed one; it fits the same indexes unless told otherwise."""
    active = Deployment.objects.get(is_active=True)
    about = {"version": "2", "model_hash": name.ljust(16, "0")[:64], "block_hash": active.model.block_hash}
    about |= {"path": f"models/{name}", "parent": active.model, "corpus": active.index.corpus}
    return ModelVersion.objects.create(name=name, **about | values)


def another_index(model: ModelVersion, generation: str = "gen-other", **values: Any) -> IndexGeneration:
    """An index that `model` built, of the deployed corpus unless told otherwise."""
    corpus = Deployment.objects.get(is_active=True).index.corpus
    about = {"corpus": corpus, "path": f"indexes/{generation}", "rows": 21000, "dim": 128}
    return IndexGeneration.objects.create(generation=generation, model=model, **about | values)


def question_set(name: str = "plain-dev", purpose: str = Purpose.MEASURE) -> QuestionSet:
    """Four questions, in a file."""
    path = Path(settings.REALM_DATA) / "questions" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(
            json.dumps({"question": question, "answers": [answer]}) + "\n"
            for question, answer in zip(ASKED, ANSWERS, strict=True)
        )
    )
    return QuestionSet.objects.create(
        name=name, purpose=purpose, path=f"questions/{name}.jsonl", sha256=sha256_of_file(path), questions=len(ASKED)
    )


def measured(
    model: ModelVersion,
    index: IndexGeneration,
    questions: QuestionSet,
    said: Sequence[str],
    *,
    answers: Sequence[str] = ANSWERS,
    given: Sequence[int] | None = None,
    causes: Sequence[str] = (),
    **values: Any,
) -> Evaluation:
    """An evaluation in which the model said these answers; an empty one: none is given, or there is none.

    given: the places of the questions that were answered; None: all whose answer is not empty. causes: why each is
    right or wrong; none: that was not looked for.
    """
    number = Evaluation.objects.count() + 1
    path = Path(settings.REALM_DATA) / f"predictions-{number}.jsonl"
    path.unlink(missing_ok=True)
    with PredictionFile(path, Header({"model": model.model_hash}, model.name, questions.name, len(said))) as file:
        file.extend(
            Prediction(
                *(question, (answer,) if answer else (), "string", one, 0.75, None),
                *(one != "" if given is None else place in given, one == answer),
                *(1 if answer else None, ("A block",), 20.0),
                why=Why(causes[place]) if causes else None,
            )
            for place, (question, answer, one) in enumerate(zip(ASKED, answers, said, strict=True))
        )
    figures = summarise(read_predictions(path))
    return Evaluation.objects.create(
        model=model,
        corpus=index.corpus,
        index=index,
        questions=questions,
        predictions=path.name,
        asked=figures.n,
        exact_match=figures.exact_match,
        recall_at_5=figures.recall[5],
        figures=figures.as_dict(),
        **{"retriever": "dense", "k": 5, "normalisation": "joint", "sample": 0, **values},
    )


def _file(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return sha256_of_file(path)


def _json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value))
