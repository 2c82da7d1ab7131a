"""The books: equations that the numbers of any store must satisfy."""
