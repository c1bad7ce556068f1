# SPDX-License-Identifier: Apache-2.0
"""Help, exit codes, JSON and messages of every command."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True

from harness import PATIENCE, RIPC, CliTest  # noqa: E402

COMPLETION = pathlib.Path(__file__).resolve().parents[2] / "libripc/cli/completion.bash"

COMMANDS = ["serve", "get", "serve-calls", "call", "wait", "watch", "ping", "resolve", "services", "doctor", "key", "trust", "bench"]
BENCHES = ["pingpong", "rate", "bandwidth", "calls", "service", "protocols", "pool"]


class Help(CliTest):
    def test_lists_every_command(self):
        text = self.ripc("--help")[0].decode()
        for command in COMMANDS:
            self.assertIn(command, text)

    def test_every_command_has_help_with_an_example(self):
        for command in [[name] for name in COMMANDS] + [["bench", name] for name in BENCHES]:
            with self.subTest(command=command):
                text = self.ripc(*command, "--help")[0].decode()
                self.assertIn("Example: ripc " + " ".join(command), text)

    def test_every_command_that_prints_a_result_has_json(self):
        for command in [[name] for name in COMMANDS if name not in ("bench", "key", "trust")] + [["key", "new"], ["trust", "list"]] + [["bench", name] for name in BENCHES]:
            with self.subTest(command=command):
                self.assertIn("--json", self.ripc(*command, "--help")[0].decode())

    def test_version_is_three_numbers(self):
        self.assertRegex(self.ripc("--version")[0].decode(), r"^\d+\.\d+\.\d+\s*$")


class Completion(CliTest):
    def completed(self, *words):
        script = (f"source '{COMPLETION}'; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _ripc; "
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "-", RIPC, *words], env=self.environment, capture_output=True, check=True)
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode().split()

    def test_offers_the_commands_that_begin_with_the_word(self):
        self.assertEqual(set(COMMANDS) - set(self.completed("")), set())
        self.assertEqual(self.completed("se"), ["serve", "serve-calls", "services"])
        self.assertEqual(self.completed("bench", "p"), ["pingpong", "protocols", "pool"])

    def test_offers_options_and_their_values(self):
        self.assertEqual(self.completed("get", "files", "--ti"), ["--timeout"])
        self.assertEqual(self.completed("bench", "calls", "--wait", ""), ["spin", "block", "adaptive"])

    def test_leaves_other_words_to_the_shell(self):
        self.assertEqual(self.completed("get", "files", ""), [])


class Groups(CliTest):
    def setUp(self):
        super().setUp()
        self.process = self.serve("files")
        known = os.path.join(self.folder, "known")
        with open(known, "w", encoding="utf-8") as file:
            file.write(f"files shm:{self.environment['RIPC_RUNTIME_DIR']} group:room group:7\n")
            file.write("777 socket:127.0.0.1:1 group:room\n")
        self.environment["RIPC_RESOLVER_FILE"] = known

    def test_resolve_shows_each_member_of_a_group_with_its_path(self):
        text = self.ripc("resolve", "group:room")[0].decode()
        self.assertRegex(text, r"^group 0x6[0-9a-f]{15}, 2 members\n")
        self.assertRegex(text, rf"0x[0-9a-f]{{16}} +files +{self.process.pid} +shm +shm:")
        self.assertRegex(text, r"0x0000000000000309 +- +- +none +socket:127.0.0.1:1")
        found = self.ripc_json("resolve", "group:7")
        self.assertEqual(found["id"], "0x4000000000000007")
        self.assertEqual([member["pid"] for member in found["members"]], [self.process.pid])
        self.assertEqual(self.ripc_json("resolve", "id:0x4000000000000007"), found)

    def test_services_shows_the_groups_of_each(self):
        groups = {service["name"]: service["groups"] for service in self.ripc_json("services")["services"]}
        self.assertEqual(groups["files"][0], "0x4000000000000007")
        self.assertIn("0x4000000000000007 0x6", self.ripc("services")[0].decode())

    def test_a_group_without_members_is_an_error_that_says_what_to_do(self):
        errors = self.ripc("resolve", "group:nobody", code=3)[1].decode()
        self.assertIn("has no living member", errors)

    def test_a_mistake_in_the_file_is_told_with_its_line(self):
        for address in ("socket:host:7000", "socket:1.2.3.4", "socket:1.2.3.4:70000", "verbs:h:1", "bar:1", "shm:relative"):
            with open(self.environment["RIPC_RESOLVER_FILE"], "w", encoding="utf-8") as file:
                file.write(f"# one\ntwo {address}\n")
            self.assertIn(f"line 2: '{address}' is not an address", self.ripc("services", code=1)[1].decode())

    def test_a_group_is_no_service(self):
        for name in ("id:0x4000000000000007", "group:room"):
            for command in (["ping", name], ["get", name, "x"], ["wait", name], ["watch", name],
                            ["serve", self.served, "--service", name], ["call", name, "0"], ["serve-calls", name]):
                with self.subTest(command=command):
                    errors = self.ripc(*command, code=2)[1].decode()
                    self.assertIn("is a group", errors)
                    self.assertNotIn("ripc_", errors)


class Usage(CliTest):
    def test_wrong_usage_exits_with_2_and_says_something(self):
        for arguments in (
            [],
            ["no-such-command"],
            ["get"],
            ["get", "files"],
            ["get", "files", "a", "--batch"],
            ["get", "files", "--batch", "-o", "a"],
            ["get", "files", "a", "-o", "x", "--chunk", "0"],
            ["serve", self.served],
            ["resolve", "id:0"],
            ["resolve", "id:seven"],
            ["resolve", "with/slash"],
            ["resolve", "group:with/slash"],
            ["resolve", "group:7x"],
            ["ping", "files", "--count", "0"],
            ["wait"],
            ["call", "files"],
            ["call", "files", "echo"],
            ["call", "files", "-1"],
            ["call", "files", "010"],
            ["serve", self.served, "--service", "files", "--cache=-1"],
            ["serve", self.served, "--service", "files", "--cache", "99999999999999999999"],
            ["bench", "rate", "--iterations=-1"],
            ["ping", "files", "--count", "010"],
            ["call", "files", "0", "--data", "x", "--file", "y"],
            ["serve-calls"],
            ["bench"],
            ["bench", "rate", "--kind", "pigeon"],
            ["bench", "bandwidth", "--kind", "long", "--size", "0"],
            ["bench", "pingpong", "--wait", "sometimes"],
        ):
            with self.subTest(arguments=arguments):
                self.assertTrue(self.ripc(*arguments, code=2)[1])


    def test_a_wrong_timeout_is_answered_by_what_is_right(self):
        for command in (["ping", "files"], ["get", "files", "x"], ["wait", "files"], ["watch", "files"], ["resolve", "files"], ["call", "files", "0"]):
            for timeout in ("-1", "soon", "nan"):
                with self.subTest(command=command, timeout=timeout):
                    errors = self.ripc(*command, f"--timeout={timeout}", code=2)[1].decode()
                    self.assertIn("seconds, 0 or more", errors)
                    self.assertLess(len(errors), 400)


class Services(CliTest):
    def test_unknown_service_exits_with_3_and_says_what_to_do(self):
        for arguments in (
            ["resolve", "nobody"],
            ["resolve", "id:77"],
            ["ping", "nobody", "--timeout", "0"],
            ["get", "nobody", "file", "-o", self.fetched],
            ["watch", "nobody"],
            ["call", "nobody", "0", "--timeout", "0"],
        ):
            with self.subTest(arguments=arguments):
                self.assertIn("ripc services", self.ripc(*arguments, code=3)[1].decode())

    def test_a_service_is_resolved_listed_and_answers_pings(self):
        service = self.serve("files")
        info = self.ripc_json("resolve", "files")
        self.assertEqual((info["name"], info["pid"]), ("files", service.pid))
        listed = self.ripc_json("services")["services"]
        self.assertIn(info["id"], [entry["id"] for entry in listed])
        answer = self.ripc_json("ping", "files", "--count", "100")
        self.assertEqual((answer["answered"], answer["id"]), (100, info["id"]))
        self.assertGreater(answer["rtt_ns"]["p50"], 0)

    def test_a_service_can_have_a_number_instead_of_a_name(self):
        self.serve("id:4711")
        self.assertEqual(int(self.ripc_json("resolve", "id:4711")["id"], 16), 4711)
        self.assertEqual(int(self.ripc_json("ping", "id:0x1267")["id"], 16), 4711)

    def test_resolve_and_ping_wait_for_a_service_to_appear(self):
        waiters = [
            self.start("resolve", "later", "--timeout", str(PATIENCE), "--json"),
            self.start("ping", "later", "--timeout", str(PATIENCE), "--json"),
        ]
        self.serve("later")
        for waiter in waiters:
            out, _ = waiter.communicate(timeout=PATIENCE)
            self.assertEqual(waiter.returncode, 0)
            self.assertIn("transport", json.loads(out))

    def test_wait_ends_when_the_service_appears(self):
        waiters = [self.start("wait", "later", "--json"), self.start("wait", "later", "--timeout", str(PATIENCE))]
        service = self.serve("later")
        for waiter, expected in zip(waiters, (f'"pid":{service.pid}', f"process {service.pid}")):
            out, _ = waiter.communicate(timeout=PATIENCE)
            self.assertEqual(waiter.returncode, 0)
            self.assertIn(expected, out.decode())

    def test_wait_for_what_does_not_appear_exits_with_3(self):
        self.assertIn("ripc services", self.ripc("wait", "nobody", "--timeout", "0.1", code=3)[1].decode())

    def test_ping_of_a_stopped_service_times_out_with_4(self):
        service = self.serve("files")
        service.send_signal(signal.SIGSTOP)
        self.assertIn("stopped", self.ripc("ping", "files", "--timeout", "1", code=4)[1].decode())

    def test_ping_says_how_many_of_its_pings_were_answered(self):
        self.serve("files")
        errors = self.ripc("ping", "files", "--count", "100000000", "--timeout", "0.5", code=4)[1].decode()
        self.assertRegex(errors, r"answered [1-9][0-9]* of [0-9]+ pings")
        self.assertNotIn("does not answer", errors)

    def test_an_id_in_use_is_refused_and_takeover_fences_the_holder(self):
        first = self.serve("files")
        _, error = self.ripc("serve", self.served, "--service", "files", code=1)
        self.assertIn("--takeover", error.decode())
        self.assertIn(self.ripc_json("resolve", "files")["id"], error.decode(), "IDs have one form everywhere")
        second = self.serve("files", "--takeover")
        self.assertEqual(first.wait(PATIENCE), 1)
        self.assertEqual(self.ripc_json("resolve", "files")["pid"], second.pid)

    def test_serve_ends_in_order_on_sigint_and_sigterm(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                service = self.serve("files")
                service.send_signal(number)
                self.assertEqual(service.wait(PATIENCE), 0)
                self.ripc("resolve", "files", code=3)

    def test_serve_refuses_what_is_no_directory(self):
        self.ripc("serve", os.path.join(self.folder, "missing"), "--service", "files", code=1)
        self.write("file", b"x")
        self.ripc("serve", os.path.join(self.served, "file"), "--service", "files", code=1)

    def test_serve_refuses_a_directory_that_it_may_not_enter(self):
        closed = os.path.join(self.folder, "closed")
        os.mkdir(closed, 0)
        # Root may enter everything, so as root the test runs the command as another user.
        other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        os.chmod(self.folder, 0o755)
        try:
            service = self.start("serve", closed, "--service", "files", stderr=subprocess.PIPE, **other)
        except PermissionError:
            self.skipTest("another user may not run the command where it was built")
        _, errors = service.communicate(timeout=PATIENCE)
        self.assertEqual(service.returncode, 1)
        self.assertIn("chmod", errors.decode())

    def test_serve_prints_json_when_ready_and_at_the_end(self):
        service = self.start("serve", self.served, "--service", "files", "--json")
        self.assertEqual(json.loads(service.stdout.readline())["pid"], service.pid)
        self.ripc("ping", "files")
        service.terminate()
        end = json.loads(service.stdout.readline())
        self.assertEqual((end["event"], end["requests"]), ("closed", 1))


class OtherDirectory(CliTest):
    """A service of the same user and host with another runtime directory, as without XDG_RUNTIME_DIR."""

    def setUp(self):
        super().setUp()
        xdg = os.path.join(self.folder, "xdg")
        os.mkdir(xdg, 0o700)
        self.environment["XDG_RUNTIME_DIR"] = xdg
        self.environment["RIPC_TRANSPORTS"] = "shm,socket"
        self.environment["RIPC_NETWORK"] = "open"
        self.own = self.environment.pop("RIPC_RUNTIME_DIR")
        self.other = os.path.join(xdg, "ripc")
        self.serve("files")

    def move_here(self, *names):
        """From here on, commands use their own directory, and a file gives the addresses of these services."""
        known = os.path.join(self.folder, "known")
        services = os.path.join(self.other, "services")
        with open(known, "w", encoding="utf-8") as file:
            for name in os.listdir(services):
                with open(os.path.join(services, name), encoding="utf-8") as record:
                    record = json.load(record)["record"]
                addresses = [f"{address['transport']}:{address['locator']}" for address in record["addresses"]]
                if record["name"] in names:
                    file.write(f"{record['name'] or int(record['id'], 16)} {' '.join(addresses)}\n")
        self.environment.update(RIPC_RUNTIME_DIR=self.own, RIPC_RESOLVER_FILE=known)

    def test_is_named_to_who_finds_nothing_here(self):
        self.environment["RIPC_RUNTIME_DIR"] = self.own
        for transports in ("shm", "shm,socket"):
            self.environment["RIPC_TRANSPORTS"] = transports
            for command in (["resolve", "files"], ["get", "files", "a"], ["ping", "files", "--timeout", "0"]):
                said = self.ripc(*command, code=3)[1].decode()
                self.assertIn(f"also meet in {self.other}, and not in {self.own}: set RIPC_RUNTIME_DIR", said)
                self.assertIn(f"nothing is registered under it in {self.own}.", said)

    def test_is_found_by_doctor(self):
        self.environment["RIPC_RUNTIME_DIR"] = self.own
        findings = self.ripc_json("doctor")["findings"]
        texts = [(f["level"], f["text"]) for f in findings if f["subject"] == "runtime directory"]
        self.assertTrue(any(level == "limited" and self.other in text for level, text in texts), texts)

    def test_is_what_resolve_names_as_the_reason_for_sockets(self):
        self.move_here("files")
        info = self.ripc_json("resolve", "files")
        self.assertEqual(info["transport"], "socket")
        self.assertIn("runs on this host, but not with this process's runtime directory", info["others"])

    def test_is_the_reason_for_sockets_between_those_who_have_the_key_too(self):
        del self.environment["RIPC_NETWORK"]
        self.serve("more")
        self.move_here("more")
        info = self.ripc_json("resolve", "more")
        self.assertEqual(info["transport"], "socket")
        self.assertIn("runs on this host, but not with this process's runtime directory", info["others"])
        self.assertIn(self.own, info["others"])
        self.assertIn("RIPC_RUNTIME_DIR", info["others"])

    def test_ping_tells_the_path_that_is_taken_though_pings_were_lost(self):
        # `ripc watch` has a service without a name, which does not answer pings.
        self.start("watch", "files", "--json").stdout.readline()
        self.move_here("")
        with open(self.environment["RIPC_RESOLVER_FILE"], encoding="utf-8") as file:
            watcher = file.readline().split()[0]
        answer = self.ripc_json("ping", f"id:{watcher}", "--timeout", "2", code=4)
        self.assertEqual((answer["answered"], answer["transport"]), (0, "socket"))
        self.assertGreater(answer["sent"], 1)


class Watch(CliTest):
    def test_is_notified_when_the_service_ends(self):
        service = self.serve("files")
        watch = self.start("watch", "files", "--json")
        self.assertEqual(json.loads(watch.stdout.readline())["event"], "watching")
        service.terminate()
        out, _ = watch.communicate(timeout=PATIENCE)
        self.assertEqual(json.loads(out)["event"], "notified by")
        self.assertEqual(watch.returncode, 0)

    def test_tells_of_a_kill_and_goes_on_with_the_next_process(self):
        service = self.serve("files")
        watch = self.start("watch", "files", "--json", "--timeout", str(PATIENCE), stderr=subprocess.DEVNULL)
        self.assertEqual(json.loads(watch.stdout.readline())["event"], "watching")
        service.kill()
        service.wait(PATIENCE)
        event = json.loads(watch.stdout.readline())
        self.assertEqual((event["event"], event["pid"]), ("ended", service.pid))
        second = self.serve("files")
        event = json.loads(watch.stdout.readline())
        self.assertEqual((event["event"], event["pid"]), ("watching again", second.pid))
        second.terminate()
        self.assertEqual(json.loads(watch.stdout.readline())["event"], "notified by")
        self.assertEqual(watch.wait(PATIENCE), 0)


class Doctor(CliTest):
    def test_every_finding_has_a_level_and_what_is_not_good_has_advice(self):
        report = self.ripc_json("doctor")
        self.assertTrue(report["findings"])
        for finding in report["findings"]:
            self.assertIn(finding["level"], ("good", "limited", "broken"))
            self.assertTrue(finding["subject"] and finding["text"])
            if finding["level"] == "broken":
                self.assertTrue(finding["advice"])

    def test_names_a_misspelled_variable(self):
        self.assertNotIn("environment", [finding["subject"] for finding in self.ripc_json("doctor")["findings"]])
        self.environment.update(RIPC_TRANSPORT="shm", XRIPC_Y="1")
        told = [finding for finding in self.ripc_json("doctor")["findings"] if finding["subject"] == "environment"]
        self.assertEqual([finding["level"] for finding in told], ["limited"])
        self.assertTrue(told[0]["text"].endswith(": RIPC_TRANSPORT"), told)


if __name__ == "__main__":
    unittest.main()
