#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libripc over RDMA between two machines with two pairs of devices, each pair on a switch of its own: `ripc serve` on
node 1, `ripc get` on node 2, or `lab_rails` on both. Every byte is checked.

Exit code 77 and the reason where the lab cannot run on this machine."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = Path(os.environ.get("RIPC_TEST_PROGRAM_DIR", HERE / "../../build/release/tests"))
RIPC = (PROGRAMS / "../bin/ripc").resolve()
LAB_RAILS = (PROGRAMS / "lab_rails").resolve()
PATIENCE = 120  # seconds, for any run
FILE = 64 << 20

# Peers notice failures within the peer timeout, or a part of it.
COMMON = f"""
set -u
export RIPC_TRANSPORTS=verbs RIPC_MULTICAST=on RIPC_RUNTIME_DIR=/tmp/run RIPC_PEER_TIMEOUT_MS=2000
mkdir -p /tmp/run /tmp/files
ripc() {{ {RIPC} "$@"; }}
received() {{ cat "/sys/class/net/vec$1/statistics/rx_bytes"; }}
# What has come over both links since the last call.
count() {{
  local first=$(received 0) second=$(received 1)
  echo "first $((first - base0)) second $((second - base1))"
  base0=$first base1=$second
}}
# Prints what `ripc resolve` reports, if possible with two rails: on a busy machine the second one may come too late.
resolve() {{
  for try in 1 2 3 4 5; do
    ripc resolve files >/tmp/resolved
    grep -q "2 rails" /tmp/resolved && break
  done
  cat /tmp/resolved
}}
get() {{ ripc get files big --verify --json --timeout 60 "$@"; }}
"""
SERVER = f"""
head -c {FILE} /dev/urandom >/tmp/files/big
{RIPC} serve /tmp/files --service files &
busybox nc -l -p 7000 >/dev/null
kill $!
wait $!
"""
CLIENT = """
base0=0 base1=0
until ripc ping files >/dev/null 2>&1; do :; done
count >/dev/null
"""
# A visit that times out just when TCP retries, after 1 s or 3 s, may have ended the server without knowing it.
END = """
until busybox nc -w 5 10.77.0.1 7000 </dev/null || busybox nc -w 5 10.78.0.1 7000 </dev/null; do :; done
"""
# Fetches a file again and again, until something fails during a transfer: when part of the file has come over the
# second link. The shell rarely looks, because it takes the node's only processor.
FAULT = """
is_hit=false
until $is_hit; do
  count >/dev/null
  get --chunk 16M &
  while kill -0 $! 2>/dev/null && (($(received 1) - base1 < 1000000)); do sleep 0.02; done
  if kill -0 $! 2>/dev/null; then is_hit=true; {fault}; fi
  wait $! || exit 1
done
echo "whole"
"""
# Fetches until the link carries something again.
REPAIR = """
echo heal
count >/dev/null
until (($(received {link}) - base{link} > 1000000)); do get --chunk 16M >/dev/null || exit 1; done
echo "taken up again"
"""
# One process, and so one session, fetches the file again and again, for four peer timeouts during which long frames get
# nowhere over a link. Connections are still made over that link: `dials` counts those of this node.
BLACK_HOLE = """
coproc getting {{ ripc get files --batch --verify --json --timeout 60 --chunk {chunk}; }}
fetch() {{
  printf 'big\\t/dev/null\\n' >&"${{getting[1]}}"
  read -r line <&"${{getting[0]}}" && echo "$line" && [[ $line == *'"verified":true'* ]] || exit 1
}}
dials() {{
  if [[ {device} == rxe ]]; then
    cat /sys/class/infiniband/rxe{link}/ports/1/cm_tx_msgs/req
  else
    awk '/^Tcp: [0-9]/ {{ print $6 / 2 }}' /proc/net/snmp  # siw's own comes after one that asks whether TCP gets through
  fi
}}
is_used() {{
  count >/dev/null
  fetch
  (($(received {link}) - base{link} > 1000000))
}}
gets_through() {{ busybox ping -c 1 -W 1 -s 1000 "10.7$((7 + {link})).0.1" >/dev/null; }}
until is_used; do :; done
echo narrow
while gets_through; do :; done
before=$(dials)
end=$((SECONDS + 8))
until ((SECONDS >= end)); do fetch; done
echo "dialed $(dials) - $before times"
echo heal
until gets_through; do :; done
{after}
eval "exec ${{getting[1]}}>&-"
wait
"""
USED_AGAIN = """
until is_used; do :; done
echo "taken up again"
"""
# Short messages flow beside a long one that is always on its way. Both rails are there before anything fails.
RECEIVER = f"""
(busybox nc -l -p 7001 >/dev/null; happens) &
{LAB_RAILS} receive &
busybox nc -l -p 7000 >/dev/null
kill $! 2>/dev/null
wait $!
true
"""
# The printed lines `here` and `there` make something happen on this node or on the other one.
SENDER = f"""
flow() {{
  {LAB_RAILS} send begin +10.77.0.2 both +10.78.0.2 "$@" | while read -r line; do
    echo "$line"
    case $line in
    here) happens ;;
    there) busybox nc 10.78.0.1 7001 </dev/null ;;
    again) rdma link add "${{device}}0" type "$device" netdev vec0 ;;
    esac
  done
}}
"""
PORT_DOWN = "ip link set vec0 down"
# The second link has no RDMA; its interface is named next to the first link's device.
MIXED = """
rdma link del "{device}1" || exit 1
export RIPC_RAILS={device}0,vec1
"""
# librdmacm keeps a node's last device open until its process ends, so this adds a spare device that no rail uses. On a
# busy machine two seconds are too short for a session with one path left.
SPARE = """
ip link add spare type dummy && ip addr add "10.9$LAB_NODE.0.1/24" dev spare && ip link set spare up || exit 1
rdma link add spare0 type {device} netdev spare || exit 1
export RIPC_PEER_TIMEOUT_MS=8000
"""
# Succeeds when nobody has the device open any more.
REMOVED = 'rdma link del "${device}0" && echo "let go"'


