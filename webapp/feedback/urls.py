"""Addresses of feedback and its review."""

from django.urls import path

from webapp.feedback import api, review_api, review_views, views

site = [
    path("answers/<uuid:answer_id>/feedback/", views.give, name="feedback"),
    path("answers/<uuid:answer_id>/feedback/take-back/", views.withdraw, name="feedback-take-back"),
]

console = [
    path("feedback/", review_views.feedback_list, name="manage-feedback"),
    path("feedback/<int:pk>/review/", review_views.review, name="manage-feedback-review"),
]

rest = [
    path("answers/<uuid:answer_id>/feedback", api.FeedbackView.as_view(), name="api-feedback"),
    path("feedback", review_api.AllFeedbackView.as_view(), name="api-all-feedback"),
]
