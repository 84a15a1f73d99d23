"""Logs of NCCL_DEBUG=INFO as its releases write them, made for tests: every rank of a job of `hosts` hosts with `gpus` GPUs each.

A Job has fields for what a test wants to be different; lines() gives the log, the ranks mixed.
"""
from dataclasses import dataclass, field

VERSIONS = ["2.4.8", "2.5.7", "2.7.8", "2.10.3", "2.12.12", "2.14.3", "2.18.3", "2.19.4", "2.22.3", "2.23.4", "2.25.1", "2.27.5", "2.29.3", "2.30.7"]


def number(version):
    major, minor, patch = map(int, version.split("."))
    return minor * 100 + patch


@dataclass
class Job:
    version: str = "2.18.3"
    cuda: str = "12.1"
    hosts: int = 2
    gpus: int = 2
    channels: int = 2
    net: str = "IB"                 # what carries data between hosts: IB, Socket, "AWS Libfabric", IBext
    gdr: bool = True
    inside: str = "P2P"             # of GPUs of one host: P2P, SHM, NET
    interface: str = "eth0"
    adapters: bool = True           # NET/IB finds devices
    gdr_line: str = ""              # instead of the usual one about GPUDirect
    collnet: bool = False
    nvls: bool = False
    plugin: str = ""                # a CollNet plugin that is loaded
    prefix: str = ""                # with {rank}
    variables: dict = field(default_factory=dict)   # echoed by every process
    versions: dict = field(default_factory=dict)    # rank -> another version
    host_changes: dict = field(default_factory=dict)  # host -> fields that differ there
    extra: dict = field(default_factory=dict)       # rank -> lines of (level, text) at its end
    plain: list = field(default_factory=list)       # lines of others, at the beginning
    choices: bool = False

    def of_host(self, name, host):
        return self.host_changes.get(host, {}).get(name, getattr(self, name))

    # ---- a line's head ----
    def head(self, rank, warning=False):
        host = rank // self.gpus
        return self.prefix.format(rank=rank) + f"node{host + 1}:{1000 + rank}:{2000 + rank} [{rank % self.gpus}] " + (
            "transport/net_ib.cc:1234 NCCL WARN " if warning else "NCCL INFO ")

    def info(self, rank, text):
        return self.head(rank) + text

    def warn(self, rank, text):
        stamp = "[2025-11-30 12:00:%02d] " % (10 + rank) if number(self.version) >= 2602 else ""
        return stamp + self.head(rank, True) + text

    # ---- the parts of one rank ----
    def device(self, rank):
        n, local = number(self.version), rank % self.gpus
        return f"[{0x1000 * (local + 1):x}]" if 500 <= n <= 1801 else f"[{local}]"

    def start(self, rank):
        n, host = number(self.version), rank // self.gpus
        interface, adapters, net = (self.of_host(x, host) for x in ("interface", "adapters", "net"))
        address = f"{interface}:10.0.0.{host + 1}<0>"
        lines = [f"Bootstrap{'' if n >= 2403 else ' '}: Using {'[0]' if n < 1000 else ''}{address}"]
        version = self.versions.get(rank, self.version)
        if n >= 1700:
            lines += [f"cudaDriverVersion {self.host_changes.get(host, {}).get('driver', 12040)}", f"NCCL version {version}+cuda{self.cuda}"]
        if self.plugin:
            lines += [f"NET/Plugin: Loaded net plugin {self.plugin} (v8)", "NET/Plugin: Loaded collnet plugin SHARP (v8)"]
        elif n < 2100:
            lines.append("NET/Plugin : No plugin found (libnccl-net.so)" + (", using internal implementation" if n >= 500 else "."))
        else:
            lines.append("NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.")
        for name, value in {**self.variables, **self.host_changes.get(host, {}).get("variables", {})}.items():
            lines.append(f"{name} set by environment to {value}{'.' if value.isdigit() else ''}" if name != "NCCL_IB_HCA" else f"{name} set to {value}")
        if self.variables.get("NCCL_IB_DISABLE") != "1":
            link = "IB" if net != "RoCE" else "RoCE"
            lines.append(f"NET/IB : Using [0]mlx5_0:1/{link} {'[RO]' if n >= 1207 else ''}; OOB {address}" if adapters else "NET/IB : No device found.")
        if net == "Socket":
            lines.append(f"NET/Socket : Using [0]{address}")
        if n >= 604:
            lines.append(f"Using network {net}")
        if n >= 1304:
            lines.append(f"DMA-BUF is available on GPU device {rank % self.gpus}")
        return lines

    def topology(self, rank):
        n, local, host = number(self.version), rank % self.gpus, rank // self.gpus
        if self.of_host("net", host) == "Socket":
            return []
        if self.gdr_line:
            return [self.gdr_line.format(local=local, rank=rank)]
        if not self.of_host("gdr", host):
            return []
        if n < 500:
            return [f"NET/IB : GPU Direct RDMA Enabled for GPU {local}[{local}] / HCA 0 (distance 1 < 2), read 0"]
        if n < 600:
            return ["NET/IB : GPU Direct RDMA Enabled for GPU 1000 / HCA 0 (distance 1 < 2), read 0"]
        if n < 2403:
            return [f"GPU Direct RDMA Enabled for GPU {0x1000 * (local + 1):x} / HCA 0 (distance 4 <= 4), read 0"]
        if n < 2902:
            return [f"GPU Direct RDMA Enabled for GPU {local} / HCA 0 (distance 4 <= 5), read 0 mode Default"]
        if n < 3000:
            return [f"GPU Direct RDMA Enabled for GPU/0-{0x1000 * (local + 1):x} (rank {rank}) - NET/0-0 (distance 4 <= 6, read 0, mode Default)"]
        return ["NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'"]

    def ring(self, rank):
        n, size = number(self.version), self.hosts * self.gpus
        order = "".join(f"{r:4d}" for r in range(size))
        lines = []
        if rank == 0:
            lines += [f"Channel {c:02d} : {order}" if n < 500 else f"Channel {c:02d}/{self.channels:02d} : {order}" for c in range(self.channels)]
        up = rank - 1 if rank > 0 else -1
        down = rank + 1 if rank + 1 < size else -1
        tree = {True: f"{up}->{rank}->{down}/-1/-1", False: f"{down}/-1/-1->{rank}->{up}"}[n < 500]
        if 600 <= n < 800:
            tree += f"|{up}->{rank}->{down}/-1/-1"
        lines.append("Trees " + " ".join(f"[{c}] {tree}" for c in range(self.channels)))
        return lines

    def ways(self, rank):
        n, size = number(self.version), self.hosts * self.gpus
        word = "Ring" if n < 700 else "Channel"
        lines = []
        for c in range(self.channels):
            for a, b, is_receive in (((rank - 1) % size, rank, True), (rank, (rank + 1) % size, False)):
                crosses = a // self.gpus != b // self.gpus
                pair = f"{a}{self.device(a)} -> {b}{self.device(b)}"
                net, inside = self.of_host("net", rank // self.gpus), self.of_host("inside", rank // self.gpus)
                if crosses or inside == "NET":
                    number_of = f"{c:02d}/0" if n >= 1207 else f"{c:02d}"
                    if n < 500:
                        pair = f"{a} -> {b}"
                    gdr = "/GDRDMA" if self.of_host("gdr", rank // self.gpus) and net != "Socket" else ""
                    lines.append(f"{word} {number_of} : {pair} [{'receive' if is_receive else 'send'}] via NET/{net}/0{gdr}{'/Shared' if 803 <= n and c == 1 else ''}")
                elif is_receive:
                    continue
                elif inside == "P2P":
                    number_of = f"{c:02d}/0" if n >= 1403 else f"{c:02d}"
                    way = "CUMEM" if n >= 1801 else "IPC"
                    lines.append(f"{word} {number_of} : {pair} via P2P/{way}{'/read' if n >= 703 else ''}")
                else:
                    way = "direct shared memory" if n < 1304 else "SHM/direct" if n >= 3007 else "SHM/direct/direct"
                    lines.append(f"{word} {c:02d} : {pair} via {way}")
        if self.collnet and n >= 604:
            lines.append(f"CollNet 00/0 : {rank} [send] via COLLNET/SHARP/0/GDRDMA" if n >= 1403 else f"Coll 00 : {rank} [send] via COLLNET/SHARP/0/GDRDMA")
        return lines

    def name(self, rank, end):
        n, size, local = number(self.version), self.hosts * self.gpus, rank % self.gpus
        text = f"comm 0x7f{rank:02x}00 rank {rank} nranks {size} cudaDev {local}"
        if n < 500:
            text += f" nvmlDev {local}"
        elif n < 1803:
            text += f" busId {0x1000 * (local + 1):x}"
        else:
            text += f" nvmlDev {local} busId {0x1000 * (local + 1):x}"
        if n >= 1602:
            text += " commId 0x9a8b7c6d5e4f3a2b"
        if n >= 2105:
            text = ("ncclCommInitRank " if n < 2304 else "ncclCommInitRankConfig ") + text
        if n >= 2902 and end == "START":
            text = f"[Rank {rank}] " + text
        return f"{text} - Init {end}"

    def finish(self, rank):
        n = number(self.version)
        lines = []
        if n >= 2003:
            lines.append(f"{self.channels} coll channels, {self.channels if self.collnet else 0} collnet channels, {self.channels if self.nvls else 0} nvls channels, "
                         f"{self.channels} p2p channels, {self.channels} p2p channels per peer")
        elif n >= 1701:
            lines.append(f"{self.channels} coll channels, {self.channels if self.nvls else 0} nvls channels, {self.channels} p2p channels, {self.channels} p2p channels per peer")
        elif n >= 703:
            lines.append(f"{self.channels} coll channels, {self.channels} p2p channels, {self.channels} p2p channels per peer")
        return lines

    def choice(self, rank):
        n = number(self.version)
        if not self.choices or rank > 0 or n < 506:
            return []
        if n >= 2403:
            return ["AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}"] * 3
        if n >= 2304:
            return ["AllReduce: 1048576 Bytes -> Algo 1 proto 2 time 101.5"] * 3
        return ["1048576 Bytes -> Algo 1 proto 2 time 101.5"] * 3

    def of_rank(self, rank):
        n = number(self.version)
        texts = self.start(rank)
        if n >= 1803:
            texts.append(self.name(rank, "START"))
        texts += self.topology(rank) + self.ring(rank)
        lazy = n >= 2203
        if not lazy:
            texts += self.ways(rank)
        texts += self.finish(rank) + [self.name(rank, "COMPLETE")]
        if lazy:  # connections are made at the first use
            texts += self.ways(rank)
        texts += self.choice(rank)
        lines = [self.info(rank, text) for text in texts]
        for level, text in self.extra.get(rank, []):
            lines += ["", self.warn(rank, text)] if level == "WARN" else [self.info(rank, text) if level == "INFO" else text]
        return lines

    def lines(self):
        ranks = [self.of_rank(r) for r in range(self.hosts * self.gpus)]
        mixed = list(self.plain)
        if number(self.version) < 1700:
            mixed.append(f"NCCL version {self.version}+cuda{self.cuda}")
        for i in range(max(len(r) for r in ranks)):
            mixed += [r[i] for r in ranks if i < len(r)]
        return mixed

    def text(self):
        return "\n".join(self.lines()) + "\n"
