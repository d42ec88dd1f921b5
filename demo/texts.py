"""What is said in the demo's household."""

from itertools import cycle
import random

VOICE_COMMANDS = (
    "How long do I boil an egg?",
    "What goes well with tomatoes?",
    "How many grams are in an ounce?",
    "What can I cook with rice and beans?",
)
CHAT_QUESTIONS = (
    "Why is the sky blue?",
    "Tell me a short story about a brave mouse.",
    "How do birds know where to fly in winter?",
    "What is the biggest animal in the sea?",
)

_SUBJECTS = (
    "The heating",
    "The car",
    "The garden",
    "The kitchen",
    "The school",
    "The dog",
)
_VERBS = (
    "needed",
    "was given",
    "waited for",
    "did without",
    "came back with",
    "asked for",
)
_OBJECTS = (
    "a new filter, which the shop in town had only in the larger size",
    "more water than in any week before, because it had not rained at all",
    "an appointment on Tuesday morning, which was then moved to Thursday",
    "a second opinion, since the first bill seemed far too high to everybody",
    "half a day of patience, two phone calls and a form that had to be signed",
    "a spare part that the neighbours still had in their cellar from last year",
)
_SENTENCES = 48


def long_text(number: int) -> str:
    """Return a long text to be summarised, different for every number from its start.

    About 1,200 tokens for the demo's model.
    """
    chooser = random.Random(number)
    days = cycle(("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"))
    sentences = (
        f"On {day} {chooser.choice(_SUBJECTS).lower()} {chooser.choice(_VERBS)} "
        f"{chooser.choice(_OBJECTS)}."
        for day, _ in zip(days, range(_SENTENCES), strict=False)
    )
    return f"Report {number}. Summarise the notes of this week. " + " ".join(sentences)
