"""What the gateway costs in a real Home Assistant, beside LiteLLM's proxy."""
