"""For whoever watches the site: alive, and able to answer."""

from __future__ import annotations

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache

from webapp.engine import holder
from webapp.models import Deployment


@never_cache
def healthz(_request: HttpRequest) -> HttpResponse:
    """200 while the process answers at all."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
def readyz(_request: HttpRequest) -> HttpResponse:
    """200 when database, model and index are there; 503 with what is missing otherwise. Starts the loading."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        status = holder().status()
        serves = Deployment.objects.filter(pk__in=[status.deployment_id] if status.deployment_id else [])
        deployment = serves.select_related("model", "index").first()
    except DatabaseError:
        return JsonResponse(
            {"ready": False, "database": "unavailable", "engine": "unknown", "model": None, "index": None},
            status=503,
        )
    ready = status.state == "ready"
    body = {
        "ready": ready,
        "database": "ok",
        "engine": status.state,
        "model": str(deployment.model) if ready and deployment else None,
        "index": deployment.index.generation if ready and deployment else None,
    }
    if status.reason:
        body["reason"] = status.reason
    return JsonResponse(body, status=200 if ready else 503)
