"""A connection that sends one file of this machine to the server, and no other.

LOAD DATA LOCAL lets the server name the file, and the driver would open any: a server that lies could have them all.
"""

from __future__ import annotations

from typing import Any

import pymysql
from pymysql.connections import Connection, MySQLResult
from pymysql.protocol import LoadLocalPacketWrapper

_LOST = 2013


class SendingConnection(Connection):
    """Opens as ``pymysql.connect`` does; ``sends``: the path of the one file. One that asks for another is hung up on,
    with OperationalError 2013."""

    def __init__(self, *, sends: str, **options: Any) -> None:
        self.sends = sends.encode()
        super().__init__(local_infile=True, **options)

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        """As the driver's own, with a result that looks at the name first; results are always read whole here."""
        self._result = None
        result = _Guarded(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return result.affected_rows


class _Guarded(MySQLResult):
    def _read_load_local_packet(self, first_packet: Any) -> None:
        connection: Any = self.connection
        asked = LoadLocalPacketWrapper(first_packet).filename
        if asked != connection.sends:
            connection._force_close()
            raise pymysql.err.OperationalError(_LOST, f"the server asked for the file {asked!r}, which it may not have")
        super()._read_load_local_packet(first_packet)  # type: ignore[misc]  # the stubs leave it out
