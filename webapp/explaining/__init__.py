"""Why an answer is wrong."""
