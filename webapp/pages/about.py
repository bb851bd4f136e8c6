"""How this works."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.templatetags.numbers import WORDS


@require_safe
def how_it_works(request: HttpRequest) -> HttpResponse:
    """The model, its formulas and a worked example."""
    upper = [1.0, *(least for least, _ in WORDS)]
    scale = [(words, least, most) for (least, words), most in zip(WORDS, upper, strict=False)]
    return render(request, "about/how_it_works.html", {"scale": scale})
