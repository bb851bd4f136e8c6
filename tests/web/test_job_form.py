"""Every kind of job has a typed form and a schema, made of the descriptions that its TOML has."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django import forms

from realm_core.settings import ANY, FILE, Setting, flat
from realm_core.training.ablation import ROWS, AblationConfig
from realm_core.training.config import FinetuneConfig
from tests.web import console
from tests.web.conftest import Person
from tests.web.console import another_model
from tests.web.operating import ablation, question_set
from tests.web.pages import stored
from webapp.jobs.examples import NEW_JOBS
from webapp.jobs.form import CountsField, JobForm, differing, starting_values
from webapp.jobs.schema import parameters_schema
from webapp.jobs.serializers import KindSerializer
from webapp.kinds import KINDS, Kind, ParameterError, startable
from webapp.models import Deployment, Job, JobKind, Purpose

pytestmark = pytest.mark.django_db

ABLATE = KINDS[JobKind.ABLATE]
TYPED: dict[type, type[forms.Field]] = {
    bool: forms.BooleanField,
    dict: CountsField,
    float: forms.FloatField,
    int: forms.IntegerField,
    list: forms.MultipleChoiceField,
    str: forms.CharField,
}


@pytest.mark.parametrize("kind", startable(), ids=lambda kind: str(kind.kind))
def test_every_setting_has_a_field_of_its_type(kind: Kind) -> None:
    form = JobForm(kind, None, {})
    for one in kind.described():
        field = form.fields[one.name]
        if one.limit == FILE:  # what lies in a folder by now, and with which explanation, is told elsewhere
            assert type(field) is forms.ChoiceField
            continue
        assert type(field) is (forms.ChoiceField if one.kind is str and one.limit.choices else TYPED[one.kind])
        assert one.kind is not str or one.limit != ANY, "a text of any kind is no typed setting"
        assert form[one.name].initial == one.default and str(field.help_text).startswith(one.help)
        assert [name for name, _ in getattr(field, "choices", ())] == list(one.limit.choices)
        edges = {"min": one.limit.low, "max": one.limit.high}
        assert bounds(field) == {edge: at for edge, at in edges.items() if at is not None}
    shown = [field.name for group in form.groups() for field in (*group.often, *group.seldom)]
    assert sorted(shown) == sorted(one.name for one in kind.described())


def bounds(field: forms.Field) -> dict[str, float]:
    return {name: float(value) for name, value in field.widget.attrs.items() if name in ("min", "max")}


def test_a_number_is_shown_with_its_unit_once() -> None:
    form = JobForm(KINDS["finetune"], None, {})
    labels = {name: form.fields[name].label for name in ("k", "epochs", "checkpoint_every", "query_lr")}
    assert labels == {
        "k": "k (blocks)",
        "epochs": "Epochs (passes)",
        "checkpoint_every": "Checkpoint every (steps)",
        "query_lr": "Query learning rate",  # a pure number
    }
    assert str(form.fields["k"].help_text).startswith("read for a question")
    assert JobForm(KINDS["ict"], None, {}).fields["steps"].label == "Steps"  # the name is the unit
    own, default = differing(KINDS["ict"], {"steps": 2000, "batch": 64})
    assert (own, default) == ([("Steps", "2,000")], [("Batch (examples)", "64")])
    own, default = differing(KINDS["ablate"], {"rows": ["realm", "bm25", "one of an earlier version"]})
    assert (own, default) == ([("Rows", "REALM, BM25 + reader, one of an earlier version")], [])
    assert not differing(KINDS["ablate"], {"rows": list(ROWS)})[0]


def test_the_schema_has_the_unit_and_every_limit() -> None:
    own = parameters_schema(KINDS["finetune"])["properties"]
    assert own["k"] == {
        "type": "integer",
        "default": 5,
        "description": "blocks read for a question (release: 5) (from 1 to 50)",
        "x-unit": "blocks",
        "minimum": 1,
        "maximum": 50,
    }
    assert {name: own["clip"].get(name) for name in ("type", "minimum", "exclusiveMinimum", "maximum", "x-unit")} == {
        "type": "number",
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": None,
        "x-unit": None,
    }
    assert (own["dropout"]["maximum"], own["dropout"]["exclusiveMaximum"]) == (1, True)
    assert own["repeat"]["additionalProperties"] == {"type": "integer", "minimum": 0}
    exported = parameters_schema(KINDS["export"])["properties"]
    assert exported["min_probability"]["nullable"] and exported["min_probability"]["type"] == "number"
    assert re.fullmatch(exported["name"]["pattern"], "finds more 2.0")
    assert not re.fullmatch(exported["name"]["pattern"], ".hidden")
    assert parameters_schema(KINDS["spans"])["properties"]["tagger"]["enum"] == ["spacy", "links", "dates"]
    (told,) = [one for one in KindSerializer(KINDS["finetune"]).data["settings"] if one["name"] == "k"]
    assert (told["unit"], told["help"]) == ("blocks", "read for a question (release: 5)")


def test_an_ablation_is_told_what_its_toml_tells() -> None:
    described = {one.name: one.default for one in ABLATE.described()}
    assert described.pop("rows") == list(ROWS)
    assert described == flat(AblationConfig())


def test_a_stage_of_an_ablation_is_described_as_the_job_of_its_kind() -> None:
    whole = parameters_schema(ABLATE)["properties"]
    for kind in ("ict", "mlm", "finetune"):
        own = parameters_schema(KINDS[kind])["properties"]
        stage = {name.partition(".")[2]: schema for name, schema in whole.items() if name.startswith(f"{kind}.")}
        # The readers of its rows start untrained.
        differing = {"epochs", "pairs", "reader_lr", "head_lr"} if kind == "finetune" else set()
        assert stage.keys() <= own.keys()
        assert {name for name, schema in stage.items() if schema != own[name]} == differing
    # A reader that is trained further at the rate of an untrained one forgets when to be silent.
    assert 10 * FinetuneConfig().reader_lr <= AblationConfig().finetune.reader_lr
    names: dict[str, Setting] = {one.name: one for one in ABLATE.described()}
    for one in KINDS["pretrain"].described():
        if one.name not in ("name", "masking", "refresh", "refresh_every"):
            stage_one = names[f"pretrain.{one.name}"]
            assert (stage_one.default, stage_one.help, stage_one.limit) == (one.default, one.help, one.limit)
    assert names["pretrain.refresh"].limit.choices == ("process", "in-loop") and "pretrain.masking" not in names


def test_rows_are_chosen_by_the_papers_names() -> None:
    schema = parameters_schema(ABLATE)["properties"]["rows"]
    assert schema["type"] == "array" and schema["items"] == {"type": "string", "enum": list(ROWS)}
    assert (schema["minItems"], schema["uniqueItems"], schema["default"]) == (1, True, list(ROWS))
    (told,) = [one for one in KindSerializer(ABLATE).data["settings"] if one["name"] == "rows"]
    titles = {name: row.title for name, row in ROWS.items()}
    assert (told["type"], told["limit"]["called"]) == ("array", titles)
    assert dict(JobForm(ABLATE, None, {}).fields["rows"].choices) == titles  # type: ignore[attr-defined]


def test_a_person_first_meets_an_ablations_budget_alone() -> None:
    groups = JobForm(ABLATE, None, {}).groups()
    assert [group.title for group in groups] == [
        "Settings",
        *(KINDS[name].title for name in AblationConfig.model_fields if name in KINDS),
    ]
    assert [[field.label for field in group.often] for group in groups] == [
        *(["Rows", "Repeats (times)"], ["Steps", "Batch (examples)"], ["Steps", "Batch (examples)"]),
        ["Steps", "Batch (examples)", "k (blocks)", "Refresh every (steps)"],
        *(["Epochs (passes)", "Batch (questions)", "k (blocks)"], ["k (blocks)", "Score scale"]),
    ]
    assert not any(group.unfold for group in groups)


def test_a_training_says_how_feedback_gets_into_it() -> None:
    said = {kind: JobForm(KINDS[kind], None, {})["questions"].help_text for kind in ("finetune", "evaluate")}
    assert "feedback that was accepted" in said["finetune"] and "feedback" not in said["evaluate"]


def test_every_form_shows_some_settings_unfolded() -> None:
    folded = {kind.kind for kind in startable() for group in JobForm(kind, None, {}).groups() if not group.often}
    assert folded == set()


def test_every_kind_has_an_example_of_its_own() -> None:
    examples = list(NEW_JOBS.values())
    assert {example["kind"] for example in examples} == {kind.kind for kind in startable()}
    for example in examples:
        kind, given = KINDS[example["kind"]], example["parameters"]
        with pytest.raises(ParameterError) as refused:  # for its records alone, which are not there
            kind.read({"nonsense": 0, **given})
        records = {one.name for one in kind.inputs}
        assert refused.value.errors.keys() - records == {"nonsense"}
        if "settings_of" not in example:
            assert given.keys() >= {one.name for one in kind.inputs if one.required}


def posted(values: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """As a browser sends the form with its defaults."""
    form = JobForm(ABLATE, None, values)
    sent = {name: form[name].value() for name in form.fields}
    return {name: "" if value == {} else value for name, value in sent.items() if value is not False} | changed


def test_what_is_typed_is_what_the_ablation_gets(staff: Person) -> None:
    values = ablation() | {"dev": [console.question_set("asked").pk]}  # which has a file
    changed = {"rows": ["bm25", "baseline"], "ict.steps": "7", "finetune.repeat": "learnt = 2", "pretrain.title": "on"}
    response = staff.client.post("/manage/jobs/new/ablate/", posted(values, **changed))
    assert response.status_code == 302, response.content.decode()
    got = Job.objects.get().parameters
    assert got == ABLATE.written(ABLATE.read(got))
    told = {"rows": ["bm25", "baseline"], "ict.steps": 7, "finetune.repeat": {"learnt": 2}, "pretrain.title": True}
    assert got.items() >= (values | told).items() and got["mlm.steps"] == 1000
    page = staff.client.get(f"/manage/jobs/{Job.objects.get().pk}/").content.decode()
    for name, value in (("ict: steps", "7"), ("Rows", "BM25 + reader, baseline (ORQA)")):
        assert f"<dt>{name}</dt><dd><strong>{value}</strong></dd>" in page
    again = staff.client.get(f"/manage/jobs/new/ablate/?from={Job.objects.get().pk}").content.decode()
    assert 'name="ict.steps" value="7"' in again
    assert re.findall(r'name="rows" value="([\w-]+)"[^>]* checked', again) == ["baseline", "bm25"]
    assert re.findall(r'<details id="more-settings-(\d)" open>', again) == ["4", "5"]  # where title and repeat stand


def test_what_is_wrong_stands_beside_the_stages_field(staff: Person) -> None:
    values = ablation()
    wrong = posted(values, **{"ict.dropout": "2", "pretrain.refresh_every": "999", "rows": []})
    page = staff.client.post("/manage/jobs/new/ablate/", wrong).content.decode()
    assert 'id="id_rows_error"' in page and 'id="id_ict.dropout_error"' in page and not Job.objects.exists()
    assert '<details id="more-settings-2" open>' in page and '<details id="more-settings-3">' in page
    stale = posted(values, **{"pretrain.refresh_every": "999"})
    page = staff.client.post("/manage/jobs/new/ablate/", stale).content.decode()
    assert 'id="id_pretrain.refresh_every_error"' in page and "index of the row stale would never be" in page


def test_everything_that_is_wrong_is_told_at_once(staff: Person) -> None:
    """What cannot be read, what is out of its limits, and records that do not fit, which need the database."""
    deployment, learnt = stored.deployment(), question_set("learnt", Purpose.LEARN)
    given = JobForm(KINDS["finetune"], None, {"questions": [learnt.pk], "corpus": deployment.index.corpus_id})
    sent = {name: form if (form := given[name].value()) is not None else "" for name in given.fields}
    sent |= {"model": another_model(block_hash="e" * 64).pk, "index": deployment.index_id}
    sent |= {"repeat": "nonsense", "epochs": "many", "dropout": "2"}
    answered = staff.client.post("/manage/jobs/new/finetune/", {name: one for name, one in sent.items() if one != {}})
    page = answered.content.decode()
    wrong = re.findall(r'id="id_(\w+)_error"', page)
    assert answered.status_code == 422 and sorted(wrong) == ["dropout", "epochs", "index", "repeat"]
    assert "embeds blocks differently" in page and "Enter a whole number." in page and not Job.objects.exists()


def test_what_answers_now_is_what_is_measured_unless_something_else_is_named() -> None:
    deployment, questions = stored.deployment(), question_set()
    kind = KINDS[JobKind.EVALUATE]
    from_a_set = {"questions": str(questions.pk)}
    builder = {"index": deployment.index_id, "questions": questions.pk}
    assert starting_values(kind, None, from_a_set) == builder
    deployed = another_model()  # with the block embedder of the index, which another model built
    Deployment.objects.update(model=deployed)
    assert starting_values(kind, None, from_a_set) == {**builder, "model": deployed.pk}
    assert starting_values(kind, None, {**from_a_set, "model": str(deployed.pk)}) == {
        "questions": questions.pk,
        "model": deployed.pk,
    }
