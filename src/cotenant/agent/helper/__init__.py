"""The privileged process: loads programs, finds libraries, places probes, asks runtimes."""
