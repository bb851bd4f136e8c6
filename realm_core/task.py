"""Tasks: each is declared once, as a frozen pydantic model with its settings.

    class Ict(Task):
        activity = kind = "ict"
        model: ModelFolder = artefact("the model to start from")
        settings: IctConfig = IctConfig()
        output: Path = runtime(help="model folder to make")

The same declaration makes the command line (`command_line.py`), forms, the REST schema, the parameters in a job's row
and the command that a worker runs. A module that declares tasks is imported by the web server: it loads nothing heavy,
and leaves the work to `main(task, activity)` of the module named by `code`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

from pydantic import Field
from pydantic.fields import FieldInfo

from realm_core.errors import RealmError
from realm_core.settings import Settings, extra


@dataclass(frozen=True)
class Artefact:
    """Marks a path to an artefact with a record: a job gets the record's id instead.

    kind: model, corpus, index, spans or questions. file: what the path leads to. purpose: of question sets.
    """

    kind: str
    file: str
    purpose: str = ""


ModelFolder = Annotated[Path, Artefact("model", "model folder")]
CorpusFolder = Annotated[Path, Artefact("corpus", "snapshot folder")]
IndexFolder = Annotated[Path, Artefact("index", "generation folder")]
SpansFolder = Annotated[Path, Artefact("spans", "folder that `spans` has made")]
QuestionsToLearn = Annotated[Path, Artefact("questions", "question file", purpose="learn")]
QuestionsToMeasure = Annotated[Path, Artefact("questions", "question file", purpose="measure")]


def artefact(
    help: str,
    *,
    of: Sequence[str] = (),
    become_one: bool = False,
    job_needs: bool = False,
    found: str = "",
    **default: Any,
) -> Any:
    """A field for an artefact to work on. of: the fields whose artefacts it must be made from.

    become_one: whether several indexes are given that must be of one block embedder and of different corpora.
    job_needs: whether a job requires it, though the command line does not. found: how the command line finds it.
    """
    schema_extra: dict[str, Any] = {"of": list(of), "become_one": become_one, "job_needs": job_needs, "found": found}
    return Field(description=help, json_schema_extra=schema_extra, **default)


def runtime(
    default: Any = ..., *, help: str, unit: str = "", flag: str | None = None, positional: bool = False, **more: Any
) -> Any:
    """A field that is decided where the task runs and is no parameter of a job: paths, devices, processes.

    Without a default it is required on the command line, and set by a worker. unit, flag, more: as in `setting`.
    """
    schema_extra: dict[str, Any] = {"runtime": True, "unit": unit, "flag": flag, "positional": positional}
    return Field(default=default, description=help, json_schema_extra=schema_extra, **more)


@dataclass(frozen=True)
class JobPart:
    """A job that belongs to another one. parameters: distinguish it from the other parts."""

    kind: str
    parameters: dict[str, Any]


class Task(Settings):
    """One task: an activity of `python -m realm_core` and, if it has a queue, a kind of job.

    activity, summary: on the command line. code: the module of `main(task, activity)`; its own if empty. kind, title,
    about, group: of the job, for people. queue: of the workers that run it; "": it is no job. by_hand: whether a person
    may start one; a part of another job is started by that job. companion: whether, as a part, it runs beside its
    whole and not before it. makes: the record that results: model, corpus, index,
    base (a corpus with its index), deployment (of a base), spans or evaluation; "": none. leaves: the folder with its
    result inside its run folder, if that is no record.
    devices: how many it uses at most. distributed: whether it uses all free ones, under torchrun if these are several
    GPUs. yields: the niceness of its process.
    """

    activity: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    code: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    title: ClassVar[str] = ""
    about: ClassVar[str] = ""
    group: ClassVar[str] = ""
    queue: ClassVar[Literal["", "default", "index", "train"]] = ""
    by_hand: ClassVar[bool] = True
    companion: ClassVar[bool] = False
    makes: ClassVar[Literal["", "model", "corpus", "index", "base", "deployment", "spans", "evaluation"]] = ""
    leaves: ClassVar[str] = "output"
    devices: ClassVar[int] = 1
    distributed: ClassVar[bool] = False
    yields: ClassVar[int] = 0

    @classmethod
    def label(cls) -> str:
        """The title inside a sentence."""
        return cls.title[:1].lower() + cls.title[1:]

    def unused(self) -> Mapping[str, str]:
        """Fields that have no effect with these values, and are not passed to its process; with the reason of each."""
        return {}

    def before(self, *, blocks: int) -> Sequence[JobPart]:
        """Parts that must be done first. blocks: of its corpus."""
        return ()

    def beside(self) -> Sequence[JobPart]:
        """Parts that run as long as it does."""
        return ()

    def as_job(self) -> Task:
        """The task as a worker's process gets it; the worker starts the parts itself."""
        return self

    def within(self, parent: Task, run: Path) -> Task:
        """The task of a part's process. run: the run folder of its parent."""
        raise RealmError(f"{self.kind} is no part of another job.")

    @classmethod
    def kept(cls, result: dict[str, Any]) -> dict[str, Any]:
        """What a job's row keeps of the process's result: all of it, unless a record is made from it."""
        return {} if cls.makes else result


@dataclass(frozen=True)
class DeclaredInput:
    """A field declared by `artefact`, which explains of and become_one. many: whether there may be several."""

    name: str
    artefact: Artefact
    help: str
    many: bool
    required: bool
    of: tuple[str, ...]
    become_one: bool


def artefacts(task: type[Task]) -> Iterator[DeclaredInput]:
    for name, info in task.model_fields.items():
        found = artefact_of(info.annotation, info)
        if found is not None and not extra(info).get("runtime"):
            many = get_origin(info.annotation) is tuple
            required = info.is_required() or bool(extra(info).get("job_needs"))
            about = extra(info)
            of, become_one = tuple(about.get("of", ())), bool(about.get("become_one"))
            yield DeclaredInput(name, found, str(info.description), many, required, of, become_one)


def artefact_of(annotation: Any, info: FieldInfo | None = None) -> Artefact | None:
    """The mark of a field that names an artefact, or several."""
    marks = [*(info.metadata if info else ()), *getattr(annotation, "__metadata__", ())]
    found = next((one for one in marks if isinstance(one, Artefact)), None)
    return found or next((deeper for one in get_args(annotation) if (deeper := artefact_of(one))), None)


def undecided(task: type[Task]) -> dict[str, Any]:
    """Placeholders for the fields that are decided where the task runs, so that the others can be validated before."""
    return {
        name: Path() for name, info in task.model_fields.items() if extra(info).get("runtime") and info.is_required()
    }
