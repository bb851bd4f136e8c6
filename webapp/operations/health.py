"""Endpoints for monitoring: liveness, readiness, metrics."""

from __future__ import annotations

from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from webapp.access.roles import Action, may
from webapp.metrics import exposition
from webapp.metrics.records import Records
from webapp.models import Deployment
from webapp.rest.authentication import token_of
from webapp.serving.engine import holder


@never_cache
def healthz(_request: HttpRequest) -> HttpResponse:
    """200 while the process answers requests."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
def readyz(_request: HttpRequest) -> HttpResponse:
    """200 if database, model and index are available; otherwise 503 with what is missing. Starts the loading."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        status = holder().status()
        serves = Deployment.objects.filter(pk__in=[status.deployment_id] if status.deployment_id else [])
        deployment = serves.select_related("model", "index").first()
    except Error:
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


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format: for admins, with a token of the scope metrics, and for everybody with METRICS_OPEN."""
    try:
        allowed = _may_measure(request)
    except Error:
        told = "The database, which knows who may see metrics, does not answer.\n"
        return HttpResponse(told, status=503, headers={"Retry-After": "5"}, content_type="text/plain")
    if not allowed:
        return HttpResponseForbidden("Metrics need a token of the scope metrics.\n", content_type="text/plain")
    try:
        body = exposition(Records())
    except Error:
        body = exposition()  # the server's own metrics need no database
    return HttpResponse(body, content_type=CONTENT_TYPE_LATEST)


def _may_measure(request: HttpRequest) -> bool:
    # The client's address proves nothing: requests through a proxy on this machine come from this machine.
    if settings.METRICS_OPEN:
        return True
    return may(token_of(request) or request.user, Action.MEASURE)
