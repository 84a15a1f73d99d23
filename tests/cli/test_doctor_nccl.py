#!/usr/bin/env python3
"""`tandem doctor` on logs of NCCL, as every release from 2.4 to 2.30 writes them: test_doctor_nccl.py TANDEM"""
import json
import os
import random
import tempfile

from doctor_checks import check, finish, run
from nccl_logs import VERSIONS, Job, number


def doctor(*texts):
    """The report on logs, one file each."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, text in enumerate(texts):
            paths.append(os.path.join(folder, f"nccl.{i}.log"))
            with open(paths[-1], "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode())
        r = run("--json", *paths)
        if r.returncode != 0:
            return {"error": r.stderr, "findings": [], "code": r.returncode}
        return json.loads(r.stdout)


def ids(report):
    return [f["id"] for f in report["findings"]]


def wraps(log, what):
    """The text for people is within 100 columns, and no sentence of the report is lost on the way."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/nccl.log", "w") as file:
            file.write(log)
        text = run(f"{folder}/nccl.log").stdout
        report = json.loads(run("--json", f"{folder}/nccl.log").stdout)
    check(max(map(len, text.splitlines())) <= 100, f"{what}: 100 columns", text)
    joined = " ".join(text.split())
    for f in report["findings"]:
        for sentence in (f["text"], f["advice"], f["evidence"]["not_when"], f["evidence"]["source"]):
            check(" ".join(sentence.split()) in joined, f"{what}: in the text: {sentence}", text)


def found(name, job, *expected, also=(), **evidence):
    """The job's log gives exactly one finding `name`, whose text has the expected words, and at most those of `also` beside it."""
    report = doctor(job.text())
    hits = [f for f in report["findings"] if f["id"] == name]
    check(len(hits) == 1, name, f"{job.version}: {ids(report)} {report.get('error', '')}")
    check(set(ids(report)) <= {name, *also}, f"{name} alone", f"{job.version}: {ids(report)}")
    page = os.path.join(os.path.dirname(__file__), f"../../docs/findings/{name}.md")
    check(hits and hits[0]["evidence"]["not_when"] and hits[0]["evidence"]["source"] and os.path.exists(page), f"{name}: not when, source, page")
    for word in expected:
        check(hits and word in hits[0]["text"] + " | " + hits[0]["advice"], f"{name} says '{word}'", hits[0]["text"] + " | " + hits[0]["advice"] if hits else "")
    wraps(job.text(), name)
    for key, value in evidence.items():
        check(hits and hits[0]["evidence"].get(key) == value, f"{name} evidence {key}", str(hits[0]["evidence"]) if hits else "")
    return hits[0] if hits else None


def silent(what, job):
    report = doctor(job.text())
    check(ids(report) == [] and "error" not in report, f"silent: {what}", f"{job.version}: {[(f['id'], f['text']) for f in report['findings']]} {report.get('error', '')}")
    return report


