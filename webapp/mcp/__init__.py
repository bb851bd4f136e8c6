"""The Model Context Protocol: answers with provenance, as tools for programs based on language models."""
