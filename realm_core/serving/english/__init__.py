"""What the wording of an English question says of its answer: how it is read, and what cannot be it.

`rules.py` lowers the logits of what cannot be it, `topics.py` chooses what is read, `whole_answers.py` what is shown.
"""
