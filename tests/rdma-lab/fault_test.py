#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libripc over RDMA between two machines whose network or power fails during a transfer: `ripc serve` on node 1, `ripc
get` on node 2.

Exit code 77 and the reason where the lab cannot run on this machine."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLUSTER = HERE / "cluster"
NODE = HERE / "node"
RIPC = Path(os.environ.get("RIPC_TEST_PROGRAM_DIR", HERE / "../../build/release/tests"), "../bin/ripc").resolve()
PATIENCE = 240  # seconds, for any run

# Runs in both guests. Where something is to happen during a transfer, the file is fetched in small pieces, because the
# devices move a requested piece faster than a shell can look.
COMMON = f"""
export RIPC_TRANSPORTS=${{transports:-verbs}} RIPC_MULTICAST=on RIPC_RUNTIME_DIR=/tmp/run
mkdir -p /tmp/run /tmp/files
received() {{ cat /sys/class/net/vec0/statistics/rx_bytes; }}
ripc() {{ {RIPC} "$@"; }}
# await_bytes N: until so many have come since `before`.
await_bytes() {{ until (($(received) - before >= $1)); do :; done; }}
path() {{ ripc resolve files | awk '$1 == "path" {{ print $2 }}'; }}
reach() {{ busybox ping -c 1 -W 1 10.77.0.1 >/dev/null; }}
"""
SERVER = f"""
seq 5000000 >/tmp/files/big
seq 300000 >/tmp/files/small
{RIPC} serve /tmp/files --service files &
busybox nc -l -p 7000 >/dev/null
kill $!
wait $!
"""
CLIENT = """
until ripc ping files >/dev/null 2>&1; do :; done
before=$(received)
"""
END = """
until busybox nc 10.77.0.1 7000 </dev/null; do :; done
"""
# Both ends on one node, while the port of its device goes down and comes back.
PORT = """
export RIPC_TRANSPORTS=verbs,socket RIPC_MULTICAST=off
seq 3000000 >/tmp/files/big
ripc serve /tmp/files --service files &
server=$!
until ripc ping files >/dev/null 2>&1; do :; done
interface=$(rdma link | awk '{ print $NF }')
echo "before: $(path)"
ripc get files big --chunk 256K --verify --json -o - 2>/tmp/report |
  { head -c 8000000 >/dev/null; ip link set dev "$interface" down; cat >/dev/null; }
cat /tmp/report
echo "down: $(path)"
ip link set dev "$interface" up
until [[ $(path) == verbs ]]; do :; done
echo "up: $(path)"
kill "$server"
wait "$server"
true
"""

# Both ends on one node whose device is taken away and given back, during a transfer and while all are idle. The other
# device has no address, so that only sockets are left. A device is gone when nobody has it open any more.
REMOVED = f"""
export RIPC_TRANSPORTS=verbs,socket RIPC_MULTICAST=off
seq 3000000 >/tmp/files/big
name=${{type}}0
interface=$(rdma link | awk -v type="$type" '$2 ~ type {{ print $NF }}')
other=$(rdma link | awk -v type="$type" '$2 !~ type {{ print $NF }}')
ip address flush dev "$other"
{RIPC} serve /tmp/files --service files &
server=$!
until ripc ping files >/dev/null 2>&1; do :; done
take_away() {{ rdma link del "$name" && echo "gone"; }}
give_back() {{
  rdma link add "$name" type "$type" netdev "$interface"
  until [[ $(path) == verbs ]]; do :; done
}}
# Of the server, when it has let go what the last client had: it closes its end of their connection after the client.
descriptors() {{
  while awk '$4 == "01" || $4 == "08" {{ busy = 1 }} END {{ exit !busy }}' /proc/net/tcp; do :; done
  ls /proc/$server/fd | wc -l
}}
# What they are.
listed() {{ ls -l /proc/$server/fd | awk '{{ print $NF }}' | sort; }}
# settle COUNT: until there are no more than that, or the patience is over. How many there are then.
settle() {{ end=$((SECONDS + 30)); until now=$(descriptors); ((now <= $1)) || ((SECONDS > end)); do :; done; echo "$now"; }}
echo "before: $(path)"
ripc get files big --chunk 256K --verify --json -o - 2>/tmp/report |
  {{ head -c 8000000 >/dev/null; take_away >/tmp/gone & cat >/dev/null; wait; }}
cat /tmp/gone /tmp/report
echo "without: $(path)"
give_back
echo "again: $(path)"
ripc get files big --verify --json
base=$(descriptors)
listed >/tmp/base
for round in 1 2 3; do
  take_away
  echo "without: $(path)"
  ripc get files big --verify --json
  give_back
  ripc get files big --verify --json
done
echo "descriptors: $base, $(settle "$base")"
listed | diff /tmp/base -
ripc ping files --count 100 --json
kill "$server"
wait "$server"
true
"""
# The same with the network interface below the device, which does not come back.
UNPLUGGED = """
export RIPC_TRANSPORTS=verbs,socket RIPC_MULTICAST=off
seq 3000000 >/tmp/files/big
interface=$(rdma link | awk -v type="$type" '$2 ~ type { print $NF }')
ip address flush dev "$(rdma link | awk -v type="$type" '$2 !~ type { print $NF }')"
ip link add spare type dummy
ip address add 10.79.0.1/24 dev spare
ip link set spare up
ripc serve /tmp/files --service files &
server=$!
until ripc ping files >/dev/null 2>&1; do :; done
echo "before: $(path)"
ripc get files big --chunk 256K --verify --json -o - 2>/tmp/report |
  { head -c 8000000 >/dev/null; { ip link del "$interface" && echo gone; } >/tmp/gone & cat >/dev/null; wait; }
cat /tmp/gone /tmp/report
echo "without: $(path)"
kill "$server"
wait "$server"
true
"""
# A server whose clients are killed while they read, or while the server writes to them. The first clients leave the
# baseline behind: some things are made when they are first needed, and stay.
KILLED = f"""
# The multicast resolver keeps descriptors of its questions, for as many as it had at once.
export RIPC_MULTICAST=off
seq 3000000 >/tmp/files/big
mkfifo /tmp/piece
{RIPC} serve /tmp/files --service files &
server=$!
until ripc ping files >/dev/null 2>&1; do :; done
# What all processes have of the devices; descriptors and threads of the server.
count() {{
  for kind in ctx pd cq qp cm_id; do echo -n "$kind=$(rdma resource show $kind | wc -l) "; done
  echo "descriptors=$(ls /proc/$server/fd | wc -l) threads=$(ls /proc/$server/task | wc -l)"
}}
kill_one() {{
  {RIPC} get files big --chunk 256K "$@" -o - >/tmp/piece 2>/dev/null &
  client=$!
  {{ head -c 2000000 >/dev/null; kill -9 "$client"; }} </tmp/piece
  wait "$client"
}}
# settle COUNTS: until there is as much of everything as that, or the patience is over. What there is then.
settle() {{ end=$((SECONDS + 30)); until now=$(count); [[ $now == "$1" ]] || ((SECONDS > end)); do :; done; echo "$now"; }}
# Connections of the server, also those that it is making or closing.
connections() {{ ss -Htanp | grep -v ^LISTEN | grep "pid=$server,"; }}
pairs() {{ rdma resource show qp | wc -l; }}
regions() {{ rdma resource show mr | wc -l; }}
before=$(pairs)
kill_one
kill_one --return-buffer
# What is left of the first clients is not part of the base: their sockets go after their queue pairs.
until (($(pairs) == before)) && ! connections >/dev/null; do :; done
base=$(count)
kept=$(regions)
for round in 1 2 3 4 5 6; do kill_one; kill_one --return-buffer; done
end=$(settle "$base")
echo "base: $base"
echo "end: $end"
echo "registrations: $kept to $(regions)"
ripc get files big --verify --json
kill "$server"
wait "$server"
true
"""


class FaultTest(unittest.TestCase):
    def run_pair(self, client, *options, device="rxe", end=END, transports="verbs"):
        """Returns what node 2 prints, once the server and its client have ended well."""
        script = (f"set -u; transports={transports}; {COMMON}\n"
                  f"if ((LAB_NODE == 1)); then {SERVER} else {CLIENT}{client}{end} fi")
        return self.run_lab(CLUSTER, script, "--nodes", "2", "--devices", device, *options)

    def run_lab(self, program, script, *options):
        done = subprocess.run([program, "--timeout", str(PATIENCE), *options, "--", "bash", "-c", script],
                              capture_output=True, text=True, timeout=PATIENCE + 60, check=False)
        if done.returncode == 77:
            print(done.stderr)
            sys.exit(77)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        return done.stdout

    def fetched(self, output, travelled):
        """Checks that one file has arrived this way, whole."""
        results = re.findall(rf'"ok":true.*"travelled":"{travelled}","transport":"verbs".*"verified":true', output)
        self.assertEqual(len(results), 1, output)

    def test_a_transfer_goes_on_after_a_cut(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_pair("""
                    ripc get files big --chunk 1M --verify --json --timeout 60 &
                    await_bytes 8000000
                    echo cut
                    while reach; do :; done
                    # Until the connections were given up, too.
                    for second in 1 2 3 4 5 6; do reach; done
                    echo heal
                    wait $!
                    echo "ended with $?"
                    """, "--on", "cut", "cut 1 2", "--on", "heal", "heal", device=device)
                self.fetched(output, "long")
                self.assertIn("ended with 0", output)

    def test_with_5_percent_loss_what_arrives_is_whole(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_pair("""
                    echo lossy
                    ripc get files small --chunk 256K --verify --json --timeout 60
                    echo "ended with $?"
                    echo heal
                    """, "--on", "lossy", "loss 1 2 5", "--on", "heal", "heal", device=device)
                self.fetched(output, "long")
                self.assertIn("ended with 0", output)

    def test_return_buffers_are_written_between_machines(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                self.fetched(self.run_pair("ripc get files big --return-buffer --verify --json\n", device=device),
                             "return")

    def test_a_port_that_goes_down_is_replaced_by_sockets_in_the_midst_of_a_transfer(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_lab(NODE, f"set -u; {COMMON}\n{PORT}", "--devices", device)
                self.assertRegex(output, r'(?s)before: verbs.*"ok":true.*"transport":"socket".*"verified":true.*'
                                         r"down: socket.*up: verbs")

    def test_a_device_that_is_removed_is_let_go_and_taken_up_again_when_it_is_back(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_lab(NODE, f"set -u; {COMMON}\ntype={device}\n{REMOVED}")
                whole = r'"ok":true.*"transport":"{}".*"verified":true'
                over_sockets, over_verbs = whole.format("socket"), whole.format("verbs")
                cycle = rf"gone\nwithout: socket\n[^\n]*{over_sockets}.*\n[^\n]*{over_verbs}.*\n"
                self.assertRegex(output, rf"before: verbs\ngone\n[^\n]*{over_sockets}.*\nwithout: socket\n"
                                         rf"again: verbs\n[^\n]*{over_verbs}.*\n({cycle}){{3}}"
                                         r"descriptors: \d+, \d+\n")
                base, end = map(int, re.search(r"descriptors: (\d+), (\d+)\n", output).groups())
                self.assertLessEqual(end, base, output)

    def test_an_interface_that_is_removed_below_its_device_is_replaced_by_sockets(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_lab(NODE, f"set -u; {COMMON}\ntype={device}\n{UNPLUGGED}")
                self.assertRegex(output, r'(?s)before: verbs.*gone.*"ok":true.*"transport":"socket".*"verified":true.*'
                                         r"without: socket")

    def test_where_only_roce_is_blocked_sockets_are_used_from_the_first_message_on(self):
        output = self.run_pair("""
            echo "before: $(path)"
            echo block
            until [[ $(path) != verbs ]]; do :; done
            ripc resolve files
            ripc get files small --verify --json --timeout 60
            echo "ended with $?"
            """, "--on", "block", "block 4791", transports="verbs,socket")
        self.assertRegex(output, r'(?s)before: verbs.*UDP port 4791.*"ok":true.*"transport":"socket".*"verified":true.*'
                                 r"ended with 0")

    def test_a_transfer_goes_on_over_sockets_when_roce_is_blocked(self):
        output = self.run_pair("""
            ripc get files big --chunk 1M --verify --json --timeout 60 &
            await_bytes 8000000
            echo block
            wait $!
            echo "ended with $?"
            """, "--on", "block", "block 4791", transports="verbs,socket")
        self.assertRegex(output, r'(?s)"ok":true.*"transport":"socket".*"verified":true.*ended with 0')

    def test_a_power_failure_of_the_peer_is_noticed(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_pair("""
                    ripc get files big --chunk 1M --verify --json --timeout 5 &
                    await_bytes 8000000
                    echo kill
                    wait $!
                    echo "ended with $?"
                    """, "--on", "kill", "kill 1", device=device, end="")
                self.assertRegex(output, "ended with [34]", "no such service, or timed out")

    def test_peers_that_are_killed_leave_nothing_behind(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_lab(NODE, f"set -u; {COMMON}\n{KILLED}", "--devices", device)
                self.assertIn("base: ", output)
                self.assertRegex(output, r"base: (.*)\nend: \1\n")
                # Some registrations of reused memory are kept, but not one for each killed client.
                before, after = re.search(r"registrations: (\d+) to (\d+)", output).groups()
                self.assertLess(int(after) - int(before), 12, output)


if __name__ == "__main__":
    if not os.access(RIPC, os.X_OK):
        print(f"{RIPC} is not built: cmake --build --preset release --target ripc_cli")
        sys.exit(77)
    unittest.main()