class RailsTest(unittest.TestCase):
    def run_pair(self, client, *options, device="rxe", server=SERVER, beginning=CLIENT, both=""):
        """Returns what node 2 prints, once the server and its client have ended well. `both` runs first, on both
        nodes."""
        script = f"{COMMON}\n{both}\nif ((LAB_NODE == 1)); then {server} else {beginning}{client}{END} fi"
        done = subprocess.run([HERE / "cluster", "--links", "2", "--devices", device, "--timeout", str(PATIENCE), *options,
                               "--", "bash", "-c", script],
                              capture_output=True, text=True, timeout=PATIENCE + 60, check=False)
        if done.returncode == 77:
            print(done.stderr)
            sys.exit(77)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        return done.stdout

    def whole(self, output, count=1):
        """Checks that `count` files have arrived as they are on the server."""
        results = re.findall(r'"ok":true.*"travelled":"long","transport":"verbs".*"verified":true', output)
        self.assertEqual(len(results), count, output)

    def shares(self, output):
        """Returns how many bytes have come over each link."""
        return [tuple(map(int, found)) for found in re.findall(r"first (\d+) second (\d+)", output)]

    def test_long_items_travel_over_both_devices(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                # Each fetch is a session of its own. On a busy machine a file may arrive before the second connection.
                output = self.run_pair("resolve\n" + 3 * "get --chunk 16M\ncount\n", device=device)
                self.whole(output, 3)
                self.assertIn("RDMA reads for long items", output)
                self.assertRegex(output, r"reason .*; 2 rails;")
                self.assertRegex(output, rf"rail +{device}0, 10.77.0.2 to 10.77.0.1: .*\n.* rail +{device}1, 10.78.0.2 to 10.78.0.1: ")
                self.assertGreater(max(min(shares) for shares in self.shares(output)), FILE / 50, output)

    def test_the_setting_limits_and_names_the_rails(self):
        output = self.run_pair("RIPC_RAILS=1 get --chunk 16M\ncount\nRIPC_RAILS=vec1 get --chunk 16M\ncount\n"
                               "RIPC_RAILS=rxe1 get --chunk 16M\ncount\nRIPC_RAILS=rxe7 ripc ping files || count\n")
        self.whole(output, 3)
        one, interface, device, _ = self.shares(output)
        self.assertLess(one[1], FILE / 50, output)
        for shares in (interface, device):
            self.assertLess(shares[0], FILE / 50, output)
            self.assertGreater(shares[1], FILE, output)

    def test_a_cable_that_is_pulled_in_the_midst_loses_nothing(self):
        for device, link in (("rxe", 0), ("rxe", 1), ("siw", 0), ("siw", 1)):
            with self.subTest(device=device, link=link):
                output = self.run_pair(FAULT.format(fault="echo out") + REPAIR.format(link=link),
                                       "--on", "out", f"unplug 1 {link + 1}", "--on", "heal", "heal", device=device)
                self.assertRegex(output, r'(?s)out\n.*"verified":true.*whole\n.*taken up again')

    def test_a_session_moves_with_what_is_under_way(self):
        client = (FAULT.format(fault="echo out") + REPAIR.format(link=0)).replace("16M", "64M")
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_pair(client, "--on", "out", "unplug 1 1", "--on", "heal", "heal", device=device)
                self.assertRegex(output, r'(?s)out\n[^\n]*"retries":0,"verified":true.*whole\n.*taken up again')

    def dials_into_black_hole(self, device, link, chunk, after=":"):
        client = BLACK_HOLE.format(device=device, link=link, chunk=chunk, after=after)
        output = self.run_pair(client, "--on", "narrow", f"narrow {link + 1}", "--on", "heal", "heal", device=device)
        now, before = re.search(r"dialed ([0-9.]+) - ([0-9.]+) times", output).groups()
        return float(now) - float(before), output

    def test_a_rail_that_connects_and_carries_nothing_is_tried_less_and_less_often_and_taken_up_again(self):
        for device, link in (("rxe", 0), ("rxe", 1), ("siw", 0), ("siw", 1)):
            with self.subTest(device=device, link=link):
                dials, output = self.dials_into_black_hole(device, link, "16M", USED_AGAIN)
                self.assertGreaterEqual(dials, 2, output)
                self.assertLessEqual(dials, 7, f"each of them holds up what is under way\n{output}")
                self.assertIn("taken up again", output)

    def test_what_is_small_leaves_a_rail_that_connects_and_carries_nothing(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                dials, output = self.dials_into_black_hole(device, 0, "512K")
                self.assertGreaterEqual(dials, 1, output)
                self.assertLessEqual(dials, 3, f"each of them holds up what is under way\n{output}")

    def run_flow(self, steps, *options, device="rxe", happens=":", both=""):
        known = f"device={device}\nhappens() {{ {happens}; }}\n"
        return self.run_pair(f"flow {steps}", *options, device=device, server=known + RECEIVER,
                             beginning=known + SENDER, both=both)

    def flowed(self, output):
        """Checks that it was one session all the time: its numbers tell what was lost."""
        self.assertIn("goodbye", output)
        found = re.search(r'"short": (\d+), "missing": (\d+), "disordered": (\d+), "lost": (\d+), "long": (\d+)', output)
        self.assertTrue(found, output)
        short, missing, disordered, lost, long = map(int, found.groups())
        self.assertGreater(short, 0, output)
        self.assertLessEqual(missing, lost, output)
        self.assertEqual(disordered, 0, output)
        self.assertGreater(long, 0, output)

    def test_short_messages_go_on_over_the_other_device_and_back(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_flow("out 10.78.0.2 heal +10.77.0.2 back 10.77.0.2", "--on", "out", "unplug 1 1",
                                       "--on", "heal", "heal", "--on", "back", "unplug 1 2", device=device)
                self.flowed(output)

    def test_short_messages_leave_a_port_that_goes_down(self):
        for device, where in (("rxe", "here"), ("rxe", "there"), ("siw", "here"), ("siw", "there")):
            with self.subTest(device=device, where=where):
                self.flowed(self.run_flow(f"{where} 10.78.0.2", device=device, happens=PORT_DOWN))

    def test_short_messages_leave_a_device_that_is_removed(self):
        for device, where in (("rxe", "here"), ("rxe", "there"), ("siw", "here"), ("siw", "there")):
            with self.subTest(device=device, where=where):
                steps = f"{where} 10.78.0.2" + (" again +10.77.0.2" if where == "here" else "")
                output = self.run_flow(steps, device=device, happens=REMOVED)
                self.flowed(output)
                self.assertIn("let go", output)

    def test_without_any_link_the_session_ends(self):
        output = self.run_flow("end none", "--on", "end", "isolate 1", "--on", "RIPC_PEER_DEAD", "heal")
        self.assertRegex(output, r"end\n.*RIPC_PEER_DEAD\n")

    def test_a_port_that_goes_down_in_the_midst_loses_nothing(self):
        for device, link in (("rxe", 0), ("rxe", 1), ("siw", 0), ("siw", 1)):
            with self.subTest(device=device, link=link):
                output = self.run_pair(FAULT.format(fault=f"echo down; ip link set vec{link} down"), device=device)
                self.assertRegex(output, r'(?s)down\n.*"verified":true.*whole\n')

    def test_sockets_carry_long_items_beside_rdma_where_both_sides_name_them(self):
        client = 3 * "get --chunk 16M\ncount\n" + """
export RIPC_RAILS=auto
get --chunk 16M
count
"""
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_pair(client, device=device, both=MIXED.format(device=device))
                self.whole(output, 4)
                *mixed, default = self.shares(output)
                self.assertGreater(max(min(shares) for shares in mixed), FILE / 50, output)
                self.assertLess(default[1], FILE / 50, output)

    def test_a_rail_of_sockets_that_fails_loses_nothing(self):
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_pair(FAULT.format(fault="echo out") + REPAIR.format(link=1), "--on", "out", "unplug 1 2",
                                       "--on", "heal", "heal", device=device, both=MIXED.format(device=device))
                self.assertRegex(output, r'(?s)out\n[^\n]*"retries":0,"verified":true.*whole\n.*taken up again')

    def test_a_session_outlives_its_last_device_on_a_rail_of_sockets_and_comes_back(self):
        for device in ("rxe", "siw"):
            mixed = (MIXED + SPARE).format(device=device)
            with self.subTest(device=device, fails="cable"):
                output = self.run_flow("out 10.78.0.2 heal +10.77.0.2 back 10.77.0.2", "--on", "out", "unplug 1 1",
                                       "--on", "heal", "heal", device=device, both=mixed)
                self.flowed(output)
            for where in ("here", "there"):
                with self.subTest(device=device, fails="device", where=where):
                    steps = f"{where} 10.78.0.2" + (" again +10.77.0.2" if where == "here" else "")
                    output = self.run_flow(steps, device=device, happens=REMOVED, both=mixed)
                    self.flowed(output)
                    self.assertIn("let go", output)

    def test_what_was_under_way_comes_whole_when_the_last_device_goes(self):
        faults = (("echo out", ("--on", "out", "unplug 1 1")),
                  ('echo out; rdma link del "{device}0" && echo "let go"', ()))
        for device in ("rxe", "siw"):
            for fault, options in faults:
                with self.subTest(device=device, fault=fault):
                    # Without a device no new session can be made, so this is still the first one. The spare carries
                    # little, and only at the end.
                    client = FAULT.format(fault=fault.format(device=device)).replace("received 1) - base1", "received 0) - base0")
                    output = self.run_pair(client, *options, device=device, both=(MIXED + SPARE).format(device=device))
                    self.assertRegex(output, r'(?s)out\n.*"transport":"verbs"[^\n]*"verified":true.*whole\n')
                    self.assertEqual("let go" in output, not options, output)

    def test_small_items_and_replies_go_over_a_rail_of_sockets_when_the_last_device_is_gone(self):
        client = """
coproc getting { ripc get files --batch --verify --json --timeout 60 --chunk 256K; }
fetch() {
  printf 'big\\t/dev/null\\n' >&"${getting[1]}"
  read -r line <&"${getting[0]}" && echo "$line" && [[ $line == *'"verified":true'* ]] || exit 1
}
fetch
(rdma link del "%s0" && echo "let go") &  # an idle process lets go when it receives next
fetch
fetch
eval "exec ${getting[1]}>&-"
wait
"""
        for device in ("rxe", "siw"):
            with self.subTest(device):
                output = self.run_pair(client % device, device=device, both=(MIXED + SPARE).format(device=device))
                self.whole(output, 3)
                self.assertIn("let go", output)


if __name__ == "__main__":
    if not os.access(RIPC, os.X_OK):
        print(f"{RIPC} is not built: cmake --build --preset release --target ripc_cli")
        sys.exit(77)
    if not os.access(LAB_RAILS, os.X_OK):
        print(f"{LAB_RAILS} is not built: cmake --build --preset release --target ripc_lab_rails")
        sys.exit(77)
    unittest.main()
