"""Exceptions of mfcp: one type per remedy, each message naming what to mend."""


class MfcpError(Exception):
    """Base of every error that mfcp raises on purpose; `exit_code` is the command line's."""

    exit_code = 1


class DataError(MfcpError):
    """A log, table or file is wrong: mend the data (the message names file, row or column)."""

    exit_code = 2


class SettingsError(MfcpError):
    """A key of params.yaml or an option is wrong: mend the settings (the message names the key)."""

    exit_code = 2


class InfeasibleError(MfcpError):
    """No plan meets the constraints: lower gamma or add a cluster (the message gives both numbers)."""

    exit_code = 2


class SolverError(MfcpError):
    """A solver failed on a valid problem: raise its limits or report a bug."""
