"""Pages of question sets: list, upload, making one from feedback."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.questions.question_file import read_questions
from webapp.access.roles import Action
from webapp.bodies import allow_larger_body
from webapp.feedback.service import accepted_count
from webapp.models import Purpose, QuestionSet
from webapp.pages.guards import curator_action, curator_form, curator_page, staff_member
from webapp.pages.uploads import FileField
from webapp.questions import service as questions
from webapp.questions.tables import COLUMNS
from webapp.storage.places import resolve

_FILE: Final = FileField(
    required=False,
    largest_bytes=questions.LARGEST_FILE_BYTES,
    instead=lambda: "larger ones are recorded on the server with manage.py register_questions",
    help_text="JSON lines, a question each: question, answers (a list), and title or context if known; or a table, CSV "
    f"or TSV, whose first line names the columns: {COLUMNS}. To measure silence, too: questions that have no answer, "
    "with an empty list of answers, or nothing in their columns.",
)
_SHOWN: Final = 20


class UploadForm(forms.Form):
    """Questions, in a file or typed."""

    file = _FILE
    typed = forms.CharField(
        required=False,
        label="Or typed here",
        widget=forms.Textarea({"rows": 4, "dir": "auto", "spellcheck": "false"}),
        help_text="A question a line, and behind it each right answer after a semicolon: “Who wrote Faust?; Goethe”. "
        "Columns that are copied from a spreadsheet will do, too.",
    )
    purpose = forms.ChoiceField(
        choices=Purpose.choices, help_text="Models are never trained on questions that they are measured by."
    )
    leave_out_measured = forms.BooleanField(
        required=False,
        label="Leave out what is measured by",
        help_text="Of a set to learn from: the questions that are in a set to measure by. Else all are refused.",
    )
    name = forms.CharField(
        required=False, max_length=100, help_text="Letters, digits, dots and dashes. Empty: after the file, or the day."
    )
    origin = forms.CharField(
        required=False, max_length=200, help_text="Where the questions came from, and their licence."
    )

    def clean(self) -> dict[str, Any]:
        values = self.cleaned_data
        if "file" in values and bool(values["file"]) == bool(values.get("typed")):
            both = values["file"] is not None
            self.add_error("file", "Give a file or type questions, not both." if both else "Choose a file, or type.")
        return values


@allow_larger_body(_FILE.largest_bytes, Action.CURATE)
@curator_form
def question_list(request: HttpRequest) -> HttpResponse:
    """All question sets, and the form that adds one."""
    form = UploadForm(*((request.POST, request.FILES) if request.method == "POST" else ()))
    if form.is_valid():
        file, name = form.cleaned_data["file"], form.cleaned_data["name"]
        try:
            if file is not None:
                content = questions.lines_of(file.read(), file.name or "", form.cleaned_data["purpose"])
            else:
                content = questions.typed_lines(form.cleaned_data["typed"], form.cleaned_data["purpose"])
            made = questions.record(
                content,
                name or questions.name_after(file.name or "" if file else f"typed-{timezone.now():%Y-%m-%d}"),
                form.cleaned_data["purpose"],
                origin=form.cleaned_data["origin"],
                leave_out_measured=form.cleaned_data["leave_out_measured"],
                by=staff_member(request),
            )
        except RealmError as error:
            form.add_error("typed" if file is None else "file", str(error))
        else:
            messages.success(request, _recorded(made))
            if left_out := sum(bool(line.strip()) for line in content.splitlines()) - made.questions:
                messages.warning(request, f"Left out, because models are measured by them: {left_out:,}.")
            return redirect("manage-question-set", made.pk)
    context = {
        "form": form,
        "sets": QuestionSet.objects.select_related("created_by"),
        "feedback": accepted_count(),
    }
    return render(request, "manage/question_sets.html", context, status=422 if form.errors else 200)


def _recorded(made: QuestionSet) -> str:
    """What the page says of a new set."""
    return f"{made.name} was recorded: {made.questions:,} question{'s' if made.questions != 1 else ''}."


@curator_action
def from_feedback(request: HttpRequest) -> HttpResponse:
    """Make a training set from accepted feedback."""
    try:
        recorded = questions.record_feedback(request.POST.get("name", "").strip(), by=staff_member(request))
    except RealmError as error:
        messages.error(request, str(error))
        return redirect("manage-questions")
    made = recorded.made
    messages.success(request, _recorded(made))
    if recorded.left_out:
        messages.warning(request, f"Left out, because the answers are from private collections: {recorded.left_out:,}.")
    if recorded.measured:
        messages.warning(request, f"Left out, because models are measured by their questions: {recorded.measured:,}.")
    return redirect("manage-question-set", made.pk)


@curator_page
def question_set(request: HttpRequest, pk: int) -> HttpResponse:
    """One question set: its first questions, and the evaluations on it."""
    found = get_object_or_404(QuestionSet.objects.select_related("created_by"), pk=pk)
    try:
        first, trouble = list(islice(read_questions(resolve(found.path), answerable=None), _SHOWN)), ""
    except (RealmError, OSError) as error:
        first, trouble = [], str(error)
    context = {
        "questions": found,
        "first": first,
        "trouble": trouble,
        "evaluations": found.evaluations.select_related("model", "corpus"),
    }
    return render(request, "manage/question_set.html", context)


@curator_page
def export_feedback(request: HttpRequest) -> HttpResponse:
    """Accepted feedback as a question file for fine-tuning."""
    try:
        name, content = questions.feedback_export(request.user)
    except RealmError as error:
        messages.error(request, str(error))
        return redirect("manage-feedback")
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(content, content_type="application/jsonl; charset=utf-8", headers=headers)
