# SPDX-License-Identifier: Apache-2.0
"""A Hadoop cluster of real processes on this machine: hosts are network namespaces, which a switch joins. See README.md."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
import zlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("RIPC_BUILD_DIR", ROOT / "build/release"))
VERSION = os.environ.get("RIPC_HADOOP_VERSION", "3.5.0")
JARS = pathlib.Path(os.environ.get("RIPC_HADOOP_JARS", f"/tmp/ripc-hadoop-lab/jars-{VERSION}"))
# Google Guice of older versions defines classes by reflection, which Java 17 forbids by itself.
OPENED = [] if VERSION.startswith("3.5") else ["--add-opens=java.base/java.lang=ALL-UNNAMED"]
STOCK_HANDLER = "org.apache.hadoop.mapred.ShuffleHandler"
OUR_HANDLER = "org.libripc.hadoop.RipcShuffleHandler"
OUR_SHUFFLE = "org.libripc.hadoop.RipcShuffle"
COLLECTOR = "-XX:+UseParallelGC -XX:ParallelGCThreads=2"  # of a reducer
REDUCER_JAVA = f"-Xmx1g {COLLECTOR}"
TERA = "org.apache.hadoop.examples.terasort."
RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
HISTORY_SERVER = "org.apache.hadoop.mapreduce.v2.hs.JobHistoryServer"


class Missing(Exception):
    """The lab cannot run here; the text says why."""


class Failed(Exception):
    pass


def maven(project, what, *words):
    done = subprocess.run(["mvn", "--batch-mode", "--quiet", "--file", str(project / "pom.xml"), *words],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"Maven cannot {what}: " + (done.stdout + done.stderr).strip()[-300:])


def build_plugin(goal):
    """Runs Maven's goal for the plugin and what it needs, without their tests."""
    maven(ROOT, "build the plugin", "--projects", "java,hadoop-shuffle", "-DskipTests", f"-Dripc.build.directory={BUILD}", goal)


def fetch_jars():
    """Fetches Hadoop's jars with Maven, once for each state of pom.xml."""
    complete = JARS / "complete"
    if complete.exists() and complete.stat().st_mtime > (HERE / "pom.xml").stat().st_mtime:
        return
    maven(HERE, "fetch Hadoop's jars", "dependency:copy-dependencies", f"-DoutputDirectory={JARS}", "-DincludeScope=runtime",
          f"-Dhadoop.version={VERSION}")
    complete.touch()


def plugin_jar():
    """Returns the jar that goes on a cluster. Maven makes it if a source is newer."""
    jar = ROOT / "hadoop-shuffle/target/ripc-hadoop-shuffle-0.1.0-all.jar"
    if not (BUILD / "java/resources").exists():
        raise Missing("the native libraries are not built: cmake --build --preset release --target ripc_java_natives")
    sources = [BUILD / "lib/libripc-jni.so", *(ROOT / "java/src/main").rglob("*.java"), *(ROOT / "hadoop-shuffle/src/main").rglob("*.java")]
    if not jar.exists() or max(each.stat().st_mtime for each in sources) > jar.stat().st_mtime:
        build_plugin("package")
    return jar


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def configuration(properties):
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()]
    return "<?xml version=\"1.0\"?>\n<configuration>\n" + "\n".join(lines) + "\n</configuration>\n"


