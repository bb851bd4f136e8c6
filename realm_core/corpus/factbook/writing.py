"""A country → its article: plain sentences, each of which names the country.

A reader of single passages cannot know which country a list of fields is about, and people do not ask in fields: "The
highest point of Australia is Mount Kosciuszko" can be found and read, "Elevation: highest point" cannot.
"""

from __future__ import annotations

from realm_core.corpus.factbook import economy, land, people, state
from realm_core.corpus.factbook.country import Country
from realm_core.corpus.factbook.fields import paragraphs


def wikitext_of(country: Country) -> str:
    """The article with its headings, as the wikitext that ingesting reads: so a block keeps to one subject."""
    lead = [
        *land.location(country),
        *state.capital(country),
        *people.languages(country),
        *economy.currency(country),
        *people.population(country),
    ]
    sections = {
        "": lead,
        "Name": list(state.names_of(country)),
        "Geography": list(land.geography(country)),
        "People": list(people.society(country)),
        "Government": list(state.government(country)),
        "Symbols": list(state.symbols(country)),
        "Economy": list(economy.economy(country)),
        "History": paragraphs(country.raw("Introduction", "Background")),
    }
    written = []
    for heading, sentences in sections.items():
        if sentences:
            separator = "\n\n" if heading == "History" else " "
            text = separator.join(sentences).replace("..", ".")  # after "Washington, D.C."
            written.append((f"== {heading} ==\n" if heading else "") + text)
    return "\n\n".join(written) + "\n"
