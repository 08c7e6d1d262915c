"""The nouns of a rollout: frozen values, no effects."""
