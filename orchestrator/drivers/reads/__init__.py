"""Moving the application's readers and writers between the old and the new column."""
