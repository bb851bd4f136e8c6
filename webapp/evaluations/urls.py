"""Addresses of evaluations and comparisons."""

from django.urls import path

from webapp.evaluations import api, views

console = [
    path("evaluations/<int:pk>/", views.evaluation_page, name="manage-evaluation"),
    path("evaluations/<int:pk>/<slug:panel>.svg", views.evaluation_plot, name="manage-evaluation-plot"),
    path("compare/", views.compare, name="manage-compare"),
    path("compare/measure/", views.measure, name="manage-compare-measure"),
    path("compare/<int:first_pk>/<int:second_pk>/", views.comparison, name="manage-comparison"),
]

rest = [
    path("evaluations/<int:record_id>/predictions", api.PredictionsView.as_view(), name="api-predictions"),
]
