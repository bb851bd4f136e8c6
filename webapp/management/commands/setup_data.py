"""`manage.py setup_data`: everything that a first run needs beyond the tables, and repairs.

    corpus → model → index → deployment → question sets → administrator

Each step checks what exists and does nothing if it is complete, so a second run is fast. The files are checked, not
only the rows: a deleted folder is made again, under the same name. A pair that a person deployed stays deployed if it
can answer.
"""

from __future__ import annotations

import secrets
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured

from realm_core.command_line import add_options, argv, task_of
from realm_core.corpus.tasks import PACKAGES, Ingest
from realm_core.errors import RealmError
from realm_core.files import read_json, remove_folder
from realm_core.index.choice import EXACT_ROWS
from realm_core.index.manifest import SHIPPED, is_complete, read_manifest
from realm_core.index.tasks import Index
from webapp.artefacts.registering import adopt_model, is_there, record_corpus, record_index
from webapp.deployments import service as deploying
from webapp.environment import first_password
from webapp.management.operator import OperatorCommand
from webapp.models import CorpusSnapshot, Deployment, IndexGeneration, ModelVersion, Purpose, QuestionSet
from webapp.operations.activity import run_activity
from webapp.questions import service as questions
from webapp.serving.states import EditConflict
from webapp.storage.places import corpora_dir, first_password_path, indexes_dir, resolve

DEFAULT_CORPUS = "vital-en"
# The sets to measure by first: their questions are left out of the others.
DEFAULT_QUESTIONS = {
    "plain-dev": Purpose.MEASURE,
    "plain-test": Purpose.MEASURE,
    "unanswerable-dev": Purpose.MEASURE,
    "plain-train": Purpose.LEARN,
}
ADMINISTRATOR = "admin"


