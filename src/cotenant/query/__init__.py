"""Reading a store: SQL to answers, questions, findings and screens."""