# ---- every release: a healthy job gives its facts and no finding ----
for version in VERSIONS:
    n = number(version)
    report = silent("healthy", Job(version=version, choices=True))
    wraps(Job(version=version, choices=True).text(), version)
    nccl = report["nccl"]
    check(report["ranks"] == 4 and report["breakdown"] == [] and report["iterations"] is None, f"{version} head", str(report["ranks"]))
    check(nccl["version"] == version and nccl["cuda"].startswith("12"), f"{version} version", nccl["version"])
    check([h["name"] for h in nccl["hosts"]] == ["node1", "node2"] and nccl["hosts"][1]["address"] == "10.0.0.2", f"{version} hosts", str(nccl["hosts"]))
    check(nccl["hosts"][0]["adapters"].startswith("[0]mlx5_0:1/IB") and nccl["hosts"][0]["bootstrap"] == "eth0", f"{version} adapters", str(nccl["hosts"]))
    check(sorted((p["rank"], p["host"], p["device"]) for p in nccl["processes"]) == [(0, "node1", 0), (1, "node1", 1), (2, "node2", 0), (3, "node2", 1)],
          f"{version} ranks", str(nccl["processes"]))
    check(len(nccl["communicators"]) == 1 and nccl["communicators"][0]["ranks"] == 4 and nccl["communicators"][0]["seen"] == 4, f"{version} communicators",
          str(nccl["communicators"]))
    check(nccl["communicators"][0]["rings"] == 2 and nccl["communicators"][0]["trees"] == 2 and nccl["communicators"][0]["ring"].split() == list("0123"),
          f"{version} rings", str(nccl["communicators"]))
    ways = {(w["kind"], w["way"], w["gpu_direct"]): (w["pairs"], w["channels"]) for w in nccl["ways"]}
    inside = [w for w in ways if w[0] == "P2P"]
    check(ways.get(("NET", "IB", True)) == (4, 8) and len(inside) == 1 and ways[inside[0]] == (2, 4), f"{version} ways", str(ways))
    check(all(p["communicator"] == 0 for p in nccl["pairs"]), f"{version} pairs' communicator", str(nccl["pairs"]))
    if n >= 506:
        choice = nccl["choices"][0]
        check((choice["bytes"], choice["algorithm"], choice["protocol"], choice["calls"]) == (1048576, "RING", "SIMPLE", 3), f"{version} choices", str(nccl["choices"]))
        check(choice["op"] == ("AllReduce" if n >= 2304 else ""), f"{version} op", str(choice))

# ---- launchers' prefixes, clocks, lines over each other, lines cut ----
for prefix in ("[rank{rank}]:", "[rank{rank}]: ", "[default{rank}]:", "[1,{rank}]<stdout>:", "{rank}: ", "2025-11-30T12:00:00.123Z ", "[2025-11-30 12:00:00] "):
    report = silent(f"prefix {prefix}", Job(prefix=prefix))
    check(report["nccl"]["hosts"][0]["name"] == "node1" and len(report["nccl"]["processes"]) == 4, f"prefix {prefix}", str(report["nccl"]["hosts"]))
two = Job().lines()
joined = "\n".join(two[i] + two[i + 1] if i + 1 < len(two) else two[i] for i in range(0, len(two), 2))
report = doctor(joined)
check(len(report["nccl"]["processes"]) == 4 and ids(report) == [] and report["nccl"]["communicators"][0]["seen"] == 4, "two records a line", str(ids(report)))
check({(w["kind"], w["pairs"], w["channels"]) for w in report["nccl"]["ways"]} == {("NET", 4, 8), ("P2P", 2, 4)}, "two records a line: ways", str(report["nccl"]["ways"]))
apart = Job()
report = doctor(*["\n".join(apart.of_rank(r)) + "\n" for r in range(4)])
check(ids(report) == [] and report["ranks"] == 4 and report["nccl"]["communicators"][0]["seen"] == 4, "one file a rank", str(report))
report = doctor("{'loss': 2.5}\n" + "Collecting something (from somebody)\n" * 30000 + Job().text())
check(ids(report) == [] and report.get("ranks") == 4, "NCCL's lines a megabyte down", str(report)[:200])
random.seed(7)
whole = Job(version="2.27.5").text()
for _ in range(40):
    cut = random.randrange(len(whole))
    report = doctor(whole[:cut] + "\n" + whole[cut + random.randrange(40):])
    check("error" not in report or report["code"] == 3, "cut", str(report.get("error")))
report = doctor(Job(version="2.10.3").text().replace("\n", "\r\n"))
check(ids(report) == [] and report["nccl"]["hosts"][0]["network"] == "IB", "CRLF", str(report["nccl"]["hosts"]))

# ---- findings: one log that has it, one that must stay silent ----
for version in ("2.4.8", "2.10.3", "2.18.3", "2.27.5", "2.30.7"):
    found("nccl_socket_fallback", Job(version=version, net="Socket", adapters=False, variables={"NCCL_IB_DISABLE": "1"}), "NCCL_IB_DISABLE is set", "node1 and node2",
          also=("nccl_host_differs",))
    silent("sockets where no adapter is known", Job(version=version, net="Socket", adapters=False))
