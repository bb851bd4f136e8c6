"""Addresses of the pages that everybody may see."""

from django.urls import path

from webapp.accounts import views as account
from webapp.articles import views as article
from webapp.asking import history_views as history
from webapp.asking import views as ask
from webapp.explaining import views as why
from webapp.feedback import views as feedback
from webapp.filling import views as fill
from webapp.pages import about

urlpatterns = [
    path("", ask.ask, name="ask"),
    path("answers/<uuid:answer_id>/", ask.answer, name="answer"),
    path("answers/<uuid:answer_id>/feedback/", feedback.say, name="feedback"),
    path("answers/<uuid:answer_id>/feedback/take-back/", feedback.take_back, name="feedback-take-back"),
    path("answers/<uuid:answer_id>/why/", why.explain, name="answer-why"),
    path("fill/", fill.fill, name="fill"),
    path("blocks/<str:block_id>/", article.block, name="block"),
    path("history/", history.history, name="history"),
    path("history/forget/", history.forget, name="history-forget"),
    path("account/", account.account, name="account"),
    path("account/tokens/", account.make_token, name="account-token-make"),
    path("account/tokens/<int:pk>/revoke/", account.revoke_token, name="account-token-revoke"),
    path("account/password/", account.PasswordView.as_view(), name="account-password"),
    path("how-it-works/", about.how_it_works, name="how-it-works"),
]
