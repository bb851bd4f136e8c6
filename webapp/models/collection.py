"""Collections: names on documents of the corpus, and who may read them."""

from __future__ import annotations

from typing import Final

from django.contrib.auth.models import Group
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from realm_core.corpus.records import LONGEST_COLLECTION

LONGEST_NAME: Final = LONGEST_COLLECTION
LONGEST_TITLE: Final = 200
LONGEST_DESCRIPTION: Final = 1000
LEAST_WEIGHT: Final = 0.001
MOST_WEIGHT: Final = 1000.0


class Collection(models.Model):
    """What is known of a collection. One without a row is for everybody who may ask, and has weight 1.

    Whether it is private is a field of its own: a group that is deleted must not make a collection public.
    """

    name = models.CharField(max_length=LONGEST_NAME, unique=True, help_text="As documents name it.")
    title = models.CharField(max_length=LONGEST_TITLE, blank=True, help_text="What people are shown. Empty: its name.")
    description = models.TextField(max_length=LONGEST_DESCRIPTION, blank=True)
    private = models.BooleanField(
        default=False, help_text="Only admins and the groups below read its documents, and answers from them."
    )
    groups = models.ManyToManyField(
        Group, blank=True, related_name="+", help_text="Who reads it, besides admins, where it is private."
    )
    weight = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(LEAST_WEIGHT), MaxValueValidator(MOST_WEIGHT)],
        help_text="What the prior of its passages is multiplied by before it is normalised; 1 changes nothing.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.title or self.name
