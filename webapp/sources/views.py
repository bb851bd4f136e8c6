"""Pages of files to ingest: list, upload, removal."""

from __future__ import annotations

from typing import Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from realm_core.errors import RealmError
from webapp.access.roles import Action
from webapp.bodies import allow_larger_body
from webapp.pages.guards import console_action, console_form, staff_member
from webapp.pages.uploads import FileField
from webapp.sources import service as sources
from webapp.storage.places import sources_dir

_FILE: Final = FileField(
    largest_bytes=sources.LARGEST_UPLOAD_BYTES,
    instead=lambda: f"copy a larger one into {sources_dir()} yourself",
    help_text="JSON lines or Parquet with id, title and text, or a MediaWiki dump, plain or compressed.",
)


class SourceForm(forms.Form):
    file = _FILE
    replace = forms.BooleanField(
        required=False,
        label="Replace a file of the same name",
        help_text="Schedules read the new one from then on. What was ingested stays as it is.",
    )


@allow_larger_body(_FILE.largest_bytes, Action.OPERATE)
@console_form
def source_list(request: HttpRequest) -> HttpResponse:
    """All files to ingest, and the upload form."""
    form = SourceForm(*((request.POST, request.FILES) if request.method == "POST" else ()))
    if form.is_valid():
        file = form.cleaned_data["file"]
        try:
            made = sources.add(
                file.name or "", file.chunks(), replace=form.cleaned_data["replace"], by=staff_member(request)
            )
        except RealmError as error:
            form.add_error("file", str(error))
        else:
            messages.success(request, f"{made.name} was uploaded and can be ingested.")
            return redirect("manage-sources")
    readers, schedules = sources.readers(), sources.read_again()
    context = {
        "form": form,
        "rows": [(one, readers.get(one.name), schedules.get(one.name)) for one in sources.sources()],
        "folder": sources_dir(),
    }
    return render(request, "manage/sources.html", context, status=422 if form.errors else 200)


@console_action
def remove_source(request: HttpRequest) -> HttpResponse:
    name = request.POST.get("name", "")
    try:
        sources.remove(name, by=staff_member(request))
    except RealmError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{name} has been removed.")
    return redirect("manage-sources")
