"""The OpenAI-compatible way into the household's queue, for all other programs."""
