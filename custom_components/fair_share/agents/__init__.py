"""The conversation agents: from what was said to requests, and back to speech."""
