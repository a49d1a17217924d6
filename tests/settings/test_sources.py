import os
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from penstock.errors import BadSetting, CannotStart
from penstock.settings.loader import SettingsFile, load_settings, variable
from penstock.settings.settings import FIELDS, PoolSettings, Settings
from tests.settings.conftest import Machine

CANARY = "kanarienvogel"


# Sources and their order


def test_everything_has_a_default(machine: Machine) -> None:
    loaded = machine.load()
    assert loaded.settings.database_url is None
    assert loaded.settings.pool == PoolSettings()
    assert loaded.settings.pool.call_timeout == timedelta(seconds=30)
    assert loaded.origins.pop("home") == "PENSTOCK_HOME"
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.origins.keys() | {"home"} == FIELDS.keys()


def test_precedence(machine: Machine) -> None:
    def size_and_origin(environ: dict[str, str] | None = None, **overrides: object) -> tuple[int, str]:
        loaded = machine.load(environ, **overrides)
        return loaded.settings.pool.size, loaded.origins["pool.size"]

    assert size_and_origin() == (8, "default")
    in_home = machine.write("[pool]\nsize = 11\nstep = 2")
    assert size_and_origin() == (11, str(in_home))
    assert size_and_origin({"PENSTOCK_POOL__SIZE": "13"}) == (13, "PENSTOCK_POOL__SIZE")
    assert size_and_origin({"PENSTOCK_POOL__SIZE": "13"}, pool__size=14) == (14, "argument")
    assert size_and_origin({"PENSTOCK_POOL__SIZE": "13"}, pool={"size": 15}) == (15, "argument")
    assert size_and_origin({"PENSTOCK_POOL__SIZE": "13"}, pool__size=None) == (13, "PENSTOCK_POOL__SIZE")
    assert machine.load().settings.pool.step == 2, "a section is merged key by key"


def test_an_empty_text_unsets_what_a_lower_place_set(machine: Machine) -> None:
    machine.write('database_url = "postgresql://db/x"\n[pool]\nhold_limit = "2s"')
    loaded = machine.load({"PENSTOCK_DATABASE_URL": "", "PENSTOCK_POOL__HOLD_LIMIT": ""})
    assert loaded.settings.database_url is None
    assert loaded.settings.pool.hold_limit is None
    assert loaded.origins["database_url"] == "PENSTOCK_DATABASE_URL"


def test_tests_have_variables_of_their_own(machine: Machine) -> None:
    machine.load({"PENSTOCK_TEST_ANYTHING": "x"})
    assert machine.refusal({"PENSTOCK_TESTANYTHING": "x"}) == [
        "PENSTOCK_TESTANYTHING is not a setting. docs/settings.md lists all settings."
    ]


def test_the_client_has_variables_of_its_own(machine: Machine) -> None:
    machine.load({"PENSTOCK_URL": "http://127.0.0.1:8080", "PENSTOCK_KEY": "pk_x"})


# Home and other folders


