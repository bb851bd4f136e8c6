"""The web application: pages, REST API, administration and records.

Importing anything here loads neither torch nor faiss; the engine is imported on first use.
"""
