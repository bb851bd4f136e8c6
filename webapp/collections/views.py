"""Manage › Documents › Collections: the list, and one of them to be edited."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from webapp.access.roles import CURATORS
from webapp.collections import service as collections
from webapp.collections.service import CollectionSettings, MoreReaders, WouldBePublic
from webapp.models import Collection
from webapp.models.collection import LONGEST_NAME
from webapp.pages.guards import console_action, console_form, console_page, staff_member
from webapp.serving.engine import EngineUnavailable
from webapp.text import one_line


class _GroupsField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]  # not generic at run time
    """Groups, of which one is a role, too."""

    def label_from_instance(self, group: Group) -> str:
        """The name; of curators, with what they do besides."""
        role = " (a role: they also review feedback and see evaluations)" if group.name == CURATORS else ""
        return f"{group.name}{role}"


class CollectionForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    """The settings of a collection. Its name cannot be changed: documents have it."""

    more_readers = forms.BooleanField(
        label="Let more people read it",
        required=False,
        help_text="To be ticked where it shall be read by others than now, and so the answers from it.",
    )

    class Meta:
        model = Collection
        fields = ["title", "description", "private", "groups", "weight"]
        widgets = {
            "description": forms.Textarea(attrs={"rows": 3, "dir": "auto"}),
            "groups": forms.CheckboxSelectMultiple,
        }
        field_classes = {"groups": _GroupsField}

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if not self.instance.private:
            del self.fields["more_readers"]

    def clean(self) -> dict[str, Any]:
        """Groups are of a private collection."""
        known: dict[str, Any] = self.cleaned_data
        if known.get("groups") and not known.get("private"):
            self.add_error("private", "Only a private collection has groups: tick this, or none of them.")
        return known


@console_page
def collection_list(request: HttpRequest) -> HttpResponse:
    """All collections, with who may read them."""
    try:
        context = {"collections": collections.listed()}
    except EngineUnavailable as reason:
        return render(request, "manage/collections.html", {"reason": reason}, status=503)
    return render(request, "manage/collections.html", context)


@console_form
def edit_collection(request: HttpRequest) -> HttpResponse:
    """One collection, which need not have a document yet. Its name may hold anything, so it is not in the path."""
    name = one_line(request.GET.get("name", ""))[:LONGEST_NAME]
    if not name:
        return redirect("manage-collections")
    if (named := collections.known_now().called(name)) != name:
        messages.info(request, f"There is this collection already: case and blanks in “{name}” make no other.")
        return redirect(f"{reverse('manage-collection')}?{urlencode({'name': named})}")
    record = Collection.objects.filter(name=name).first() or Collection(name=name)
    form = CollectionForm(request.POST if request.method == "POST" else None, instance=record)
    if form.is_valid():
        told = form.cleaned_data | {"groups": tuple(group.name for group in form.cleaned_data["groups"])}
        more_readers = told.pop("more_readers", False)
        try:
            record, _ = collections.save(
                name, CollectionSettings(**told), by=staff_member(request), more_readers=more_readers
            )
        except MoreReaders as reason:
            says = str(reason).replace("confirm that (more_readers)", "tick this to confirm it")  # the name is REST's
            form.add_error("more_readers" if "more_readers" in form.fields else None, says)
        else:
            messages.success(request, f"Saved. The next question goes by it, and so does who may read “{record}”.")
            return redirect("manage-collections")
    context = {"form": form, "name": name, "record": record}
    return render(request, "manage/collection.html", context, status=422 if form.errors else 200)


@console_action
def remove_collection(request: HttpRequest) -> HttpResponse:
    """Forget what is recorded of a collection; a private one only where its being public then is confirmed."""
    name = one_line(request.POST.get("name", ""))
    try:
        collections.remove(name, by=staff_member(request), public=bool(request.POST.get("public")))
    except Collection.DoesNotExist:
        messages.error(request, "Nothing is recorded of this collection.")
    except WouldBePublic as reason:
        messages.error(request, str(reason))
        return redirect(f"{reverse('manage-collection')}?{urlencode({'name': name})}")
    else:
        messages.success(request, f"Everybody who may ask reads what is in “{name}” now, and it has the weight 1.")
    return redirect("manage-collections")