@pytest.mark.parametrize(("user", "home"), [(0, "/var/lib/penstock"), (1000, "/home/ada/.penstock")])
def test_default_home(machine: Machine, monkeypatch: pytest.MonkeyPatch, user: int, home: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setenv("HOME", "/home/ada")
    assert load_settings(working_folder=machine.work, environ={}).settings.home == Path(home)


def test_a_user_without_home_gets_a_sentence(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(BadSetting, match="Set PENSTOCK_HOME"):
        load_settings(working_folder=machine.work, environ={})


def test_a_working_folder_that_is_gone_gets_a_sentence(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(machine.work)
    machine.work.rmdir()
    with pytest.raises(BadSetting, match="working folder does not exist"):
        load_settings(environ=machine.environ)


def test_home_is_found_by_argument_and_variable(machine: Machine) -> None:
    machine.write("[api]\nport = 1234")
    nowhere = str(machine.work / "nowhere")
    assert machine.load().settings.api.port == 1234
    assert machine.load({"PENSTOCK_HOME": nowhere}).settings.api.port == 8080
    assert machine.load({"PENSTOCK_HOME": nowhere}, home=machine.home).settings.api.port == 1234


def test_the_file_of_the_working_folder_is_not_read_unasked(machine: Machine) -> None:
    received = machine.write('home = "x"\nnonsense = 1\n[postgres]\nbinaries = "."', machine.work)
    loaded = machine.load()
    assert (loaded.settings.home, loaded.settings.postgres.binaries) == (machine.home, None)
    assert (loaded.file.path, loaded.file.origin) == (machine.home / "penstock.toml", "default")
    received.write_text("[api]\nport = 7")
    assert machine.load(home=machine.work).settings.api.port == 7, "as the home it is asked for"


def test_a_named_file_is_read_in_place_of_that_of_home(machine: Machine) -> None:
    machine.write("[api]\nport = 1\n[pool]\nsize = 11")
    named = machine.work / "other.toml"
    named.write_text('[api]\nport = 2\n[postgres]\nbinaries = "pg"')
    by_variable = machine.load({"PENSTOCK_CONFIG": "other.toml"})
    assert by_variable.file == SettingsFile(named, "PENSTOCK_CONFIG")
    assert by_variable.origins["api.port"] == str(named)
    assert (by_variable.settings.api.port, by_variable.settings.pool.size) == (2, 8)
    assert by_variable.settings.postgres.binaries == machine.work / "pg"
    by_argument = machine.load({"PENSTOCK_CONFIG": "missing.toml"}, config=named)
    assert by_argument.file == SettingsFile(named, "argument")
    assert machine.load({"PENSTOCK_CONFIG": ""}).settings.api.port == 1


def test_a_named_file_may_set_home(machine: Machine) -> None:
    del machine.environ["PENSTOCK_HOME"]
    named = machine.write('home = "../home"', machine.work)
    assert machine.load(config=named).settings.home == machine.work / "../home"


def test_a_named_file_must_exist(machine: Machine) -> None:
    assert machine.refusal({"PENSTOCK_CONFIG": "missing.toml"}) == [
        f"The settings file {machine.work}/missing.toml does not exist. "
        "Create it, or correct --config or PENSTOCK_CONFIG."
    ]


def test_home_cannot_be_set_in_its_own_file(machine: Machine) -> None:
    path = machine.write('home = "/elsewhere"', machine.home)
    [line] = machine.refusal()
    assert line.startswith(f"home in {path} cannot be set there, because that file is found through home.")
    assert "PENSTOCK_HOME" in line


def test_a_relative_path_starts_where_it_was_written(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    machine.write('[postgres]\nbinaries = "pg"', machine.home)
    assert machine.load().settings.postgres.binaries == machine.home / "pg"
    assert machine.load({"PENSTOCK_POSTGRES__BINARIES": "pg"}).settings.postgres.binaries == machine.work / "pg"
    assert machine.load(postgres__binaries="~/pg").settings.postgres.binaries == Path("/home/ada/pg")
    assert machine.load(home="h").settings.home == machine.work / "h"


@pytest.mark.parametrize("home", ["", "  ", "~nobody-of-this-name/x"])
def test_a_home_that_is_no_path(machine: Machine, home: str) -> None:
    [line] = machine.refusal({"PENSTOCK_HOME": home})
    assert line.startswith("PENSTOCK_HOME: ")
    assert line.endswith(("remove it.", "Write the whole path."))


def test_a_home_with_a_null_byte(machine: Machine) -> None:
    del machine.environ["PENSTOCK_HOME"]
    path = machine.write('home = "a\\u0000b"')
    assert machine.refusal(config=path) == [f"home in {path}: This is not a path. Name a folder, or remove it."]


# Unknown keys


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PENSTOCK_POOL__SZIE", "PENSTOCK_POOL__SIZE"),
        ("PENSTOCK_POOL_SIZE", "PENSTOCK_POOL__SIZE"),
        ("PENSTOCK_pool__size", "PENSTOCK_POOL__SIZE"),
        ("PENSTOCK_POOL.SIZE", "PENSTOCK_POOL__SIZE"),
        ("PENSTOCK_DB_URL", "PENSTOCK_DATABASE_URL"),
        ("PENSTOCK_HOME__X", "PENSTOCK_HOME"),
        ("PENSTOCK_DURABLE", "PENSTOCK_POSTGRES__DURABLE"),
    ],
)
def test_an_unknown_variable(machine: Machine, name: str, meant: str) -> None:
    assert machine.refusal({name: CANARY}) == [f"{name} is not a setting. Did you mean {meant}?"]


@pytest.mark.parametrize(
    ("toml", "key", "meant"),
    [
        ("[pool]\nszie = 3", "pool.szie", "pool.size"),
        ("[pol]\nsize = 3", "pol", "pool"),
        ("[pool.size2]", "pool.size2", "pool.size"),
        ("hme = 'x'", "hme", "home"),
    ],
)
def test_an_unknown_key_in_a_file(machine: Machine, toml: str, key: str, meant: str) -> None:
    path = machine.write(toml)
    assert machine.refusal() == [f"{key} in {path} is not a setting. Did you mean {meant}?"]


def test_an_unknown_argument(machine: Machine) -> None:
    assert machine.refusal(databse_url="postgresql://db/x") == [
        "databse_url (argument) is not a setting. Did you mean database_url?"
    ]


def test_a_table_for_a_value_and_a_value_for_a_table(machine: Machine) -> None:
    path = machine.write("pool = 3\n[api.port]\nx = 1\n[log]")
    assert machine.refusal({"PENSTOCK_LOG": "debug"}) == [
        "PENSTOCK_LOG is a section, not a value. Set one of its keys, such as PENSTOCK_LOG__LEVEL.",
        f"pool in {path} is a section, not a value. Set one of its keys, such as pool.size.",
        f"api.port in {path} is a value, not a table. Write port = … in its place.",
    ]


# Files that cannot be read


def test_malformed_toml_names_file_and_line(machine: Machine) -> None:
    path = machine.write("[pool]\nsize = 3\nstep 4\n")
    [line] = machine.refusal()
    assert line.startswith(f"{path} is not valid TOML: ")
    assert "line 3" in line


def test_files_that_cannot_be_read(machine: Machine) -> None:
    path = machine.home / "penstock.toml"
    path.write_bytes(b'home = "\xff"')
    assert machine.refusal() == [f"{path} is not UTF-8 text. Save it as UTF-8."]
    path.unlink()
    path.mkdir()
    assert machine.refusal() == [f"{path} cannot be read: Is a directory. Correct its permissions, or remove it."]


# Wrong values


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("pool.size", "many", "is 'many', but must be a whole number from 1 to 200."),
        ("pool.size", "0", "is '0', but must be a whole number from 1 to 200."),
        ("pool.size", "201", "is '201', but must be a whole number from 1 to 200."),
        ("api.port", "65536", "is '65536', but must be a whole number from 0 to 65535."),
        ("api.host", "http://x/", "is 'http://x/', but must be text, such as 127.0.0.1."),
        ("log.level", "loud", "is 'loud', but must be one of debug, info, warning, error."),
        ("log.format", "", "is '', but must be one of auto, json, console."),
        ("postgres.durable", "maybe", "is 'maybe', but must be true or false."),
        ("pool.call_timeout", "0s", ": '0s' is too short. A duration is more than zero."),
        ("postgres.shared_buffers", "1k", ": '1k' is not an amount of memory. Write it like 128MB or 2GB"),
        ("postgres.shared_buffers", "8kB", ": '8kB' is out of range. PostgreSQL takes 128kB to 4TB."),
        ("postgres.shared_buffers", "128MB -c x=y", ": '128MB -c x=y' is not an amount of memory."),
        ("database_url", "mysql://db/x", ": A database URL looks like postgresql://user@host:5432/name, "),
    ],
)
def test_a_wrong_value(machine: Machine, key: str, text: str, problem: str) -> None:
    name = variable(key)
    [line] = machine.refusal({name: text})
    assert line.startswith(name + (problem if problem.startswith(":") else f" {problem}"))
    path = machine.write(f'{key} = "{text}"')
    [line] = machine.refusal()
    assert line.startswith(f"{key} in {path}")


