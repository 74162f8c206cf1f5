"""What a program in a room can see, and what it tries to reach from there."""

import os
import socket
import subprocess


def attempt(what):
    try:
        return what()
    except Exception as error:  # whatever keeps it from that
        return f"no: {type(error).__name__}"


def environments():
    texts = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        texts.append(attempt(lambda: open(f"/proc/{process}/environ").read()))
    return texts


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.settimeout(2)
        stream.connect(address)
        return "connected"


def look(wanted):
    return {
        "files": {path: attempt(lambda: open(path, "rb").read().hex()) for path in wanted["files"]},
        "written": attempt(lambda: open(wanted["write"], "w").close()),
        "socket": attempt(lambda: connect(socket.AF_UNIX, wanted["socket"])),
        "port": attempt(lambda: connect(socket.AF_INET, ("127.0.0.1", wanted["port"]))),
        "environments": environments(),
        "processes": sorted(filter(str.isdigit, os.listdir("/proc"))),
        "root": sorted(os.listdir("/")),
        "machine": [os.path.join(at, name) for at, _, names in os.walk("/proc/sys") for name in names
                    if os.access(os.path.join(at, name), os.W_OK)],
        "trigger": attempt(lambda: open("/proc/sysrq-trigger", "w").close()),
        "terminal": attempt(lambda: os.ttyname(os.open("/dev/tty", os.O_RDWR))),
        "places": {at: attempt(lambda: open(at + "/x", "w").close())
                   for at in ["/", "/etc", "/dev", "/usr", "/proc", "/dev/shm", "/tmp", "/state"]},
        "sizes": {at: os.statvfs(at).f_blocks * os.statvfs(at).f_frsize for at in ["/dev/shm", "/tmp"]},
        "namespace": attempt(lambda: subprocess.run(["unshare", "-U", "true"], capture_output=True).returncode),
        "mount": attempt(lambda: subprocess.run(["mount", "-t", "tmpfs", "x", "/tmp"], capture_output=True).returncode),
    }
