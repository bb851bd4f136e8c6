"""The two ways in which an activity ends other than well.

Everything that a person can cause (bad input, a file that is missing or damaged, a full disk) is a
`RealmError` whose text is one sentence that says what is wrong and where. Command lines print it and
exit with status 2, the API answers with it, a job keeps it. Anything else that is raised is a bug.
"""


class RealmError(Exception):
    """What went wrong and where, in a sentence for the person who caused it."""


class CannotFill(RealmError):
    """Masked sentences were to be filled by a model that has no encoder for them: it answers questions only."""


class Stopped(Exception):
    """The activity was asked to stop and did so at a safe point; what it had finished is kept."""
