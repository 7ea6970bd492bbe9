"""The sub-commands of `mfcp`, one file each: options, calls into the library, what is printed."""
