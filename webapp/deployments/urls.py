"""Addresses of deployments."""

from django.urls import path

from webapp.deployments import api, views

console = [
    path("deployments/", views.deployment_list, name="manage-deployments"),
    path("deployments/now/", views.deployed, name="manage-deployed"),
    path("deployments/deploy/", views.deploy, name="manage-deploy"),
    path("deployments/measure/", views.measure, name="manage-deploy-measure"),
    path("deployments/<int:deployment_id>/roll-back/", views.roll_back, name="manage-roll-back"),
]

rest = [
    path("deployments", api.DeploymentsView.as_view(), name="api-deployments"),
    path("deployments/<int:deployment_id>", api.DeploymentView.as_view(), name="api-deployment"),
    path("deployments/<int:deployment_id>/activate", api.ActivateView.as_view(), name="api-activate"),
]