found("nccl_socket_fallback", Job(net="Socket", adapters=False, interface="ib0"), "IP over InfiniBand", "libibverbs")
found("nccl_socket_fallback", Job(net="Socket", variables={"NCCL_NET": "Socket"}), "NCCL_NET=Socket")
found("nccl_socket_fallback", Job(net="Socket", adapters=False, variables={"NCCL_IB_HCA": "mlx4"}), "NCCL_IB_HCA")
found("nccl_socket_fallback", Job(hosts=3, host_changes={2: {"net": "Socket", "adapters": False}}), "node3: ", "other hosts of this job", also=("nccl_host_differs",))
silent("a plugin's network", Job(net="AWS Libfabric", adapters=False))

for interface in ("docker0", "lo", "virbr0", "veth12ab34", "br-0123456789ab"):
    found("nccl_wrong_interface", Job(interface=interface), interface, "NCCL_SOCKET_IFNAME")
silent("lo on one host", Job(hosts=1, interface="lo"))
silent("a bond", Job(interface="bond0"))
silent("a bridge of the host's own", Job(interface="br0"))

for version, line, distance, limit in (
        ("2.4.8", "NET/IB : GPU Direct RDMA Disabled for GPU {local}[{local}] / HCA 0 (distance 4 >= 2)", "SYS", "below PHB"),
        ("2.7.8", "GPU Direct RDMA Disabled for GPU 1000 / HCA 0 (distance 4 > 3)", "PHB", "PXB"),
        ("2.10.3", "GPU Direct RDMA Disabled for GPU 1000 / HCA 0 (distance 6 > 4)", "SYS", "PXB"),
        ("2.18.3", "GPU Direct RDMA Disabled for GPU 1000 / HCA 0 (distance 6 > 4)", "PHB", "PXB"),
        ("2.22.3", "GPU Direct RDMA Disabled for GPU 1000 / HCA 0 (distance 7 > 4)", "SYS", "PXB"),
        ("2.25.1", "GPU Direct RDMA Disabled for GPU {local} / HCA 0 (distance 6 > 4)", "PHB", "PXB"),
        ("2.27.5", "GPU Direct RDMA Disabled for GPU {local} / HCA 0 (distance 8 > 6)", "PHB", "P2C"),
        ("2.29.3", "GPU Direct RDMA Disabled for GPU/0-1000 (rank {rank}) - NET/0-0 (distance 9 > 6)", "SYS", "P2C")):
    found("nccl_no_gpu_direct", Job(version=version, gdr=False, gdr_line=line), f"distance {distance} ", f"the limit is {limit} ", "NCCL_NET_GDR_LEVEL", cause="distance")
found("nccl_no_gpu_direct", Job(version="2.10.3", gdr=False, gdr_line="NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)"), "nvidia-peermem", cause="module")
found("nccl_no_gpu_direct", Job(version="2.30.7", gdr=False, gdr_line="NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"), "nvidia-peermem", cause="module")
found("nccl_no_gpu_direct", Job(version="2.30.7", gdr=False, gdr_line="GPU/0-1000 :GPU/0-1000 (0/5000.0/LOC) GPU/0-2000 (2/24.0/PIX) NET/0-0 (4/10.0/SYS) "), "distance SYS", cause="distance")
found("nccl_no_gpu_direct", Job(gdr=False, variables={"NCCL_NET_GDR_LEVEL": "LOC"}), "NCCL_NET_GDR_LEVEL=LOC", cause="level")
found("nccl_no_gpu_direct", Job(gdr=False), "does not say why", cause="unknown")
found("nccl_no_gpu_direct", Job(hosts=3, host_changes={1: {"gdr": False}}), "node2: ", also=("nccl_host_differs",))
silent("sockets have no GPUDirect", Job(net="Socket", adapters=False, gdr=False))

