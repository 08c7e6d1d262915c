"""All SQL, and the only room that talks to MySQL."""
