"""Giving up rights: capabilities, system calls and the right to change files."""