for version in ("2.4.8", "2.10.3", "2.14.3", "2.22.3", "2.30.7"):
    found("nccl_p2p_off", Job(version=version, inside="SHM", variables={"NCCL_P2P_DISABLE": "1"}), "NCCL_P2P_DISABLE=1")
found("nccl_p2p_off", Job(inside="SHM", variables={"NCCL_P2P_LEVEL": "LOC"}), "NCCL_P2P_LEVEL=LOC")
found("nccl_p2p_off", Job(inside="SHM", extra={0: [("INFO", "P2P is disabled between connected GPUs 0 and 1. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.")]}),
      "P2P is disabled between connected GPUs 0 and 1")
found("nccl_p2p_off", Job(inside="SHM"), "does not say why")
silent("GPUs of two sockets", Job(inside="SHM", gdr_line="GPU/1000 :GPU/1000 (0/5000.000000/LOC) GPU/2000 (4/10.000000/SYS) NET/0 (2/12.000000/PIX) "))

found("nccl_shm_off", Job(inside="NET", variables={"NCCL_SHM_DISABLE": "1"}), "NCCL_SHM_DISABLE is set", also=("nccl_p2p_off",), disabled=True)
found("nccl_shm_off", Job(inside="NET", net="Socket", adapters=False), "--ipc=host", also=("nccl_p2p_off",), disabled=False)
report = doctor(Job(inside="NET").text())
check("nccl_shm_off" not in ids(report), "adapters inside a host are NCCL's choice", str(ids(report)))

for version, text in (("2.4.8", "Error while creating shared memory segment nccl-shm-recv-1234 (size 9637888)"), ("2.10.3", "Call to posix_fallocate failed : No space left on device"),
                      ("2.18.3", "Error: failed to extend /dev/shm/nccl-Ab12cd to 33030532 bytes"),
                      ("2.22.3", "Error: failed to extend /dev/shm/nccl-Ab12cd to 33030532 bytes, error: No space left on device (28)")):
    found("nccl_shm_too_small", Job(version=version, extra={1: [("WARN", text)]}), "--shm-size", "rank 1", text)

found("nccl_sharp_missing", Job(variables={"NCCL_COLLNET_ENABLE": "1"}), "NCCL_COLLNET_ENABLE", "no plugin")
found("nccl_sharp_missing", Job(version="2.12.12", plugin="IBext", variables={"NCCL_COLLNET_ENABLE": "1"},
                                extra={0: [("WARN", "Cannot initialize CollNet, using point-to-point network instead")]}), "Cannot initialize CollNet")
found("nccl_sharp_missing", Job(variables={"NCCL_ALGO": "CollnetDirect"}), "NCCL_ALGO")
found("nccl_sharp_unused", Job(hosts=4, plugin="IBext_v8"), "NCCL_COLLNET_ENABLE=1")
silent("SHARP asked for and there", Job(plugin="IBext_v8", collnet=True, variables={"NCCL_COLLNET_ENABLE": "1"}))
silent("SHARP switched off", Job(hosts=4, plugin="IBext_v8", variables={"NCCL_COLLNET_ENABLE": "0"}))
no_nvls = {r: [("INFO", f"NVLS multicast support is not available on dev {r % 2}")] for r in range(4)}
found("nccl_nvls_missing", Job(variables={"NCCL_NVLS_ENABLE": "1"}, extra=no_nvls), "multicast")
found("nccl_nvls_missing", Job(version="2.27.5", extra={0: [("INFO", "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be "
                                                                     "performed in the present state'. Proceeding without NVLS support.")]}), "fabric manager")
silent("older GPUs", Job(extra=no_nvls))
silent("NVLS there", Job(variables={"NCCL_NVLS_ENABLE": "1"}, nvls=True, extra={0: [("INFO", "NVLS multicast support is available on dev 0")]}))

