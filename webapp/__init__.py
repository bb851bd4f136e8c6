"""The web application: pages, REST API, administration and the records of what was done.

Importing anything here loads neither torch nor faiss; the engine is imported when it is first needed.
"""
