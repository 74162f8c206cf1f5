"""What a program in a room can see, and what it tries to reach from there."""

import errno
import os
import resource
import signal
import socket
import subprocess


def attempt(what):
    try:
        return what()
    except Exception as error:  # whatever keeps it from that
        return f"no: {errno.errorcode.get(getattr(error, 'errno', None)) or type(error).__name__}"


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


def spoken(host, port):
    """What is said at this host, after a greeting; if it is much, how much."""
    with socket.create_connection((host, port), timeout=5) as stream:
        stream.sendall(b"hello\n")
        stream.shutdown(socket.SHUT_WR)
        said = b""
        while part := stream.recv(1 << 16):
            said += part
        return said.decode() if len(said) < 100 else str(len(said))


def reach(wanted):
    return {
        "hosts": {f"{host}:{port}": attempt(lambda: spoken(host, port)) for host, port in wanted["hosts"]},
        "addresses": {host: attempt(lambda: socket.gethostbyname(host)) for host, _ in wanted["hosts"]},
        "interfaces": [name for _, name in socket.if_nameindex()],
        "names": open("/etc/hosts").read(),
        "capabilities": [line.split()[1] for line in open("/proc/self/status") if line.startswith("Cap")],
        "descriptors": {number: attempt(lambda: os.readlink(f"/proc/self/fd/{number}").split(":")[0])
                        for number in os.listdir("/proc/self/fd")},
        "small_port": attempt(lambda: socket.create_server(("127.0.0.9", 80)).close()),
        "renamed": attempt(lambda: open("/etc/hosts", "w").close()),
        "abstract": attempt(lambda: connect(socket.AF_UNIX, "\0" + wanted["abstract"])),
    }


def keys(wanted):
    """How long the keys of the kernel's keyrings are that can be read, by all ways to find them."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    add_key, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
    session, user, join, search, read, link = -3, -4, 1, 10, 11, 8

    def ask(number, *arguments):
        answer = libc.syscall(number, *arguments)
        if answer < 0:
            raise OSError(ctypes.get_errno(), "")
        return answer

    def length(key):
        return ask(keyctl, read, key, None, 0)

    def found(ring, name):
        return length(ask(keyctl, search, ring, b"user", name.encode(), 0))

    def numbered(kind, what):
        """What becomes of each that can be seen, which need not be one's own."""
        lines = [line.split() for line in open("/proc/keys")]
        return [attempt(lambda: what(int(line[0], 16))) for line in lines if line[7] == kind]

    def everywhere():
        return {name: [attempt(lambda: found(ring, name)) for ring in (session, user)] for name in wanted["names"]}

    return {
        "found": everywhere(),
        "read": numbered("user", length),
        "planted": attempt(lambda: ask(add_key, b"user", b"planted", b"planted", 7, session)),
        "other_number": attempt(lambda: ask(keyctl | 0x40000000, join, None)),
        # With a session of one's own, in which whatever the user has is linked.
        "joined": attempt(lambda: ask(keyctl, join, None)),
        "linked": numbered("keyring", lambda ring: ask(keyctl, link, ring, session)),
        "found_then": everywhere(),
        "read_then": numbered("user", length),
    }


def used_up(wanted):
    """How far a program gets that takes all it can of one resource, and what stops it."""
    got, stopped, take = 0, None, None
    held = []
    if wanted["what"] == "processes":
        def take():
            child = os.fork()
            if child == 0:
                while True:
                    signal.pause()
            return 1
    elif wanted["what"] == "memory":
        def take():
            held.append(bytearray(16 << 20))
            return 16
    elif wanted["what"] == "files":
        def take():
            held.append(open("/dev/null"))
            return 1
    elif wanted["what"] == "file":
        file = open(os.path.join(os.environ["HOME"], "big"), "wb", buffering=0)

        def take():
            written = file.write(bytes(1 << 20))
            if written < 1 << 20:
                raise OSError(errno.EFBIG, "")
            return 1
    for _ in range(wanted["tries"]):
        try:
            got += take()
        except Exception as error:
            stopped = errno.errorcode.get(getattr(error, "errno", None)) or type(error).__name__
            break
    held.clear()
    return {"got": got, "stopped": stopped}


def limits():
    """The limits of this process."""
    names = ["CORE", "CPU", "DATA", "FSIZE", "NOFILE", "NPROC"]
    return {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name))[0] for name in names}


def spin():
    while True:
        pass


def write_until_the_end():
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    used_up({"what": "file", "tries": 1 << 20})


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