found("nccl_mixed_versions", Job(versions={3: "2.19.4"}), "rank 3 (node2)", "2.19.4", "2.18.3")
found("nccl_mixed_versions", Job(version="2.23.4", extra={0: [("WARN", "Mismatched NCCL version detected : rank 0 version 22304 rank 3 version 22105")]}), "rank 3 version 22105")

found("nccl_host_differs", Job(hosts=3, host_changes={1: {"driver": 11080}}), "node2 differs", "11080; the others: 12040", what="the CUDA driver")
found("nccl_host_differs", Job(hosts=3, host_changes={1: {"variables": {"NCCL_ALGO": "Ring"}}}), "node2", "NCCL_ALGO", "Ring")
found("nccl_host_differs", Job(hosts=3, host_changes={0: {"variables": {"NCCL_SOCKET_IFNAME": "eth1"}}}), "node1", "NCCL_SOCKET_IFNAME")

report = doctor(Job(variables={"NCCL_IB_HCA": "mlx5"}).text() + "node9:77:78 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n")
check("nccl_host_differs" not in ids(report), "a host whose start the log lacks", str(ids(report)))

# ---- who failed first, and whom it lost ----
status = {"2.4.8": "NET/IB : Got completion with error 12, opcode 1, len 32631, vendor err 129",
          "2.10.3": "NET/IB : Got completion from peer 10.0.0.2<41234> with error 12, opcode 129, len 4660, vendor err 129",
          "2.18.3": "NET/IB : Got completion from peer 10.0.0.2<41234> with error 12, opcode 32538, len 0, vendor err 129 (Send)",
          "2.22.3": "NET/IB: Got completion from peer 10.0.0.2<41234> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_0",
          "2.27.5": "NET/IB: Got completion from peer 10.0.0.2<41234> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid ::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2 hca mlx5_0",
          "2.30.7": "NET/IB: Got completion from peer 10.0.0.2<41234> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129  hca mlx5_0"}
for version, text in status.items():
    expected = ["rank 1 (node1", "status 12", "NCCL_IB_TIMEOUT", "it is the first of 1 such line"] + (["node2 (10.0.0.2, ranks 2 to 3)"] if version != "2.4.8" else [])
    found("nccl_timeout", Job(version=version, extra={1: [("WARN", text)]}), *expected)
flush = status["2.22.3"].replace("status=12", "status=5")
closed = "socketProgress: Connection closed by remote peer 10.0.0.1<33333>"
hit = found("nccl_timeout", Job(version="2.22.3", extra={0: [("WARN", closed)], 2: [("WARN", flush)], 3: [("WARN", status["2.22.3"].replace("10.0.0.2", "10.0.0.1"))]}),
            "rank 3 (node2", "node1 (10.0.0.1, ranks 0 to 1)")
check(hit and hit["rank"] == 3 and len(hit["evidence"]["all"]) == 3, "all of them are listed", str(hit))
found("nccl_remote_error", Job(version="2.27.5", extra={3: [("WARN", closed)], 2: [("WARN", closed)]}), "rank 2 (node2", "the peer closed")
found("nccl_remote_error", Job(version="2.10.3", extra={0: [("WARN", "Net : Connect to 10.0.0.2<40000> failed : Connection refused")]}), "could not be made", "firewall")
found("nccl_remote_error", Job(version="2.22.3", extra={0: [("WARN", status["2.22.3"].replace("status=12", "status=10"))]}), "refused access", "ACS")
watchdog = ("[rank2]:[E1130 12:10:00.123456789 ProcessGroupNCCL.cpp:629] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, "
            "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600042 milliseconds before timing out.")
found("nccl_timeout", Job(extra={2: [("", watchdog)]}), "rank 2", "ALLREDUCE", "watchdog")
report = doctor(Job(version="2.22.3", extra={0: [("WARN", closed)]}).text(), Job(version="2.22.3", extra={2: [("WARN", closed)]}).text())
check(any(f["id"] == "nccl_remote_error" and f["evidence"]["first_is_known"] is False for f in report["findings"]), "two files without clocks", str(report["findings"]))
silent("a port that came up", Job(version="2.20.5", extra={0: [("WARN", "NET/IB : mlx5_0:1 Got async event : port active")]}))

