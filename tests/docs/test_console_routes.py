"""Every route of the console stands on its reference page."""

from starlette.applications import Starlette
from starlette.routing import Mount, Route

from penstock.console.site import ConsoleSite
from penstock.console.views import PAGES
from penstock.database.migrations import migrate
from penstock.gateway.rest.api import RestApi
from penstock.log.store import open_store
from tools.console_page import OTHERS


def test_every_route_of_the_console_is_documented() -> None:
    store = open_store("memory://")
    migrate(store.database)
    api = RestApi(store)
    try:
        (mount,) = [each for each in ConsoleSite(api).routes() if isinstance(each, Mount)]
        inner: Starlette = getattr(mount.app, "_app")  # noqa: B009 - it is nobody's business elsewhere
        found = {each.path.removeprefix("/") for each in inner.routes if isinstance(each, Route)}
    finally:
        api.close()
        store.close()
    assert found == {each.path for each in PAGES} | set(OTHERS)
