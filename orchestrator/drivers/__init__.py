"""What does and undoes steps on the server, one room for each kind of step."""
