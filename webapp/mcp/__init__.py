"""The Model Context Protocol: answers with provenance, as tools for programs that are built on language models."""
