"""The frame around all commands: version, help, usage errors and their exit codes."""


def test_version(run_quern):
    done = run_quern("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(b"quern 0.")


def test_help_goes_to_stdout(run_quern):
    done = run_quern("--help")
    assert done.returncode == 0
    assert done.stdout.startswith(b"usage: quern COMMAND")
    assert done.stderr == b""


def test_unknown_command_is_a_usage_error(run_quern):
    done = run_quern("frobnicate")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"quern: ")
    assert b"frobnicate" in done.stderr
