"""A server whose clock can be turned while it runs. Nobody may turn the machine's for a test, so what the server asks
the C library for is answered by a few lines of C that are loaded before it: the wall clock, with an offset."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.sandbox.server import Server

_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *offset_s;

__attribute__((constructor)) static void open_offset(void) {
  const char *path = getenv("SERVER_CLOCK_OFFSET");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) return;
  void *at = mmap(0, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
  if (at != MAP_FAILED) offset_s = at;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *out) {
  long answer = syscall(SYS_clock_gettime, clock, out);
  if (answer == 0 && offset_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) out->tv_sec += *offset_s;
  return (int)answer;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  struct timespec now;
  int answer = clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return answer;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"""


class Clock:
    """Of one server; ``jump`` moves it by so many seconds at once."""

    def __init__(self, offset: Path) -> None:
        self._offset, self._seconds = offset, 0
        offset.write_bytes(struct.pack("<q", 0))

    def jump(self, seconds: int) -> None:
        self._seconds += seconds
        with self._offset.open("r+b") as file:
            file.write(struct.pack("<q", self._seconds))


@contextmanager
def clock_of(server: Server, folder: Path) -> Iterator[Clock]:
    """That server, which runs, is started again with such a clock. Skips where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("the clock of a server cannot be turned here: there is no C compiler")
    source, library, offset = folder / "clock.c", folder / "clock.so", folder / "offset"
    source.write_text(_SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
    clock = Clock(offset)
    with pytest.MonkeyPatch.context() as started:
        started.setenv("LD_PRELOAD", str(library))
        started.setenv("SERVER_CLOCK_OFFSET", str(offset))
        server.restart()
    yield clock
