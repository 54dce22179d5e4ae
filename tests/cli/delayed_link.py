"""A link between two network namespaces with a rate and a delay. A process passes packets on between two TUN interfaces, so the
kernel needs no netem. Needs root and /dev/net/tun. Linux, standard library only."""

import collections
import concurrent.futures
import ctypes
import fcntl
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

RATE, DELAY = 125e6, 1e-3  # bytes/s and s, in each direction
LONGEST_QUEUE = 10e-3  # s; a packet that would wait longer for its turn is dropped
TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000


def pass_on(ends, parent):
    """Until the parent has ended."""
    other = dict(zip(ends, reversed(ends)))
    free = dict.fromkeys(ends, 0.0)  # when the last packet from this end has gone into the link
    waiting = {end: collections.deque() for end in ends}  # for this end: (when it arrives, packet)
    while True:
        for end, packets in waiting.items():
            while packets and packets[0][0] <= time.monotonic():
                try:
                    os.write(end, packets.popleft()[1])
                except OSError:  # the interface is down
                    pass
        due = min((packets[0][0] for packets in waiting.values() if packets), default=None)
        ready, _, _ = select.select([*ends, parent], [], [], None if due is None else max(0, due - time.monotonic()))
        if parent in ready:
            return
        for end in ready:
            try:
                packet, now = os.read(end, 65536), time.monotonic()
            except OSError:
                continue
            begin = max(now, free[end])
            if begin - now <= LONGEST_QUEUE:
                free[end] = begin + len(packet) / RATE
                waiting[other[end]].append((free[end] + DELAY, packet))


def open_end(interface, namespace):
    """A file that reads what goes out of a new interface in the namespace."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", interface.encode(), IFF_TUN | IFF_NO_PI))
    subprocess.run(["ip", "link", "set", interface, "netns", namespace], check=True)
    return file


def join(namespaces, interfaces):
    """Makes both interfaces, without addresses, and the process between them: it ends when its input is closed."""
    ends = [open_end(*pair) for pair in zip(interfaces, namespaces)]
    process = subprocess.Popen([sys.executable, __file__, *map(str, ends)], stdin=subprocess.PIPE, pass_fds=ends)
    for end in ends:
        os.close(end)
    return process


def socket_in(namespace):
    """A TCP socket. It stays in its namespace; the thread that made it ends."""
    def make():
        with open("/run/netns/" + namespace) as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns", namespace)
        return socket.socket()

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


def measure(namespaces, addresses, total=1 << 26):
    """A round trip [s], the median of 50, and the rate of one TCP connection [bytes/s]."""
    with socket_in(namespaces[0]) as listener, socket_in(namespaces[1]) as one:
        listener.bind((addresses[0], 0))
        listener.listen()
        one.connect(listener.getsockname())
        other, _ = listener.accept()
        trips = []
        with other:
            for _ in range(50):
                start = time.monotonic()
                for sender, receiver in ((one, other), (other, one)):
                    sender.sendall(b"1")
                    receiver.recv(1)
                trips.append(time.monotonic() - start)
            thread = threading.Thread(target=one.sendall, args=(bytes(total),))
            start = time.monotonic()
            thread.start()
            left = total
            while left > 0:
                left -= len(other.recv(1 << 20))
            thread.join()
    return statistics.median(trips), total / (time.monotonic() - start)


if __name__ == "__main__":
    pass_on([int(word) for word in sys.argv[1:]], sys.stdin.fileno())
