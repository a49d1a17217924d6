"""`penstock db`: start, stop, migrate, vacuum, dump and restore. dump, restore and psql use the programs of the server."""

import asyncio
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from signal import SIGINT
from typing import Annotated, Any

import typer

from penstock.cli.session import Json, group, report, run
from penstock.database import (
    EmbeddedServer,
    Session,
    bring_schema,
    find_program,
    make_roles,
    reach_database,
    statements,
)
from penstock.engine import HOT_TABLES
from penstock.errors import CannotStart
from penstock.settings import DatabaseUrl, Settings, load_settings

sql = statements(__file__)

app = group("Start, stop, migrate, dump and restore the database.")
VACUUM_LIMIT = 24 * 3600.0  # seconds


@app.command()
def start(as_json: Json = False) -> None:
    """Start the embedded server. It runs until `penstock db stop`."""
    settings = load_settings().settings
    server = _embedded(settings)

    async def main() -> None:
        joined = await server.join()
        server.keep()
        if as_json:
            typer.echo(json.dumps({"how": joined.how, "seconds": round(joined.seconds, 3), "url": str(joined.url)}))
        else:
            typer.echo(f"PostgreSQL {joined.how} in {joined.seconds:.2f} s: {joined.url}")

    run(main())


@app.command()
def stop(force: Annotated[bool, typer.Option(help="Stop it even while it is in use.")] = False) -> None:
    """Stop the embedded server."""
    server = _embedded(load_settings().settings)
    stopped = run(server.stop(force=force))
    typer.echo("Stopped." if stopped else "The server was not running.")


@app.command()
def path() -> None:
    """Print the data folder of the embedded server."""
    typer.echo(_embedded(load_settings().settings).postmaster.data)


@app.command()
def migrate() -> None:
    """Migrate the schema to this release. Every process does so when it starts."""
    settings = load_settings().settings

    async def main() -> None:
        async with reach_database(settings, progress=typer.echo):
            typer.echo("The schema is up to date.")

    run(main())


@app.command()
def vacuum() -> None:
    """Vacuum and analyze the tables whose rows are short-lived."""
    run(_vacuum(load_settings().settings))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context) -> None:
    """Open psql. Further arguments are passed on, such as -c "select 1"."""
    raise typer.Exit(run(_psql(load_settings().settings, context.args)))


@app.command()
def dump(file: Annotated[Path, typer.Argument(help="File to write.", dir_okay=False)]) -> None:
    """Write the database into a file. `restore` of this or a later release reads it."""
    raise typer.Exit(run(_dump(load_settings().settings, file)))


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="File written by `dump`.", exists=True, dir_okay=False)],
    replace: Annotated[bool, typer.Option("--replace", help="Replace what is in the database.")] = False,
) -> None:
    """Restore the database from a dump. All or nothing; then the schema is migrated."""
    raise typer.Exit(run(_restore(load_settings().settings, file, replace=replace)))


async def _vacuum(settings: Settings) -> None:
    """On a direct connection without a statement timeout: a large table takes minutes."""
    async with reach_database(settings, progress=report, migrating=False) as reached:
        session = await reached.address.open_session("vacuum", direct=True)
        try:
            await session.execute("set statement_timeout = 0")
            for table in await sql.vacuums(session, tables=list(HOT_TABLES)):
                began = time.monotonic()
                await session.execute(table["statement"], timeout=VACUUM_LIMIT)
                left = await sql.dead_rows.value(session, name=table["name"])
                seconds = time.monotonic() - began
                typer.echo(f"{table['name']}: {table['dead']:,} dead rows before, {left:,} left, in {seconds:.1f} s")
        finally:
            session.terminate()


async def _psql(settings: Settings, arguments: list[str]) -> int:
    async with reach_database(settings, progress=report, migrating=False) as reached:
        asyncio.get_running_loop().add_signal_handler(SIGINT, lambda: None)  # psql's own: it cancels a query
        return await asyncio.to_thread(_call, settings, reached.address.direct_url, "psql", *arguments)


async def _dump(settings: Settings, file: Path) -> int:
    report(f"Dumping into {file} …")
    half = file.with_name(file.name + ".new")
    try:
        async with reach_database(settings, progress=report, migrating=False) as reached:
            code = await asyncio.to_thread(
                _call,
                settings,
                reached.address.direct_url,
                "pg_dump",
                "--format=custom",
                "--no-owner",
                "--enable-row-security",  # a user that is not a superuser sees all rows by a policy, and may dump them
                f"--file={half}",
            )
        if code == 0:
            half.rename(file)
            typer.echo(f"Wrote {file}, {file.stat().st_size:,} bytes.")
        return code
    finally:
        half.unlink(missing_ok=True)


async def _restore(settings: Settings, file: Path, *, replace: bool) -> int:
    report(f"Restoring {file} …")
    async with reach_database(settings, progress=report, migrating=False) as reached:
        url = reached.address.direct_url
        session = await reached.address.open_session("restore", direct=True)
        try:
            await _refuse_restore(session, replace=replace)
            guarded = await make_roles(session)  # a dump refers to them without creating them
        finally:
            session.terminate()
        code = await asyncio.to_thread(_read_dump, settings, url, file, guarded=guarded)
        if code == 0:
            await bring_schema(settings, reached.address, report)
            typer.echo(f"Restored {file}.")
        return code


async def _refuse_restore(session: Session, *, replace: bool) -> None:
    if await sql.other_processes.value(session):
        raise CannotStart("Other Penstock processes are using the database: stop them, then restore.")
    if not replace and await sql.has_schema.value(session):
        raise CannotStart("The database is not empty: add --replace to replace its contents by the dump.")


def _read_dump(settings: Settings, url: DatabaseUrl, file: Path, *, guarded: bool) -> int:
    """pg_restore writes the statements, psql runs them in one transaction: a broken dump changes nothing."""
    options = ["--clean", "--if-exists", "--no-owner", "--file=-"]
    if not guarded:  # without the roles of requests, nothing can be granted to them
        options += ["--no-privileges", "--no-policies"]
    with tempfile.TemporaryFile() as script:
        code = _call(settings, None, "pg_restore", *options, str(file), stdout=script)
        if code != 0:
            raise CannotStart(
                f"{file} cannot be read as a dump: nothing was changed. `penstock db dump FILE` writes one."
            )
        script.seek(0)
        return _call(
            settings, url, "psql", "--quiet", "--no-psqlrc", "--single-transaction", "--set=ON_ERROR_STOP=1",
            "--output=/dev/null", "--command=drop schema if exists penstock cascade", "--file=-", stdin=script,
        )  # fmt: skip


def _call(settings: Settings, url: DatabaseUrl | None, program: str, *arguments: str, **files: Any) -> int:
    """The password is passed in the environment: every user of the machine can read a command line."""
    environment = os.environ | {"PGOPTIONS": "-c client_min_messages=warning"}
    command = [find_program(program, settings.postgres.binaries, own_server=settings.database_url is None)]
    if url is not None:
        environment["PGPASSWORD"] = url.password or ""
        command += ["--dbname", url.without_password]
    return subprocess.run([*command, *arguments], env=environment, check=False, **files).returncode


def _embedded(settings: Settings) -> EmbeddedServer:
    if settings.database_url is not None:
        raise CannotStart("database_url is set: this command manages only the embedded server.")
    return EmbeddedServer(settings.home, settings.postgres, report)
