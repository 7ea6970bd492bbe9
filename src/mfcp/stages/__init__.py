"""The stages of dvc.yaml: each reads its settings, calls the library, writes files. No formula lives here."""
