"""`penstock db`: start, stop, migrate, vacuum, dump and restore. dump, restore and psql use the programs of the server."""

import asyncio
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock import database
from penstock.cli.session import Json
from penstock.engine import HOT_TABLES
from penstock.errors import CannotStart
from penstock.settings import DatabaseUrl, Settings, load_settings

sql = database.statements(__file__)

app = typer.Typer(
    help="Start, stop, look into, dump and restore the database.", no_args_is_help=True, rich_markup_mode=None
)
VACUUM_LIMIT = 24 * 3600.0  # seconds


@app.command()
def start(as_json: Json = False) -> None:
    """Start the embedded server and let it run until `penstock db stop`."""
    settings = load_settings().settings
    server = _embedded(settings)

    async def main() -> None:
        joined = await server.join()
        server.keep()
        if as_json:
            typer.echo(json.dumps({"how": joined.how, "seconds": round(joined.seconds, 3), "url": str(joined.url)}))
        else:
            typer.echo(f"PostgreSQL {joined.how} in {joined.seconds:.2f} s: {joined.url}")

    asyncio.run(main())


@app.command()
def stop(force: Annotated[bool, typer.Option(help="Also while it is in use.")] = False) -> None:
    """Stop the embedded server."""
    server = _embedded(load_settings().settings)
    stopped = asyncio.run(server.stop(force=force))
    typer.echo("Stopped." if stopped else "The server did not run.")


@app.command()
def path() -> None:
    """Print the data folder of the embedded server."""
    typer.echo(_embedded(load_settings().settings).postmaster.data)


@app.command()
def migrate() -> None:
    """Bring the schema to this release's state (every process does this when it starts, if it may)."""
    settings = load_settings().settings

    async def main() -> None:
        async with database.reach_database(settings, progress=typer.echo):
            typer.echo("The schema is up to date.")

    asyncio.run(main())


@app.command()
def vacuum() -> None:
    """Clean the tables whose rows live for seconds, and renew their statistics; the work goes on meanwhile."""
    asyncio.run(_vacuum(load_settings().settings))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context) -> None:
    """Open psql; further arguments are psql's own, such as -c "select 1"."""
    raise typer.Exit(asyncio.run(_psql(load_settings().settings, context.args)))


@app.command()
def dump(file: Annotated[Path, typer.Argument(help="Where to write the dump.", dir_okay=False)]) -> None:
    """Write the whole database into one file, which `restore` of this or a later release reads."""
    raise typer.Exit(asyncio.run(_dump(load_settings().settings, file)))


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A file written by dump.", exists=True, dir_okay=False)],
    replace: Annotated[bool, typer.Option("--replace", help="Replace what is in the database.")] = False,
) -> None:
    """Read a dump into the database, all of it or nothing, and migrate it to this release."""
    raise typer.Exit(asyncio.run(_restore(load_settings().settings, file, replace=replace)))


async def _vacuum(settings: Settings) -> None:
    """Past any pooler, and without the deadline of ordinary calls: a large table takes minutes."""
    async with database.reach_database(settings, progress=_tell, migrating=False) as reached:
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
    async with database.reach_database(settings, progress=_tell, migrating=False) as reached:
        return await asyncio.to_thread(_call, settings, reached.address.direct_url, "psql", *arguments)


async def _dump(settings: Settings, file: Path) -> int:
    half = file.with_name(file.name + ".new")
    try:
        async with database.reach_database(settings, progress=_tell, migrating=False) as reached:
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
    async with database.reach_database(settings, progress=_tell, migrating=False) as reached:
        url = reached.address.direct_url
        session = await reached.address.open_session("restore", direct=True)
        try:
            await _refuse_restore(session, replace=replace)
            guarded = await database.make_roles(session)  # a dump names them, and has them not
        finally:
            session.terminate()
        code = await asyncio.to_thread(_read_dump, settings, url, file, guarded=guarded)
        if code == 0:
            await database.bring_schema(settings, reached.address, _tell)
            typer.echo(f"Restored {file}.")
        return code


async def _refuse_restore(session: database.Session, *, replace: bool) -> None:
    if await sql.other_processes.value(session):
        raise CannotStart("Other Penstock processes use the database: stop them before you restore.")
    if not replace and await sql.has_schema.value(session):
        raise CannotStart("The database is not empty: add --replace to put the dump in the place of what is there.")


def _read_dump(settings: Settings, url: DatabaseUrl, file: Path, *, guarded: bool) -> int:
    """pg_restore writes the statements, psql runs them in one transaction: a broken dump changes nothing."""
    options = ["--clean", "--if-exists", "--no-owner", "--file=-"]
    if not guarded:  # without the roles of requests, nothing can be granted to them
        options += ["--no-privileges", "--no-policies"]
    with tempfile.TemporaryFile() as script:
        code = _call(settings, None, "pg_restore", *options, str(file), stdout=script)
        if code != 0:
            raise CannotStart(f"{file} is not a dump that can be read; nothing was changed.")
        script.seek(0)
        return _call(
            settings, url, "psql", "--quiet", "--no-psqlrc", "--single-transaction", "--set=ON_ERROR_STOP=1",
            "--output=/dev/null", "--command=drop schema if exists penstock cascade", "--file=-", stdin=script,
        )  # fmt: skip


def _call(settings: Settings, url: DatabaseUrl | None, program: str, *arguments: str, **files: Any) -> int:
    """The password goes by the environment: a command line can be read by every user of the machine."""
    environment = os.environ | {"PGOPTIONS": "-c client_min_messages=warning"}
    command = [database.find_program(program, settings.postgres.binaries, own_server=settings.database_url is None)]
    if url is not None:
        environment["PGPASSWORD"] = url.password or ""
        command += ["--dbname", url.without_password]
    return subprocess.run([*command, *arguments], env=environment, check=False, **files).returncode


def _embedded(settings: Settings) -> database.EmbeddedServer:
    if settings.database_url is not None:
        raise CannotStart("database_url names another server: this command is for the one that comes with Penstock.")
    return database.EmbeddedServer(settings.home, settings.postgres, _tell)


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)
