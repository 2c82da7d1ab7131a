"""Giving up rights: capabilities, system calls, and write access to files."""
