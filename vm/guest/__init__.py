"""What runs inside a guest: one job, told and answered through a disk."""
