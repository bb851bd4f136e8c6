"""Addresses of question sets, and of accepted feedback as questions."""

from django.urls import path

from webapp.questions import api, views

console = [
    path("questions/", views.question_list, name="manage-questions"),
    path("questions/from-feedback/", views.from_feedback, name="manage-questions-from-feedback"),
    path("questions/<int:pk>/", views.question_set, name="manage-question-set"),
    path("feedback/export/", views.export_feedback, name="manage-feedback-export"),
]
rest = [path("feedback/export", api.ExportView.as_view(), name="api-feedback-export")]
