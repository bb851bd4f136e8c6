"""Deployments over REST: list, deploy, roll back."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.deployments import service as deploying
from webapp.deployments.serializers import ConfirmationSerializer, DeploymentSerializer, NewDeploymentSerializer
from webapp.models import Deployment, IndexGeneration, ModelVersion
from webapp.rest.base import OperatorView
from webapp.rest.lists import RecordList
from webapp.rest.operation import given, operation, sent
from webapp.rest.parameters import by_id, by_time, by_truth

_NEW_DEPLOYMENT: Final[dict[str, Any]] = {"index": 4, "note": "The newest articles"}

_DEPLOYMENT: Final[dict[str, Any]] = {
    "id": 12,
    "model": 3,
    "index": 4,
    "is_active": True,
    "activated_at": "2026-01-31T12:30:00Z",
    "deactivated_at": None,
    "activated_by": "stella",
    "note": "The newest articles",
}

_DOUBTS: Final[dict[str, Any]] = {
    "type": "about:blank",
    "title": "Conflict",
    "status": 409,
    "detail": "It was never measured on the same questions as the active deployment. "
    "To deploy it all the same, confirm that.",
    "doubts": ["It was never measured on the same questions as the active deployment."],
    "confirm": "4d1e0c5a97b3f826",
}
_LIST: Final = RecordList(
    filters=(
        by_id("model", ModelVersion),
        by_id("index", IndexGeneration),
        by_truth("active", "is_active", "Whether it is the active one."),
        *by_time("activated_at"),
    ),
    orders=("id", "activated_at"),  # a clock may have been set back between two deployments
    address="deployments",
    kind=DeploymentSerializer,
    example=_DEPLOYMENT,
    page_name="DeploymentPage",
)
_CHECKED: Final = (
    "The pair is checked first: a pair that cannot answer is refused (422); a possible mistake, such as a model "
    "that measures worse than the active deployment, must be confirmed: the 409 lists it in `doubts`, and the next "
    "request confirms it with the 409's `confirm`."
)


class DeploymentsView(OperatorView):
    @_LIST.operation("deployments", "List deployments", "The latest first. One of them is active.")
    def get(self, _request: Request) -> QuerySet[Deployment]:
        return Deployment.objects.select_related("activated_by")

    @operation(
        "deploy",
        "Deploy",
        "Deploys a model and an index. Every web process loads them beside the previous pair and "
        f"switches between two questions. {_CHECKED}",
        takes=NewDeploymentSerializer,
        gives={201: DeploymentSerializer},
        problems=[409, 422],
        examples=[
            sent("An index", _NEW_DEPLOYMENT),
            given("Deployment", _DEPLOYMENT, 201),
            given("Doubts", _DOUBTS, 409),
        ],
    )
    def post(self, _request: Request, body: dict[str, Any]) -> Response:
        deployment = deploying.deploy(
            body["index"],
            model=body["model"],
            by=self.operator,
            note=body["note"].strip(),
            confirmed=body["confirm"],
        )
        return self.made(DeploymentSerializer, deployment, "api-deployment")


class DeploymentView(OperatorView):
    @operation("deployment", "A deployment", gives=DeploymentSerializer, examples=[given("Deployment", _DEPLOYMENT)])
    def get(self, _request: Request, deployment_id: int) -> Response:
        return Response(DeploymentSerializer(get_object_or_404(Deployment, pk=deployment_id)).data)


class ActivateView(OperatorView):
    @operation(
        "roll_back",
        "Roll back",
        "Deploys the pair of an earlier deployment again. That is a new deployment, whose address is "
        f"`Location`. {_CHECKED}",
        takes=ConfirmationSerializer,
        gives={201: DeploymentSerializer},
        problems=[409, 422],
        examples=[
            sent("Back", {}),
            sent("Back, the doubts confirmed", {"confirm": _DOUBTS["confirm"]}),
            given("Doubts", _DOUBTS, 409),
            given("Deployment", _DEPLOYMENT, 201),
        ],
    )
    def post(self, _request: Request, deployment_id: int, body: dict[str, Any]) -> Response:
        earlier = get_object_or_404(Deployment.objects.select_related("model", "index"), pk=deployment_id)
        deployment = deploying.roll_back(earlier, by=self.operator, confirmed=body["confirm"])
        return self.made(DeploymentSerializer, deployment, "api-deployment")
