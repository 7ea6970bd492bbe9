"""The stages of dvc.yaml: each reads its settings, calls the library, writes files. No formula lives here."""

from mfcp.environment import same_instructions

same_instructions()  # dvc.lock holds for every machine
