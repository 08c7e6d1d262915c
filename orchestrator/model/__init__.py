"""The nouns of a rollout: frozen values, standard library only, no effects."""
