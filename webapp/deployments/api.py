"""Deployments over REST: list, deploy, roll back."""

from __future__ import annotations

from typing import Final

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from webapp.deployments import examples
from webapp.deployments import service as deploying
from webapp.deployments.serializers import ConfirmationSerializer, DeploymentSerializer, NewDeploymentSerializer
from webapp.models import Deployment, IndexGeneration, ModelVersion
from webapp.rest.base import OperatorView, checked, problem_responses
from webapp.rest.lists import RecordList, page_response
from webapp.rest.parameters import by_id, by_time, by_truth, only_parameters

_LIST: Final = RecordList(
    filters=(
        by_id("model", ModelVersion),
        by_id("index", IndexGeneration),
        by_truth("active", "is_active", "Whether it is the active one."),
        *by_time("activated_at"),
    ),
    orders=("id", "activated_at"),  # a clock may have been set back between two deployments
)
_CHECKED: Final = (
    "The pair is checked first: a pair that cannot answer is refused (422); a possible mistake, such as a model "
    "that measures worse than the active deployment, must be confirmed: the 409 lists it in `doubts`, and the next "
    "request confirms it with the 409's `confirm`."
)


class DeploymentsView(OperatorView):
    """The active deployment and earlier ones."""

    @extend_schema(
        operation_id="deployments",
        summary="List deployments",
        description="The latest first. One of them is active.",
        parameters=_LIST.parameters,
        responses={200: page_response("DeploymentPage", DeploymentSerializer), **problem_responses(400, 403)},
        examples=[OpenApiExample("Deployments", value=examples.DEPLOYMENTS, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request) -> Response:
        return _LIST.page(request, Deployment.objects.select_related("activated_by"), DeploymentSerializer)

    @extend_schema(
        operation_id="deploy",
        summary="Deploy",
        description="Deploys a model and an index. Every web process loads them beside the previous pair and "
        f"switches between two questions. {_CHECKED}",
        request=NewDeploymentSerializer,
        responses={201: DeploymentSerializer, **problem_responses(400, 403, 409, 413, 415, 422)},
        examples=[
            OpenApiExample("An index", value=examples.NEW_DEPLOYMENT, request_only=True),
            OpenApiExample("Deployment", value=examples.DEPLOYMENT, response_only=True, status_codes=["201"]),
            OpenApiExample("Doubts", value=examples.DOUBTS, response_only=True, status_codes=["409"]),
        ],
    )
    def post(self, request: Request) -> Response:
        wanted = checked(request, NewDeploymentSerializer)
        deployment = deploying.deploy(
            wanted["index"],
            model=wanted["model"],
            by=self.operator,
            note=wanted["note"].strip(),
            confirmed=wanted["confirm"],
        )
        return _created(request, deployment)


class DeploymentView(OperatorView):
    """One deployment."""

    @extend_schema(
        operation_id="deployment",
        summary="A deployment",
        responses={200: DeploymentSerializer, **problem_responses(400, 403, 404)},
        examples=[OpenApiExample("Deployment", value=examples.DEPLOYMENT, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request, deployment_id: int) -> Response:
        only_parameters(request, ())
        return Response(DeploymentSerializer(get_object_or_404(Deployment, pk=deployment_id)).data)


class ActivateView(OperatorView):
    """Roll back to an earlier deployment."""

    @extend_schema(
        operation_id="roll_back",
        summary="Roll back",
        description="Deploys the pair of an earlier deployment again. That is a new deployment, whose address is "
        f"`Location`. {_CHECKED}",
        request=ConfirmationSerializer,
        responses={201: DeploymentSerializer, **problem_responses(400, 403, 404, 409, 413, 415, 422)},
        examples=[
            OpenApiExample("Back", value={}, request_only=True),
            OpenApiExample(
                "Back, the doubts confirmed", value={"confirm": examples.DOUBTS["confirm"]}, request_only=True
            ),
            OpenApiExample("Doubts", value=examples.DOUBTS, response_only=True, status_codes=["409"]),
            OpenApiExample("Deployment", value=examples.DEPLOYMENT, response_only=True, status_codes=["201"]),
        ],
    )
    def post(self, request: Request, deployment_id: int) -> Response:
        confirmed = checked(request, ConfirmationSerializer)["confirm"]
        earlier = get_object_or_404(Deployment.objects.select_related("model", "index"), pk=deployment_id)
        return _created(request, deploying.roll_back(earlier, by=self.operator, confirmed=confirmed))


def _created(request: Request, deployment: Deployment) -> Response:
    address = reverse("api-deployment", args=[deployment.pk], request=request)
    return Response(DeploymentSerializer(deployment).data, status=201, headers={"Location": address})
