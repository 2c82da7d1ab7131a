"""Stores as earlier versions wrote them, and what they answer: readable for ever."""
