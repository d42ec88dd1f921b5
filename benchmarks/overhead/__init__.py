"""What our path adds to a direct connection, beside what LiteLLM's proxy adds."""