# ---- variables ----
for version, name, value, words in (("2.18.3", "NCCL_TREE_THRESHOLD", "0", "2.4.8"), ("2.10.3", "NCCL_LL_THRESHOLD", "0", "NCCL_PROTO"), ("2.10.3", "NCCL_NVLS_ENABLE", "1", "since 2.17.1"),
                                    ("2.18.3", "NCCL_SOCKET_IFNAMES", "eth0", "NCCL_SOCKET_IFNAME"), ("2.27.5", "NCCL_IB_CUDA_SUPPORT", "1", "NCCL_NET_GDR_LEVEL"),
                                    ("2.27.5", "NCCL_FASTER_PLEASE", "1", "no release"), ("2.18.3", "NCCL_WORK_FIFO_BYTES", "65536", "since 2.22.3")):
    for line in (f"export {name}={value}", f"+ {name}={value}", f"mpirun -x {name}={value} -np 4 python train.py", f"{name}='{value}' python train.py"):
        found("nccl_unused_variable", Job(version=version, plain=[line]), f"{name}={value}", words, variable=name)
silent("variables that are read, and others'", Job(version="2.18.3", plain=["export NCCL_DEBUG=INFO", "NCCL_IB_TIMEOUT=22 NCCL_SHARP_GROUP_SIZE_THRESH=1", "export TORCH_NCCL_BLOCKING_WAIT=1",
                                                                         "export NCCL_ASYNC_ERROR_HANDLING=1 NCCL_P2P_LEVEL=NVL", "if [ $NCCL_FOO == 1 ]", "see NCCL_BAR = 3"]))
found("nccl_unused_variable", Job(net="Socket", adapters=False, variables={"NCCL_IB_TIMEOUT": "22"}), "NET/Socket")
found("nccl_unused_variable", Job(variables={"NCCL_SOCKET_NTHREADS": "4"}), "no data of this job goes over sockets")

# ---- other warnings ----
found("nccl_memory_lock", Job(extra={0: [("WARN", "Call to ibv_reg_mr failed with error Cannot allocate memory")]}), "memlock")
found("nccl_same_gpu", Job(extra={1: [("WARN", "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000")]}), "set_device")
found("nccl_no_interface", Job(extra={1: [("WARN", "Bootstrap : no socket interface found")]}), "NCCL_SOCKET_IFNAME")
found("nccl_cuda_error", Job(extra={1: [("WARN", "Cuda failure 'out of memory'")]}), "out of memory")
found("nccl_warning", Job(extra={1: [("WARN", "Something nobody has seen before")]}), "Something nobody")

# ---- text, folders, what is no log ----
with tempfile.TemporaryDirectory() as folder:
    for r in range(4):
        with open(f"{folder}/nccl.node.{r}.log", "w") as file:
            file.write("\n".join(Job(version="2.27.5", net="Socket", adapters=False, variables={"NCCL_IB_DISABLE": "1"}).of_rank(r)) + "\n")
    with open(f"{folder}/README", "w") as file:
        file.write("nothing of interest\n")
    r = run(folder)
    check(r.returncode == 0 and "NCCL 2.27.5, CUDA 12.1: 4 ranks, 4 of them in the log, on 2 hosts" in r.stdout and "1. node1 and node2: 4 pairs" in r.stdout, "folder", r.stdout + r.stderr)
    r = run(f"{folder}/README")
    check(r.returncode == 3 and "README" in r.stderr and r.stderr.count("\n") == 1, "no log", r.stderr)
    with open(f"{folder}/healthy.log", "w") as file:
        file.write(Job(version="2.27.5").text())
    r = run(f"{folder}/healthy.log")
    check("nothing is wrong in what NCCL says" in r.stdout, "healthy text", r.stdout)
finish()
