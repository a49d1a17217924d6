"""Notifications arrive, survive, and are known not to arrive when they do not."""

from penstock.database import Database, Pool
from penstock.database.notifications import Notifications
from penstock.database.session import Session, connect
from penstock.settings import DatabaseUrl, PoolSettings, Settings
from tests.polling import until

LISTENERS = (
    "select pid from pg_stat_activity where datname = current_database() and application_name like 'penstock-listen%'"
)


async def notify(database: Database, channel: str) -> None:
    async with database.pool.session() as session:
        await session.execute("select pg_notify($1, '')", channel)


async def test_a_notification_wakes_its_channel_only(database: Database) -> None:
    assert database.notifications.arriving
    jobs, others = database.notifications.subscribe("jobs"), database.notifications.subscribe("others")
    await jobs.wait(0.2)  # LISTEN has been sent when the first wake, if any, is over
    await notify(database, "jobs")
    assert await jobs.wait(5)
    assert not await others.wait(0.05)
    assert not await jobs.wait(0.05)


async def test_listening_survives_a_lost_connection_and_wakes_everybody(database: Database) -> None:
    jobs = database.notifications.subscribe("jobs")
    await notify(database, "jobs")
    await jobs.wait(1)
    async with database.pool.session() as session:
        [listener] = await session.fetch(LISTENERS)
        await session.execute("select pg_terminate_backend($1)", listener["pid"])
    assert await jobs.wait(5), "what was sent while nobody listened is gone, so everybody must look"
    await notify(database, "jobs")
    assert await jobs.wait(5)
    assert await database.notifications.measure()


async def test_a_closed_subscription_is_left_alone(database: Database) -> None:
    jobs = database.notifications.subscribe("jobs")
    await jobs.wait(0.2)
    jobs.close()
    await notify(database, "jobs")
    assert not await jobs.wait(0.2)


async def test_notifications_that_do_not_arrive_are_noticed(
    database: Database, database_url: DatabaseUrl, settings: Settings
) -> None:
    """A listener on another database hears nothing, as behind a pooler."""
    pool_settings = PoolSettings(size=1)

    async def elsewhere() -> Session:
        return await connect(database_url.with_database("postgres"), pool_settings, "listen")

    deaf = Notifications(elsewhere, database.pool)
    await deaf.start()
    assert not deaf.arriving
    await deaf.close()


async def test_arrival_is_measured_again_and_again(database: Database, database_url: DatabaseUrl) -> None:
    pool = Pool(lambda: connect(database_url, PoolSettings(size=1), "test"), PoolSettings(size=1))
    await pool.open()
    where = [database_url.with_database("postgres")]
    notifications = Notifications(lambda: connect(where[0], PoolSettings(size=1), "listen"), pool, echo_every=0.2)
    await notifications.start()
    assert not notifications.arriving
    where[0] = database_url
    admin = await connect(database_url.with_database("postgres"), PoolSettings(size=1), "test")
    await admin.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = 'postgres' and application_name like 'penstock-listen%'"
    )
    await admin.close()
    await until(lambda: notifications.arriving)
    await notifications.close()
    await pool.close()