class Command(OperatorCommand):
    """Make or repair the default corpus, model, index, deployment and administrator."""

    stopped = "Stopped; the next run resumes here."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_options(parser, Ingest, without=["output", "processes"])
        parser.set_defaults(corpus_name=DEFAULT_CORPUS)
        parser.add_argument("--model", type=Path, default=settings.MODELS_DIR / settings.MODEL, help="the first model")
        parser.add_argument(
            "--show-password", action="store_true", help="print a new administrator's password, as on a terminal"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        task = task_of(Ingest, Namespace(**options, output=corpora_dir()))
        corpus = self._corpus(task)
        model = self._model(options["model"])
        self._deployment(model, corpus, task.source)
        self._words()
        self._questions()
        # Output that is no terminal may be a log, which others can read and which is kept.
        shown = (options["show_password"] or self.stdout.isatty()) and not settings.HTTPS
        self._administrator(shown=shown)

    def _corpus(self, task: Ingest) -> CorpusSnapshot:
        for corpus in CorpusSnapshot.objects.filter(name=task.corpus_name):
            if (resolve(corpus.path) / "manifest.json").exists():
                return corpus
        self._say(f"Reading the corpus {task.corpus_name} (once)")
        result = run_activity(*argv(task))
        corpus = record_corpus(Path(result["path"]))
        self._say(f"The corpus has {corpus.articles:,} articles in {corpus.blocks:,} blocks")
        return corpus

    def _model(self, folder: Path) -> ModelVersion:
        if not (folder / "config.json").exists():
            raise RealmError(f"The model {folder} is missing; restore it from the repository (git checkout {folder}).")
        return adopt_model(folder)

    def _index(
        self, model: ModelVersion, corpus: CorpusSnapshot, answering: IndexGeneration | None = None
    ) -> IndexGeneration:
        """An index of the corpus by the model's block embedder, preferably the one that answers: it has the edits."""
        known = IndexGeneration.objects.filter(
            model__block_hash=model.block_hash, corpus=corpus, folded_into__isnull=True
        )
        for index in sorted(known, key=lambda index: index != answering):
            if is_complete(resolve(index.path)):
                return index
        # The build would accept a folder that has lost files as the finished index, so it is removed first.
        lost = known.first()
        if lost is not None:
            self._say(f"The index {lost.generation} has lost files; it is built again")
            remove_folder(resolve(lost.path))
        else:
            self._say(f"Building the index of {corpus.blocks:,} blocks (once)")
        task = Index(
            model=resolve(model.path),
            corpus=resolve(corpus.path),
            output=indexes_dir(),
            generation=lost.generation if lost is not None else None,
        )
        result = run_activity(*argv(task))
        return record_index(Path(result["path"]), model=model)

    def _deployment(self, model: ModelVersion, corpus: CorpusSnapshot, source: str) -> None:
        active = Deployment.active()
        serves = active is not None and _can_serve(active)
        index = None if serves else self._index(model, corpus)
        if active is not None and (serves or _can_serve(active)):  # perhaps after a repair
            if _is_newer(model, corpus, active):
                self._replace_model(model, active)
            if active.index.corpus.name == corpus.name and _has_more(model, active.index.corpus, source):
                named = f" ({source}, not {active.index.corpus.source})" if active.index.corpus.source != source else ""
                self._say(
                    f"Questions are answered from the corpus that was there. That of this version{named} has more; "
                    "docs/operations.md says under Upgrade how to take it over."
                )
            return
        assert index is not None
        note = "First run"
        if active is not None:
            self._say(f"Files of the active deployment are missing: {active}")
            note = f"Deployment {active.pk} has lost files"
        deployment = deploying.deploy(index, model=model, by="setup", note=note, confirmed=True)
        self._say(f"Deployed: {deployment}")

    def _replace_model(self, model: ModelVersion, active: Deployment) -> None:
        """Let the newer shipped model answer from the corpus of the active deployment, with its edits."""
        corpus = active.index.corpus
        try:
            index = self._index(model, corpus, active.index)
            # A newer model was never measured here: that alone does not stop it. The audit trail records it.
            ready = deploying.made_ready(index, model=model, by="setup", unmeasured=True)
            if ready.doubts and not ready.only_unmeasured:
                raise RealmError(" ".join(ready.doubts))
            deployment = deploying.deploy_ready(ready, by="setup", note="The model that comes with the source is newer")
        except (RealmError, EditConflict) as error:
            self._say(f"The model that comes with the source is newer, but is not deployed: {error}")
            return
        self._say(f"The model that comes with the source is newer and answers from now on: {deployment}")
        self._say(f"Manage › Deployments goes back to {active.model}; it is not replaced again then.")

    def _words(self) -> None:
        """What finds blocks by words, of an index from a version that kept none: a web server would make it first."""
        active = Deployment.active()
        assert active is not None
        index, model = resolve(active.index.path), resolve(active.model.path)
        from realm_core.corpus.tables import postings_folder  # loads pyarrow

        corpus = resolve(active.index.corpus.path)
        weighs_words = read_json(model / "config.json")["model"].get("lexical_weight", 0)
        if weighs_words and active.index.corpus.blocks <= EXACT_ROWS and not postings_folder(corpus).exists():
            self._say("Counting the words of the corpus (once)")
            run_activity(*argv(Index(model=model, corpus=corpus, output=index.parent, generation=index.name)))

    def _questions(self) -> None:
        """Recorded sets do not change, even if a newer release has other ones under their names."""
        for name, purpose in DEFAULT_QUESTIONS.items():
            if not QuestionSet.objects.filter(name=name).exists():
                path = settings.MODELS_DIR / "questions" / f"{name}.jsonl"
                try:
                    made = questions.record_file(
                        path, purpose, origin="comes with the source, CC BY-SA 4.0", leave_out_measured=True
                    )
                except RealmError as error:  # for example, one of its questions is in a set for training
                    self._say(f"Not recorded: {error}")
                else:
                    self._say(f"Recorded: {made}")

    def _administrator(self, *, shown: bool) -> None:
        user = get_user_model()
        if user.objects.filter(is_superuser=True).exists():
            return
        path = first_password_path()
        try:
            password = secrets.token_urlsafe(12) if shown else first_password(path)
        except ImproperlyConfigured as error:
            raise RealmError(str(error)) from None
        name, number = ADMINISTRATOR, 1
        while user.objects.filter(username=name).exists():
            number += 1
            name = f"{ADMINISTRATOR}{number}"
        user.objects.create_superuser(name, password=password)
        shown_password = f"“{password}” (shown only now; change it under /admin/)"
        if not shown:
            shown_password = f"in {path} until the first login"
        self._say(f"Administrator account: user “{name}”, password {shown_password}")

    def _say(self, sentence: str) -> None:
        self.stdout.write(sentence)
        self.stdout.flush()


def _is_newer(model: ModelVersion, corpus: CorpusSnapshot, active: Deployment) -> bool:
    """Whether the shipped model should replace an earlier shipped one that answers from the default corpus. Not if it
    was deployed before, because an administrator rolled back from it, unless MODEL names it."""
    earlier = active.model
    shipped = {model.name, *(path.parent.name for path in settings.MODELS_DIR.glob("*/config.json"))}
    follows = earlier != model and earlier.name in shipped and earlier.job_id is None
    wanted = settings.MODEL_IS_CHOSEN or not model.deployments.exists()
    return follows and active.index.corpus.name == corpus.name and wanted


def _has_more(model: ModelVersion, corpus: CorpusSnapshot, source: str) -> bool:
    """Whether the default corpus of this version is a richer one, which was never here: vectors of it are shipped."""
    if corpus.source != source:
        return {corpus.source, source} <= set(PACKAGES)
    vectors = resolve(model.path) / SHIPPED
    if source != "default" or not is_complete(vectors):
        return False
    return not CorpusSnapshot._base_manager.filter(snapshot_id=read_manifest(vectors)["snapshot_id"]).exists()


def _can_serve(deployment: Deployment) -> bool:
    return (
        is_there(deployment.model)
        and (resolve(deployment.index.corpus.path) / "manifest.json").exists()
        and is_complete(resolve(deployment.index.path))
    )
