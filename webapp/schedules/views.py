"""Pages of schedules and retention."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import F, Prefetch, prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from realm_core.errors import RealmError
from webapp.artefacts import retention
from webapp.artefacts.uses import DEPLOYMENTS_KEPT
from webapp.models import CorpusSnapshot, Job, Purpose, QuestionSet, RetentionRule, Schedule, ScheduleRun
from webapp.models.schedule import Trigger, Weekday
from webapp.pages.guards import console_action, console_form, console_page, staff_member
from webapp.schedules import service as scheduling


class ScheduleForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    """A schedule: when a corpus is ingested and indexed again, and whether the result is deployed."""

    corpus_name = forms.ChoiceField(label="Corpus", help_text="Its newest snapshot is indexed.")

    class Meta:
        model = Schedule
        fields = [
            *("corpus_name", "model", "trigger", "hours", "at", "weekday"),
            *("ingest", "questions", "deploy", "enabled"),
        ]
        labels = {
            "trigger": "When",
            "hours": "Every so many hours",
            "at": "At (UTC)",
            "weekday": "On",
            "ingest": "Read the source again first",
            "questions": "Check it by",
            "deploy": "Deploy it if it answers no worse",
            "enabled": "Switched on",
        }
        help_texts = {
            "model": "With “the deployed one”, a build that a new model starts uses that model.",
            "hours": "If it builds every so many hours.",
            "at": "If it builds at a time of day.",
            "weekday": "",
            "ingest": "The file or package that it was ingested from, as it is then; for a new model nothing is read.",
            "questions": "Asked of the new index and of the active deployment.",
            "deploy": "Where the check leaves a doubt, a person decides.",
        }
        widgets = {"at": forms.TimeInput({"type": "time"}, format="%H:%M"), "hours": forms.NumberInput({"min": 1})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = set(CorpusSnapshot.objects.values_list("name", flat=True))
        if self.instance.corpus_name:
            names.add(self.instance.corpus_name)
        self.fields["corpus_name"].choices = [(name, name) for name in sorted(names)]  # type: ignore[attr-defined]
        self.fields["trigger"].choices = [("", "Choose …"), *Trigger.choices]  # type: ignore[attr-defined]
        self.fields["weekday"].choices = [("", "every day"), *Weekday.choices]  # type: ignore[attr-defined]
        self.fields["questions"].queryset = QuestionSet.objects.filter(purpose=Purpose.MEASURE)  # type: ignore[attr-defined]
        self.fields["questions"].empty_label = "no questions"  # type: ignore[attr-defined]
        self.fields["model"].empty_label = "the deployed one"  # type: ignore[attr-defined]


class RetentionForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    class Meta:
        model = RetentionRule
        fields = ["enabled", "generations", "run_days", "answer_days"]
        labels = {
            "enabled": "Remove old work by itself",
            "generations": "Indexes kept of each corpus",
            "run_days": "Days that run folders are kept",
            "answer_days": "Days that questions of people without an account are kept",
        }
        help_texts = {
            "generations": "The newest ones, and as many of the corpora that schedules ingested.",
            "run_days": "Of jobs that have ended: log, metrics, checkpoints. Models that they made stay.",
            "answer_days": "0: for ever. Whether the rest is switched on or not; accepted feedback stays.",
        }


@console_page
def schedule_list(request: HttpRequest) -> HttpResponse:
    """All schedules, and the retention rule."""
    return render(request, "manage/schedules.html", _context(RetentionForm(instance=RetentionRule.current())))


def _questions_last_used() -> QuestionSet | None:
    """Of the sets to measure by the one that was used last, else the newest; None if there are none."""
    used = F("evaluations__created_at").desc(nulls_last=True)
    return QuestionSet.objects.filter(purpose=Purpose.MEASURE).order_by(used, "-pk").first()


@console_form
def edit_schedule(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """A new schedule, or a change of one."""
    if pk is not None:
        schedule = get_object_or_404(Schedule, pk=pk)
    else:  # without reading the source again a periodic build would find nothing new, without questions check nothing
        schedule = Schedule(enabled=True, ingest=True, questions=_questions_last_used())
    form = ScheduleForm(request.POST if request.method == "POST" else None, instance=schedule)
    status = 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                scheduling.save(form.save(commit=False), by=staff_member(request))
            except RealmError as error:
                form.add_error(None, str(error))
            else:
                messages.success(request, "The schedule is saved.")
                return redirect("manage-schedules")
    context = {"form": form, "schedule": schedule, "runs": _runs(schedule), "possible": CorpusSnapshot.objects.exists()}
    return render(request, "manage/schedule.html", context, status=status)


def _runs(schedule: Schedule) -> list[ScheduleRun]:
    """What its runs came to, with their jobs."""
    if schedule.pk is None:
        return []
    runs = schedule.runs
    prefetch_related_objects(runs, Prefetch("job", Job.objects.defer("log", "result")))
    return runs


@console_action
def remove_schedule(request: HttpRequest, pk: int) -> HttpResponse:
    scheduling.remove(get_object_or_404(Schedule, pk=pk), by=staff_member(request))
    messages.success(request, "The schedule is removed. The jobs that it started stay.")
    return redirect("manage-schedules")


@console_action
def run_schedule(request: HttpRequest, pk: int) -> HttpResponse:
    schedule = get_object_or_404(Schedule, pk=pk)
    job = scheduling.run_now(schedule, by=staff_member(request))
    if job is None:
        messages.info(request, schedule.runs[0].outcome)
        return redirect("manage-schedules")
    return redirect("manage-job", job.pk)


@console_action
def change_retention(request: HttpRequest) -> HttpResponse:
    form = RetentionForm(request.POST)
    if not form.is_valid():
        return render(request, "manage/schedules.html", _context(form), status=422)
    retention.change_rule(by=staff_member(request), **form.cleaned_data)
    messages.success(request, "The rule is saved.")
    return redirect("manage-schedules")


@console_action
def remove_now(request: HttpRequest) -> HttpResponse:
    """Apply the retention rule at once."""
    try:
        gone = retention.remove(by=staff_member(request))
    except RealmError as error:
        messages.error(request, str(error))
        return redirect("manage-schedules")
    if gone:
        size = sum(one.size_bytes for one in gone)
        what = "One folder is" if len(gone) == 1 else f"{len(gone)} folders are"
        messages.success(request, f"{what} removed, {size / 1e6:,.1f} MB.")
    else:
        messages.info(request, "There was nothing to remove.")
    return redirect("manage-schedules")


def _context(form: RetentionForm) -> dict[str, Any]:
    removable = retention.removable()
    return {
        "form": form,
        "rule": RetentionRule.current(),
        "schedules": Schedule.objects.select_related("model", "last_job", "created_by", "questions"),
        "removable": removable,
        "removable_bytes": sum(one.size_bytes for one in removable),
        "deployments_kept": DEPLOYMENTS_KEPT,
    }
