"""Completion in a real shell, where one is installed."""

import shutil
import subprocess

import pytest
from commands.called import run

ASK = """
eval "$(cat)"
COMP_WORDS=({words}) COMP_CWORD={at} COMP_LINE="{words}" COMP_POINT=100
_shtab_mfcp
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("mfcp re", {"release", "report"}),
        ("mfcp platform pro", {"promote"}),
        ("mfcp match --mo", {"--model"}),
        ("mfcp completion z", {"zsh"}),
    ],
)
def test_bash_completes_commands_options_and_choices(capsys, words, expected):
    code, script, _ = run(capsys, "completion", "bash")
    assert code == 0
    if shutil.which("bash") is None:
        pytest.skip("no bash on this machine")
    program = ASK.format(words=words, at=len(words.split()) - 1)
    done = subprocess.run(["bash", "-c", program], input=script, capture_output=True, text=True, timeout=30, check=True)
    assert set(done.stdout.split()) == expected


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_have_a_script_that_names_the_commands(capsys, shell):
    code, script, _ = run(capsys, "completion", shell)
    assert code == 0
    assert all(name in script for name in ("benchmark", "simulate", "rollback"))


def test_another_shell_is_refused(capsys):
    code, _, err = run(capsys, "completion", "cmd")
    assert (code, "invalid choice: 'cmd'" in err) == (2, True)