def require():
    """Raises Missing unless everything is there that a cluster needs."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nsenter"):
        raise Missing("network namespaces take root, iproute2 and util-linux")
    if not shutil.which("java") or not shutil.which("mvn"):
        raise Missing("java and mvn not found: scripts/setup java installs them")
    if not shutil.which("curl"):
        raise Missing("curl not found: scripts/setup demo installs it")
    fetch_jars()
    plugin_jar()


class Host:
    """A network namespace with an address and a host name, held by a process that sleeps."""

    def __init__(self, cluster, number):
        self.name = f"node{number}"
        self.address = f"10.97.0.{number}"
        self.cluster = cluster
        self.folder = cluster.work / self.name
        (self.folder / "local").mkdir(parents=True, exist_ok=True)
        if cluster.disk_size:  # before the namespace, which copies the mounts of now
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={cluster.disk_size}", "tmpfs", self.folder / "local"], check=True)
        (self.folder / "ripc").mkdir(mode=0o700, exist_ok=True)
        script = f"hostname {self.name} && mount --bind {cluster.work}/hosts /etc/hosts && ip link set lo up && exec sleep infinity"
        holder = ["unshare", "--net", "--uts", "--mount", "--fork", "--kill-child", "sh", "-c", script]
        self.holder = subprocess.Popen(holder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        children = pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        cluster.until(10, "network namespace", lambda: children.read_text(encoding="ascii").split())
        self.pid = int(children.read_text(encoding="ascii").split()[0])
        cluster.until(10, "host name", lambda: self.run("hostname", check=False).stdout.strip() == self.name)

    def inside(self, *words):
        return ["nsenter", "--net", "--uts", "--mount", "--target", str(self.pid), "--", *map(str, words)]

    def run(self, *words, check=True):
        return subprocess.run(self.inside(*words), capture_output=True, text=True, check=check)

    def environment(self):
        return dict(os.environ, HADOOP_CONF_DIR=str(self.folder / "conf"), RIPC_RUNTIME_DIR=str(self.cluster.runtime_folder(self)),
                    RIPC_CLUSTER_KEY_FILE=str(self.cluster.work / "cluster.key"), RIPC_NETWORK="key",
                    RIPC_MULTICAST="on" if len(self.cluster.hosts) > 1 else "off")


class Cluster:
    """ResourceManager, JobHistoryServer and the first NodeManager on node1, further NodeManagers on further hosts.

    handlers: the class of each NodeManager's shuffle service. same_machine: the first so many hosts share one runtime
    directory, so that libripc takes shared memory between them. node_settings: further settings of NodeManagers. rate: tc's, for instance 1gbit.
    disk_size: of each host's local directories together, for instance 300m.
    """

    def __init__(self, work, handlers=(OUR_HANDLER,), node_settings=None, same_machine=1, rate=None, disk_size=None):
        self.work = pathlib.Path(work)
        self.handlers = handlers
        self.node_settings = node_settings or {}
        self.same_machine = same_machine
        self.rate = rate
        self.disk_size = disk_size
        self.hosts = []
        self.processes = {}
        self.clients = []
        self.java = shutil.which("java")

    # ---- start and end ----

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        require()
        self.class_path = [str(plugin_jar()), f"{JARS}/*"]
        for folder in ["logs", "staging"]:
            (self.work / folder).mkdir(parents=True, exist_ok=True)
        key = self.work / "cluster.key"
        key.touch(mode=0o600)
        key.write_text(os.urandom(32).hex() + "\n", encoding="ascii")
        names = "".join(f"10.97.0.{number} node{number}\n" for number in range(1, len(self.handlers) + 1))
        (self.work / "hosts").write_text("127.0.0.1 localhost\n" + names, encoding="ascii")
        self.hosts = []
        for number in range(1, len(self.handlers) + 1):
            self.hosts.append(Host(self, number))
        self.connect()
        for host, handler in zip(self.hosts, self.handlers):
            self.configure(host, handler)
        self.daemon(self.hosts[0], "resourcemanager", "512m", RESOURCE_MANAGER)
        self.daemon(self.hosts[0], "historyserver", "256m", HISTORY_SERVER)
        for host in self.hosts:
            self.start_node(host)
        self.until(90, "NodeManagers at the ResourceManager", self.nodes_active)
        self.until(60, "JobHistoryServer", lambda: self.get("node1:19888", "/ws/v1/history/info"))

    def connect(self):
        first = self.hosts[0]
        if len(self.hosts) == 1:
            first.run("ip", "address", "add", f"{first.address}/32", "dev", "lo")
            return
        first.run("ip", "link", "add", "lan", "type", "bridge", "mcast_snooping", "0")
        first.run("ip", "address", "add", f"{first.address}/24", "dev", "lan")
        first.run("ip", "link", "set", "lan", "up")
        for host in self.hosts[1:]:
            first.run("ip", "link", "add", host.name, "type", "veth", "peer", "name", "lan", "netns", str(host.pid))
            first.run("ip", "link", "set", host.name, "master", "lan", "up")
            host.run("ip", "address", "add", f"{host.address}/24", "dev", "lan")
            host.run("ip", "link", "set", "lan", "up")
            if self.rate:
                for end, device in [(first, host.name), (host, "lan")]:
                    end.run("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate, "burst", "256kb", "latency", "20ms")

    def configure(self, host, handler):
        folder = host.folder / "conf"
        folder.mkdir(exist_ok=True)
        passed = {"RIPC_RUNTIME_DIR": self.runtime_folder(host), "RIPC_CLUSTER_KEY_FILE": self.work / "cluster.key", "RIPC_NETWORK": "key",
                  "RIPC_MULTICAST": "on" if len(self.hosts) > 1 else "off"}
        commas = ",".join([str(folder), *self.class_path])
        core = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": host.folder / "tmp", "fs.local.block.size": 128 << 20}
        yarn = {
            "yarn.resourcemanager.hostname": "node1",
            "yarn.nodemanager.hostname": host.name,
            "yarn.nodemanager.address": f"{host.name}:45454",
            "yarn.nodemanager.aux-services": "mapreduce_shuffle",
            "yarn.nodemanager.aux-services.mapreduce_shuffle.class": handler,
            "yarn.nodemanager.local-dirs": ",".join(str(host.folder / "local" / disk) for disk in "ab"),
            "yarn.nodemanager.log-dirs": self.work / "logs" / f"{host.name}-containers",
            "yarn.nodemanager.admin-env": ",".join(f"{name}={value}" for name, value in passed.items()),
            "yarn.nodemanager.resource.memory-mb": 8192,
            "yarn.nodemanager.resource.cpu-vcores": 8,
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 99.5,
            "yarn.nodemanager.recovery.dir": host.folder / "recovery",
            "yarn.scheduler.minimum-allocation-mb": 256,
            "yarn.application.classpath": commas,
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": 200,
            **self.node_settings,
        }
        mapred = {
            "mapreduce.framework.name": "yarn",
            "mapreduce.application.classpath": commas,
            "yarn.app.mapreduce.am.staging-dir": self.work / "staging",
            "mapreduce.jobhistory.address": "node1:10020",
            "mapreduce.jobhistory.webapp.address": "node1:19888",
            "yarn.app.mapreduce.am.resource.mb": 768,
            "yarn.app.mapreduce.am.command-opts": " ".join(["-Xmx512m -XX:+UseSerialGC", *OPENED]),
            "yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms": 200,
            "mapreduce.map.memory.mb": 768,
            "mapreduce.map.java.opts": "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "mapreduce.reduce.memory.mb": 1536,
            "mapreduce.reduce.java.opts": REDUCER_JAVA,
            "mapreduce.task.io.sort.mb": 200,
            "mapreduce.job.running.map.limit": 2,
            "mapreduce.map.speculative": "false",
            "mapreduce.reduce.speculative": "false",
        }
        queues = {
            "yarn.scheduler.capacity.root.queues": "default",
            "yarn.scheduler.capacity.root.default.capacity": 100,
            "yarn.scheduler.capacity.maximum-am-resource-percent": 0.5,
            # Tasks go to all hosts.
            "yarn.scheduler.capacity.per-node-heartbeat.multiple-assignments-enabled": "false",
        }
        for name, properties in [("core-site", core), ("yarn-site", yarn), ("mapred-site", mapred), ("capacity-scheduler", queues)]:
            (folder / f"{name}.xml").write_text(configuration(properties), encoding="utf-8")
        shutil.copy(HERE / "log4j.properties", folder)

    def runtime_folder(self, host):
        return (self.hosts[0] if host in self.hosts[:self.same_machine] else host).folder / "ripc"

    def command(self, host, heap, name, *arguments):
        path = ":".join([str(host.folder / "conf"), *self.class_path])
        return host.inside(self.java, *OPENED, f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4" if heap == "768m" else "-XX:TieredStopAtLevel=1",
                           f"-Dhadoop.log.dir={self.work}/logs", "-cp", path, name, *arguments)

    def daemon(self, host, name, heap, main):
        with open(self.work / "logs" / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(self.command(host, heap, main), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                                    env=host.environment(), start_new_session=True)

    def start_node(self, host):
        self.daemon(host, f"nodemanager-{host.name}", "768m", NODE_MANAGER)

    def kill_node(self, host):
        """Kills a NodeManager with SIGKILL. nsenter has become the NodeManager, so there is only one process."""
        process = self.processes.pop(f"nodemanager-{host.name}")
        process.send_signal(signal.SIGKILL)
        process.wait()

    def end_containers(self, host):
        """Ends the containers of a NodeManager that was killed. The daemons and clients stay."""
        end_namespace(host.pid, {process.pid for process in [host.holder, *self.processes.values(), *self.clients]})

    def __exit__(self, *_):
        for process in self.processes.values():
            process.terminate()
        end = time.monotonic() + 5  # they take longer only to say good-bye to each other
        for process in self.processes.values():
            try:
                process.wait(max(0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()
        for host in self.hosts:
            end_namespace(host.pid)
            host.holder.kill()
            host.holder.wait()
            if self.disk_size:
                subprocess.run(["umount", "--lazy", host.folder / "local"], check=True)
        self.hosts = []

    def clear(self):
        """Removes all but the logs."""
        for each in self.work.iterdir():
            if each.name != "logs":
                shutil.rmtree(each) if each.is_dir() else each.unlink()

    # ---- use ----

    def until(self, seconds, what, ready):
        end = time.monotonic() + seconds
        while True:
            try:
                if ready():
                    return
            except (OSError, ValueError, KeyError, Failed):
                pass
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise Failed(f"no {what}: the {name} has ended, see {self.work}/logs/{name}.log")
            if time.monotonic() > end:
                raise Failed(f"no {what} after {seconds} s, see {self.work}/logs")
            time.sleep(0.1)

    def get(self, server, path):
        done = self.hosts[0].run("curl", "-sf", "-m", "10", f"http://{server}{path}", check=False)
        if done.returncode:
            raise Failed(f"{server}{path}: curl ends with {done.returncode}")
        return json.loads(done.stdout)

    def nodes_active(self):
        return self.get("node1:8088", "/ws/v1/cluster/metrics")["clusterMetrics"]["activeNodes"] == len(self.hosts)

    def metrics(self, host, source):
        """A metrics2 source of a NodeManager."""
        beans = self.get(f"{host.name}:8042", f"/jmx?qry=Hadoop:service=NodeManager,name={source}")["beans"]
        return beans[0] if beans else {}

    def start_job(self, main, arguments, log):
        with open(self.work / "logs" / log, "wb") as output:
            client = subprocess.Popen(self.command(self.hosts[0], "512m", main, *arguments), stdout=output, stderr=output,
                                      stdin=subprocess.DEVNULL, env=self.hosts[0].environment())
        self.clients.append(client)
        return client

    def log(self, name):
        return (self.work / "logs" / name).read_text(encoding="utf-8", errors="replace")

    def job_id(self, log):
        found = re.search(r"job_\d+_\d+", self.log(log))
        return found.group() if found else None

    def job(self, main, *arguments, log="job.log"):
        """Runs a job, and returns its ID."""
        if self.start_job(main, arguments, log).wait():
            raise Failed(f"{main} failed, see {self.work}/logs/{log}:\n{self.log(log)[-2000:]}")
        return self.job_id(log)

    def history(self, job, path):
        answer = []

        def known():
            answer.append(self.get("node1:19888", f"/ws/v1/history/mapreduce/jobs/{job}{path}"))
            return True

        self.until(30, f"{job} in the history", known)
        return answer[0]

    def counters(self, job):
        """Returns the counters of the whole job as {group: {name: value}}."""
        groups = self.history(job, "/counters")["jobCounters"]["counterGroup"]
        return {group["counterGroupName"]: {each["name"]: each["totalCounterValue"] for each in listed(group["counter"])}
                for group in listed(groups)}

    def teragen(self, rows):
        folder = self.work / f"in-{rows}"
        if not (folder / "_SUCCESS").exists():
            shutil.rmtree(folder, ignore_errors=True)
            self.job(TERA + "TeraGen", "-Dmapreduce.job.maps=2", rows, folder, log="teragen.log")
        return folder

    def terasort_words(self, rows, maps, reduces, plugin, settings=()):
        """The arguments of TeraSort, whose output is the last one."""
        source = self.teragen(rows)
        output = self.work / "out"
        shutil.rmtree(output, ignore_errors=True)
        split = -(-rows * 100 // maps)
        # Tasks look for the partitions' file in the working directory of file:///, which is the job's.
        words = [f"-Dmapreduce.job.reduces={reduces}", f"-Dmapreduce.job.working.dir={output}", f"-Dmapreduce.input.fileinputformat.split.minsize={split}",
                 f"-Dmapreduce.input.fileinputformat.split.maxsize={split}", "-Dmapreduce.job.reduce.slowstart.completedmaps=1.0"]
        if plugin:
            words.append(f"-Dmapreduce.job.reduce.shuffle.consumer.plugin.class={OUR_SHUFFLE}")
        return [*words, *settings, source, output]

    def terasort(self, rows, maps=4, reduces=1, plugin=True, settings=()):
        return self.job(TERA + "TeraSort", *self.terasort_words(rows, maps, reduces, plugin, settings), log="terasort.log")

    def validate(self, rows):
        """Checks with Hadoop's own programs that the output has the input's rows in order."""
        texts = []
        for program, folder in [("TeraChecksum", self.teragen(rows)), ("TeraValidate", self.work / "out")]:
            report = self.work / program
            shutil.rmtree(report, ignore_errors=True)
            self.job(TERA + program, folder, report, log=f"{program}.log")
            texts.append("".join(part.read_text(encoding="utf-8") for part in report.glob("part-r-*")))
        checksum, found = texts
        if "error" in found or checksum.split() != found.split()[1:]:
            raise Failed(f"the output is not sorted, or not the input's: {found!r}; the input's checksum is {checksum!r}")

    def check_sorted(self, rows):
        """Checks that the output has the input's rows in order. Faster than TeraValidate for little data."""
        expected = row_sum(self.teragen(rows).glob("part-m-*"), in_order=False)
        got = row_sum(sorted((self.work / "out").glob("part-r-*")), in_order=True)
        if got != expected:
            raise Failed(f"the output has (rows, sum) {got}, the input {expected}")

    def times(self, job):
        """Where the time of a job went, in seconds."""
        info = self.history(job, "")["job"]
        tasks = []
        for task in listed(self.history(job, "/tasks")["tasks"]["task"]):
            path = f"/tasks/{task['id']}/attempts"
            for attempt in listed(self.history(job, path)["taskAttempts"]["taskAttempt"]):
                if attempt["state"] == "SUCCEEDED":
                    groups = self.history(job, f"{path}/{attempt['id']}/counters")["jobTaskAttemptCounters"]["taskAttemptCounterGroup"]
                    cpu = next(each["value"] for group in listed(groups) for each in listed(group["counter"])
                               if each["name"] == "CPU_MILLISECONDS")
                    tasks.append((task["type"], attempt, cpu / 1000))
        reduces = [(attempt, cpu) for kind, attempt, cpu in tasks if kind == "REDUCE"]
        return {
            "total": (info["finishTime"] - info["submitTime"]) / 1000,
            "shuffle": max(attempt["elapsedShuffleTime"] for attempt, _ in reduces) / 1000,
            "merge": max(attempt["elapsedMergeTime"] for attempt, _ in reduces) / 1000,
            "reduce": max(attempt["elapsedReduceTime"] for attempt, _ in reduces) / 1000,
            "reduce_cpu": sum(cpu for _, cpu in reduces),
            "map_cpu": sum(cpu for kind, _, cpu in tasks if kind == "MAP"),
        }

    def node_cpu(self):
        return sum(cpu_seconds(process.pid) for name, process in self.processes.items() if name.startswith("nodemanager"))


def row_sum(files, in_order):
    count = total = 0
    last = b""
    for file in files:
        with open(file, "rb") as rows:
            while row := rows.read(100):
                if in_order and row[:10] < last:
                    raise Failed(f"{file} is not sorted")
                last = row[:10]
                total += zlib.crc32(row)
                count += 1
    return count, total


def listed(value):
    """Returns a list: Hadoop's REST interface writes a list of one element as that element."""
    return value if isinstance(value, list) else [value]


def end_namespace(pid, spared=()):
    """Ends the processes of a namespace: containers outlive a NodeManager that was killed."""
    space = os.readlink(f"/proc/{pid}/ns/net")
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.name) not in {pid, *spared} and os.readlink(folder / "ns/net") == space:
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            pass


def main():
    """Runs unittest's main() if the lab can run; otherwise prints the reason and exits with 77."""
    try:
        require()
    except Missing as reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
