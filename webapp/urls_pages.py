"""Addresses of the pages that everybody may see."""

from django.urls import path

from webapp.views import about, article, ask, fill, history

urlpatterns = [
    path("", ask.ask, name="ask"),
    path("answers/<uuid:answer_id>/", ask.answer, name="answer"),
    path("fill/", fill.fill, name="fill"),
    path("blocks/<str:block_id>/", article.block, name="block"),
    path("history/", history.history, name="history"),
    path("history/forget/", history.forget, name="history-forget"),
    path("how-it-works/", about.how_it_works, name="how-it-works"),
]
