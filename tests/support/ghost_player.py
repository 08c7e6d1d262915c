"""Plays a gh-ost where none can be had: real lines of a kept transcript at a quicker pace, its socket, files and
tables; and, when the word for the cut-over comes, a plain copy and RENAME in place of its work.

Called as gh-ost is. Only for tests: it copies without looking at what is written meanwhile.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
import threading
import time
from pathlib import Path

import pymysql

KEPT = Path(__file__).parents[1] / "data" / "ghost" / "states.txt"
STATE = re.compile(r"State: .+;")


def flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ["conf", "host", "database", "table", "alter", "serve-socket-file", "postpone-cut-over-flag-file"]:
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--execute", action="store_true", required=True)
    return parser.parse_known_args()[0]


class Player:
    def __init__(self, called: argparse.Namespace) -> None:
        self.called = called
        text = KEPT.read_text(errors="replace")
        self.lines = [line for line in text.splitlines() if line.startswith("Copy: ")]
        self.errors = [line for line in text.partition("--- stderr")[2].splitlines() if " INFO " in line]
        self.at = 0
        self.waits = False
        self.postponed = False
        self.go = threading.Event()

    @property
    def line(self) -> str:
        """The present line of the transcript, with the state that this run is in."""
        line = self.lines[min(self.at, len(self.lines) - 1)]
        state = "postponing cut-over" if self.postponed else "migrating"
        if self.waits and not self.postponed:
            state = "throttled, commanded by user"
        moved = re.sub(r"(:1-)\d+", rf"\g<1>{int(time.monotonic() * 10)}", line)
        return STATE.sub(f"State: {state};", moved)

    def answer(self, command: str) -> str:
        if command in ("sup", "status"):
            return self.line + "\n"
        if command in ("throttle", "no-throttle"):
            self.waits = command == "throttle"
            return self.line + "\n"
        if command == f"unpostpone={self.called.table}":
            if not self.postponed:
                return "You may only invoke this when gh-ost is actively postponing migration.\n"
            self.go.set()
            return "Unpostponed\n" + self.line + "\n"
        return f"unknown command: {command}\n"

    def serve(self) -> None:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(self.called.serve_socket_file)
        listening.listen()
        while True:
            connection, _ = listening.accept()
            with connection:
                command = connection.recv(4096).decode().strip()
                told = self.answer(command)
                print(told, end="", flush=True)
                connection.sendall(told.encode())

    def run(self) -> int:
        called = self.called
        of, beside = f"`{called.database}`.`{called.table}`", f"`{called.database}`.`_{called.table}_%s`"
        session = pymysql.connect(
            host=called.host,
            port=called.port,
            user=os.environ["ROLLOUT_GH_OST_USER"],
            password=os.environ["ROLLOUT_GH_OST_PASSWORD"],
            autocommit=True,
        )
        with session.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK(%s, 0)", (f"gh-ost::{called.database}.{called.table}"[:64],))
            cursor.execute(f"CREATE TABLE {beside % 'gho'} LIKE {of}")
            cursor.execute(f"ALTER TABLE {beside % 'gho'} {called.alter}")
            for name in ("ghc", "ghk"):
                cursor.execute(f"CREATE TABLE {beside % name} (id INT PRIMARY KEY, value VARCHAR(64))")
            Path(called.postpone_cut_over_flag_file).touch()
            threading.Thread(target=self.serve, daemon=True).start()
            self.play()
            while not self.swapped(cursor, of, beside):
                self.postponed = True
                self.go.clear()
                while not self.go.wait(0.2):
                    print(self.line, flush=True)
                self.postponed = False
                print("INFO Grabbing voluntary lock: played", file=sys.stderr, flush=True)
                time.sleep(0.6)
            for name in ("ghc", "ghk"):
                cursor.execute(f"DROP TABLE {beside % name}")
        Path(called.serve_socket_file).unlink()
        print("# Done")
        return 0

    def play(self) -> None:
        """The transcript's copying, in a second; standing still while it is told to."""
        for error in self.errors[:40]:
            print(error, file=sys.stderr, flush=True)
        while self.at < len(self.lines):
            if not self.waits:
                self.at += 10
                print(self.line, flush=True)
            time.sleep(0.03)

    def swapped(self, cursor: pymysql.cursors.Cursor, of: str, beside: str) -> bool:
        if not self.go.is_set():
            return False
        cursor.execute("SET lock_wait_timeout = 4")
        try:
            # As gh-ost does: the stand-in that it finds goes first, whoever made it.
            cursor.execute(f"DROP /* gh-ost */ TABLE IF EXISTS {beside % 'del'}")
            names = ", ".join(self.shared(cursor))
            cursor.execute(f"DELETE FROM {beside % 'gho'}")
            cursor.execute(f"INSERT INTO {beside % 'gho'} ({names}) SELECT {names} FROM {of}")
            cursor.execute(f"RENAME TABLE {of} TO {beside % 'del'}, {beside % 'gho'} TO {of}")
        except pymysql.err.MySQLError as error:
            print(f"ERROR {error}", file=sys.stderr, flush=True)
            return False
        return True

    def shared(self, cursor: pymysql.cursors.Cursor) -> list[str]:
        cursor.execute(
            "SELECT CONCAT('`', COLUMN_NAME, '`') FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            (self.called.database, self.called.table),
        )
        return [row[0] for row in cursor.fetchall()]


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print("1.1.10 (played from a transcript)")
        sys.exit(0)
    sys.exit(Player(flags()).run())
