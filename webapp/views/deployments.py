"""Deployments: what answers now, what could, what did, and the way back."""

from __future__ import annotations

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from realm_core.errors import RealmError
from webapp.engine import holder
from webapp.models import Deployment, IndexGeneration
from webapp.services import deploying
from webapp.views.staff import staff_member, staff_only

_PAGE_SIZE = 20


@staff_only
@never_cache
@require_GET
def deployment_list(request: HttpRequest) -> HttpResponse:
    """The active deployment, the indexes that could take its place, and the history."""
    history = Deployment.objects.select_related("model", "index", "index__corpus", "activated_by")
    active = Deployment.active()
    context = {
        "active": active,
        "status": holder().status() if active else None,
        "indexes": IndexGeneration.objects.select_related("model", "corpus").exclude(
            pk__in=[active.index_id] if active else []
        ),
        "page": Paginator(history, _PAGE_SIZE).get_page(request.GET.get("page")),
    }
    return render(request, "manage/deployments.html", context)


@staff_only
@require_POST
def deploy(request: HttpRequest) -> HttpResponse:
    """Let an index, with the model that built it, answer from now on."""
    index = get_object_or_404(IndexGeneration, generation=request.POST.get("generation", ""))
    try:
        deploying.deploy(index, by=staff_member(request))
    except RealmError as error:
        messages.error(request, str(error))
    else:
        messages.success(
            request, f"{index.generation} is deployed. Questions are answered by it as soon as it is loaded."
        )
    return redirect("manage-deployments")


@staff_only
@require_POST
def roll_back(request: HttpRequest, deployment_id: int) -> HttpResponse:
    """Let the pair of an earlier deployment answer again."""
    earlier = get_object_or_404(Deployment, pk=deployment_id)
    try:
        deploying.roll_back(earlier, by=staff_member(request))
    except RealmError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Deployment {earlier.pk} answers again, as soon as it is loaded.")
    return redirect("manage-deployments")
