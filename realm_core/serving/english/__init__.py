"""Rules for English questions: from its wording, how a question is read and which spans cannot answer it.

`rules.py` lowers the logits of spans, `topics.py` rewords the question, `whole_answers.py` extends the answer.
"""