def test_wrong_types_in_a_file(machine: Machine) -> None:
    path = machine.write("home = 3\ndatabase_url = 3\n[pool]\nsize = true\nstep = [1]\ncall_timeout = true\n")
    del machine.environ["PENSTOCK_HOME"]
    assert machine.refusal(config=path) == [
        f"home in {path} is 3, but must be the path of a folder.",
        f"database_url in {path} must be text, such as postgresql://user@host:5432/name.",
        f"pool.size in {path} is True, but must be a whole number from 1 to 200.",
        f"pool.step in {path} is [1], but must be a whole number from 1 to 200.",
        f"pool.call_timeout in {path}: 'True' is not a duration. "
        "Write 250ms, 10s, 5m, 2h, 1d, 1h30m or a number of seconds.",
    ]


def test_all_problems_are_told_at_once(machine: Machine) -> None:
    machine.write("home = 'x'\n[pool]\nszie = 3\nsize = 0")
    problems = machine.refusal({"PENSTOCK_LOG__LEVEL": "loud", "PENSTOCK_BANANA": "x"}, api__port="x")
    keys = ("PENSTOCK_BANANA", "pool.szie", "home", "pool.size", "api.port", "PENSTOCK_LOG__LEVEL")
    assert [line.split()[0] for line in problems] == list(keys)


