"""Reading a store: SQL, derived tables, named questions, findings, and the data of every screen."""
