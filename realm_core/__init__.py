"""REALM: retrieval-augmented language model pre-training and open-domain question answering.

A library and a command line (`python -m realm_core`); it knows neither Django nor Celery. Nothing is
imported here, so that light parts (corpus, text, errors) load without torch.
"""

__version__ = "0.2.0"
