"""Giving up rights: the user, capabilities, files and system calls."""
