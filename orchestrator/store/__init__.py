"""Where the state of a rollout lives, who may act on it, and the proof that nobody else does."""