def test_a_long_value_is_shortened(machine: Machine) -> None:
    [line] = machine.refusal({"PENSTOCK_LOG__LEVEL": "x" * 1000})
    assert len(line) < 150


def test_a_bad_setting_ends_a_command() -> None:
    assert issubclass(BadSetting, CannotStart)


# Secrets


@pytest.mark.parametrize(
    "wrong",
    [
        f"mysql://ada:{CANARY}@db/x",
        f"postgresql://ada:{CANARY} @db/x",
        f"postgresql://ada:{CANARY}/x@db/x",
        f"postgresql://ada:12/{CANARY}@db/x",
        f"postgresql://ada:12?{CANARY}@db/x",
        f"postgresql://ada:{CANARY}#@db/x",
        f"postgresql://ada:{CANARY}@[::1/x:9z",
        f"postgresql://ada:{CANARY}@db:port/x",
        CANARY,
        [f"postgresql://ada:{CANARY}@db/x"],
        SecretStr(CANARY),
        {"password": CANARY},
    ],
)
def test_a_refused_secret_is_not_told(machine: Machine, wrong: object) -> None:
    with pytest.raises(BadSetting) as refused:
        machine.load(database_url=wrong)
    assert str(refused.value).startswith("database_url (argument)")
    assert CANARY not in str(refused.value)
    assert refused.value.__cause__ is None
    with pytest.raises(ValidationError) as invalid:
        Settings.model_validate({"database_url": wrong})
    assert CANARY not in str(invalid.value) + repr(invalid.value)


TAKE_IT = {"database_url", "home", "postgres.binaries", "blobs.folder", "bus.url", "packet.rules"}  # a URL or any path


@pytest.mark.parametrize("key", sorted(set(FIELDS) - TAKE_IT))
def test_a_secret_in_the_wrong_place_is_not_told(machine: Machine, key: str) -> None:
    for password in (CANARY, CANARY * 20):
        [line] = machine.refusal({variable(key): f"postgresql://ada:{password}@db/x"})
        assert line.startswith(variable(key))
        assert CANARY not in line


def test_a_secret_in_malformed_toml_is_not_told(machine: Machine) -> None:
    machine.write(f"database_url = postgresql://ada:{CANARY}@db/x")
    [line] = machine.refusal()
    assert "line 1" in line
    assert CANARY not in line
