"""One small reader for each thing that is looked at. None of them writes; none takes an empty answer for good."""
