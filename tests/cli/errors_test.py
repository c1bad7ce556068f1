# SPDX-License-Identifier: Apache-2.0
"""Each error is reported once, with what to do next, an exit code of its kind and, if wanted, as JSON."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True

from harness import BUILD, PATIENCE, RIPC, SOURCE, CliTest  # noqa: E402

TIME = ["--timeout", "0.3"]
LIBRARIES = os.path.join(BUILD, "lib")
DIES_IN_ITS_METHOD = """
#include <csignal>
#include <cstdio>
#include "ripc/ripc.hpp"
#include "ripc/rpc.hpp"
int main() {
  auto context = ripc::Context::create();
  auto service = context->register_service({.name = "slow"});
  auto rpc = ripc::Rpc::create(*service);
  (void)rpc->on(1, [](ripc::Request) { std::raise(SIGKILL); });
  std::puts("ready");
  std::fflush(stdout);
  while (rpc->run().ok()) {}
}
"""


MAKES_A_CONTEXT = """
import ctypes, sys
ripc = ctypes.CDLL(sys.argv[1])
ripc.ripc_status_name.restype = ripc.ripc_last_error.restype = ctypes.c_char_p
context = ctypes.c_void_p()
status = ripc.ripc_context_create(None, ctypes.byref(context))
print(ripc.ripc_status_name(status).decode(), ripc.ripc_last_error().decode() if status else "", sep=": ")
if status == 0:
    ripc.ripc_context_destroy(context)
"""


class ErrorTest(CliTest):
    def errors(self, *arguments, code):
        return self.ripc(*arguments, code=code)[1].decode()

    def new_key(self):
        return self.ripc_json("key", "new", "--identity", "--force", "-o", os.path.join(self.folder, "new.key"))["public_key"]

    def failure(self, *arguments, code):
        """The JSON object of a failure, which stderr must report as well."""
        out, errors = self.ripc(*arguments, "--json", code=code)
        object = json.loads(out)
        self.assertEqual((object["ok"], object["exit_code"]), (False, code))
        self.assertIn(object["error"], errors.decode())
        return object


class EmptyValues(ErrorTest):
    def test_no_empty_value_means_the_default(self):
        for arguments in (
            ["trust", "add", "bank", "", "--holds", "bank"],
            ["trust", "add", "bank", "--holds="],
            ["trust", "remove", "bank", "--signer", ""],
            ["trust", "list", "-f", ""],
            ["key", "new", "-o", "", "--force"],
            ["key", "new", "--output=", "--force"],
            ["key", "show", "-f", ""],
            ["get", "files", "x", "-o", ""],
            ["get", "files", "x", "--transport", ""],
            ["get", "files", ""],
            ["call", "demo", "0", "--file", ""],
            ["ping", ""],
            ["ping", "files", "--timeout", ""],
            ["bench", "rate", "--transport="],
            ["serve", "", "--service", "files"],
        ):
            with self.subTest(arguments=arguments):
                before = os.stat(self.key)
                out, errors = self.ripc(*arguments, code=2)
                self.assertEqual(out, b"")
                self.assertIn(b"give", errors)
                self.assertEqual(os.stat(self.key).st_ino, before.st_ino)
        self.assertEqual(os.listdir(os.path.dirname(self.key)), ["cluster.key"], "nothing was made")

    def test_where_nothing_is_meant_it_may_be_empty(self):
        self.start("serve-calls", "demo").stdout.readline()
        self.ripc("call", "demo", "0", "--data", "")
        self.ripc("call", "demo", "0", "--data=")
        self.ripc("trust", "add", "alice", "--calls", "")
        self.ripc("trust", "add", "alice", "--calls=", "--force")
        self.assertIn("calls=", self.ripc("trust", "list")[0].decode())


class WrongWords(ErrorTest):
    def test_the_wrong_word_is_named(self):
        for arguments in (["bogus"], ["--bogus"], ["trust", "bogus"], ["key", "--bogus"], ["bench", "bogus"]):
            with self.subTest(arguments=arguments):
                errors = self.errors(*arguments, code=2)
                self.assertIn("bogus", errors)
                self.assertNotIn("subcommand", errors)
        self.assertIn("subcommand is required", self.errors(code=2))

    def test_what_was_meant_is_named(self):
        for meant, arguments in (("'ping'", ["pnig"]), ("'--count'", ["ping", "files", "--cuont"]), ("'list'", ["trust", "lst"])):
            self.assertIn(f"Did you mean {meant}?", self.errors(*arguments, code=2))
        self.assertNotIn("mean", self.errors("bogus", code=2))

    def test_a_wrong_name_of_a_group_is_shown(self):
        for name in ("group:", "group:a/b", "group:7x"):
            self.assertIn(f"'{name}' is not a group: ", self.errors("resolve", name, code=2))

    def test_a_wrong_value_is_wrong_usage_and_told_once(self):
        key = self.new_key()
        for arguments, said in (
            (["ping", "files", "--transport", "bogus"], "'bogus' is not a transport"),
            (["serve", self.served, "--service", "files", "--transport", "shm,bogus"], "'bogus' is not a transport"),
            (["ping", "files", "--transport", "shm,"], "'' is not a transport"),
            (["bench", "pingpong", "--transport", "bogus"], "'bogus' is not a transport"),
            (["call", "demo", "hello"], "'hello' is not a method: give its number"),
            (["call", "demo", "4294967296"], "'4294967296' is not a method: give its number"),
            (["trust", "add", "x", "notakey"], "'notakey'"),
            (["trust", "add", "a b", key], "'a b' is no member's name"),
            (["trust", "add", "x", key, "--user", "abc"], "'abc' is no user's number"),
            (["trust", "add", "x", key, "--holds", "a,,b"], "is no name"),
        ):
            with self.subTest(arguments=arguments):
                errors = self.errors(*arguments, code=2)
                self.assertEqual(errors.count(said), 1, errors)
                self.assertNotRegex(errors, "line [0-9]")

    def test_a_key_of_another_member_names_the_member(self):
        self.ripc("trust", "add", "alice")
        key = self.new_key()
        self.ripc("trust", "add", "bob", key)
        said = self.errors("trust", "add", "carol", code=1)
        self.assertIn("This user's identity is member 'alice' already", said)
        self.assertIn("KEY", said)
        for force in ([], ["--force"]):
            self.assertIn("This key is that of member 'bob' already", self.errors("trust", "add", "carol", key, *force, code=1))
        self.ripc("trust", "add", "bob", key, "--force")

    def test_an_id_without_id_in_front_is_explained(self):
        for arguments in (["resolve"], ["call"], ["ping"], ["wait"]):
            rest = ["0"] if arguments == ["call"] else []
            errors = self.errors(*arguments, "0x87f72fb3af456330", *rest, "--timeout", "0", code=3)
            self.assertIn("For an ID write id:0x87f72fb3af456330.", errors)
            self.assertNotIn("id:", self.errors(*arguments, "0xyz", *rest, "--timeout", "0", code=3))

    def test_advice_about_a_file_that_is_missing_names_the_option_that_named_it(self):
        self.ripc("trust", "add", "alice")
        missing = os.path.join(self.folder, "missing")
        errors = self.errors("trust", "sign", "--signer", missing, code=1)
        self.assertIn("another file with --signer FILE; `ripc key new --identity -o FILE` makes one", errors)
        self.assertNotIn("let this user read it", self.errors("trust", "list", "-f", missing, code=1))

    def test_a_wrong_transport_of_the_environment_names_the_variable(self):
        self.environment["RIPC_TRANSPORTS"] = "tcp"
        self.assertIn("RIPC_TRANSPORTS: 'tcp' is not a transport", self.errors("services", code=1))

    def test_a_negative_method_is_refused_without_a_word_of_64_bits(self):
        errors = self.errors("call", "demo", "-1", code=2)
        self.assertIn("give a number from 0", errors)
        self.assertNotIn("64 bits", errors)

    def test_a_mistake_in_the_trust_file_is_no_wrong_usage(self):
        trust = os.path.join(self.folder, "trust")
        with open(trust, "w", encoding="ascii") as file:
            file.write("carol\n")
        self.assertIn("line 1", self.errors("trust", "add", "x", self.new_key(), "-f", trust, code=1))

    def test_bench_explains_only_the_waits_that_it_has(self):
        for bench in ("calls", "pingpong", "service", "rate"):
            help = self.ripc("bench", bench, "--help")[0].decode()
            self.assertEqual("thread:" in help, bench == "service")
            self.assertEqual("adaptive:" in help, bench != "rate")


class LostOutput(ErrorTest):
    def run_into(self, redirection, *arguments):
        return subprocess.run(["sh", "-c", f'exec "$@" {redirection}', "sh", RIPC, *arguments],
                              env=self.environment, stderr=subprocess.PIPE, timeout=PATIENCE, text=True)

    def test_is_an_error_of_every_command(self):
        self.serve("files")
        self.start("serve-calls", "demo").stdout.readline()
        self.ripc("trust", "add", "alice")
        commands = [
            ["services"], ["services", "--json"], ["resolve", "files", "--json"], ["wait", "files"], ["ping", "files"],
            ["ping", "files", "--json"], ["doctor"], ["trust", "list", "--json"], ["key", "show"],
            ["key", "new", "--force", "--json", "-o", os.path.join(self.folder, "new.key")], ["bench", "pool", "--iterations", "100"],
            ["call", "demo", "0", "--data", "x"], ["--help"], ["ping", "--help"], ["--version"],
        ]
        for redirection in (">/dev/full", ">&-"):
            for command in commands:
                with self.subTest(redirection=redirection, command=command):
                    done = self.run_into(redirection, *command)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertRegex(done.stderr, "standard output: .*(No space left on device|Bad file descriptor).*send it elsewhere")

    def test_keeps_the_exit_code_of_another_failure(self):
        self.assertEqual(self.run_into(">/dev/full", "ping", "nobody", "--timeout", "0", "--json").returncode, 3)

    def test_a_command_that_prints_nothing_needs_no_output(self):
        self.serve("files")
        self.assertEqual(self.run_into(">&- <&-", "ping", "nobody", *TIME).returncode, 3)


class Json(ErrorTest):
    def test_a_missing_service_is_an_object(self):
        for command in (["ping", "nobody", *TIME], ["wait", "nobody", *TIME], ["watch", "nobody"], ["resolve", "nobody"],
                        ["call", "nobody", "0", *TIME], ["get", "nobody", "x"]):
            with self.subTest(command=command):
                self.assertIn("ripc services", self.failure(*command, code=3)["error"])

    def test_a_time_out_is_an_object(self):
        self.serve("files").send_signal(signal.SIGSTOP)
        pinged = self.failure("ping", "files", *TIME, code=4)
        self.assertEqual((pinged["service"], pinged["answered"]), ("files", 0))
        self.failure("call", "files", "0", *TIME, code=4)
        self.failure("watch", "files", *TIME, code=4)

    def test_success_says_so(self):
        self.serve("files")
        self.assertTrue(self.ripc_json("ping", "files")["ok"])

    def test_wrong_usage_is_an_object_too_where_the_command_finds_it(self):
        self.failure("ping", "id:0", code=2)

    def test_wrong_usage_is_an_object_too_where_the_command_line_is_not_understood(self):
        for command, named in ((["ping"], "NAME"), (["ping", "files", "--tiemout", "1"], "--timeout"),
                               (["pnig", "files"], "'ping'"), (["ping", "files", "--timeout", "soon"], "--timeout")):
            with self.subTest(command=command):
                self.assertIn(named, self.failure(*command, code=2)["error"])

    def test_standard_output_that_is_for_a_file_stays_empty(self):
        for output in (["-o", "-"], ["-o-"], ["--output", "-"], ["--output=-"]):
            out, errors = self.ripc("get", "nobody", "x", *output, "--jsn", "--json", code=2)
            self.assertEqual(out, b"")
            self.assertIn(b'"exit_code":2', errors)
        out, errors = self.ripc("get", "nobody", "x", "-o", "-", "--json", code=3)
        self.assertEqual(out, b"")
        self.assertIn(b'"exit_code":3', errors)


class Sentences(ErrorTest):
    def test_a_missing_service_is_told_once_with_the_reason(self):
        self.environment.pop("RIPC_MULTICAST")
        os.remove(self.key)
        for command in (["get", "nobody", "x", "-o", self.fetched, *TIME], ["watch", "nobody", *TIME], ["ping", "nobody", *TIME],
                        ["watch", "nobody", "--timeout", "0"], ["wait", "nobody", *TIME]):
            with self.subTest(command=command):
                errors = self.errors(*command, code=3)
                self.assertEqual(errors.count("ripc services"), 1, errors)
                self.assertEqual(errors.count("No other host was asked"), 1, errors)

    def test_a_ping_without_time_says_that_it_had_none(self):
        self.serve("files")
        for timeout in ("0", "1e-12"):
            errors = self.errors("ping", "files", "--timeout", timeout, code=4)
            self.assertIn("left no time", errors)
            self.assertNotIn("stopped", errors)

    def test_a_call_that_may_have_run_is_not_to_be_sent_again_at_once(self):
        program = os.path.join(self.folder, "dies-in-its-method")
        built = subprocess.run(
            ["c++", "-std=c++20", "-x", "c++", "-", "-I", os.path.join(SOURCE, "libripc", "include"), "-L", LIBRARIES, "-lripc",
             f"-Wl,-rpath,{LIBRARIES}", "-o", program], input=DIES_IN_ITS_METHOD, text=True, capture_output=True)
        if built.returncode != 0:
            self.skipTest("no compiler, or no library to link with: " + built.stderr)
        server = subprocess.Popen([program], env=self.environment, stdout=subprocess.PIPE)
        self.addCleanup(self._end, server)
        self.assertEqual(server.stdout.readline(), b"ready\n")
        errors = self.errors("call", "slow", "1", code=1)
        self.assertIn("may have run", errors)
        self.assertIn("only if running twice does no harm", errors)
        self.assertNotIn("send again", errors)

    def test_a_pipe_that_nobody_writes_to_ends_with_the_time(self):
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        self.start("serve-calls", "demo").stdout.readline()
        self.assertIn("within --timeout", self.errors("call", "demo", "0", "--file", pipe, *TIME, code=4))
        caller = self.start("call", "demo", "0", "--file", pipe)
        with open(pipe, "wb") as writer:
            writer.write(b"from a pipe")
        self.assertEqual(caller.communicate(timeout=PATIENCE)[0], b"from a pipe")

    def test_what_cannot_be_written_has_advice(self):
        self.write("small", b"x" * 10)
        self.write("large", b"x" * 300_000)
        self.serve("files")
        for file in ("small", "large"):
            self.assertIn("device. Free some space", self.errors("get", "files", file, "-o", "/dev/full", code=1))
            self.assertIn("Name an output", self.errors("get", "files", file, "-o", os.path.join(self.folder, "nodir", "x"), code=1))
        self.assertIn("Name a file", self.errors("call", "files", "0", "--file", os.path.join(self.folder, "nofile"), code=1))

    def test_a_signed_trust_file_is_changed_with_a_signer(self):
        admin = os.path.join(self.folder, "admin.key")
        key = self.ripc_json("key", "new", "--identity", "-o", admin)["public_key"]
        with open(self.key, "a", encoding="ascii") as file:
            file.write(f"\nsigner {key}\n")
        self.ripc("trust", "add", "admin", key, "--signer", admin)
        errors = self.errors("trust", "add", "bob", self.new_key(), code=1)
        self.assertIn("--signer FILE", errors)
        self.assertNotIn("is not signed", errors)

    def test_settings_of_paths_that_are_not_used_are_read_all_the_same(self):
        os.remove(self.key)
        for name, value in (("SOCKET_PORTS", "5-1"), ("SOCKET_ADDRESS", "foo"), ("RAILS", "zzz"), ("SOCKET_STREAMS", "maybe"),
                            ("PEER_TIMEOUT_MS", "0")):
            with self.subTest(name=name):
                self.environment["RIPC_" + name] = value
                self.assertIn("RIPC_" + name, self.errors("services", code=1))
                self.assertEqual(self.ripc_json("doctor", code=1)["verdict"], "broken")
                del self.environment["RIPC_" + name]

    def test_the_time_is_not_taken_twice(self):
        self.serve("files").send_signal(signal.SIGSTOP)
        for command in (["get", "files", "x", "-o", self.fetched], ["watch", "files"]):
            took = []
            for _ in range(3):
                began = time.monotonic()
                self.ripc(*command, "--timeout", "1", code=4)
                took.append(time.monotonic() - began)
            self.assertLess(min(took), 1.8)

    def test_a_service_that_cannot_be_reached_resolves_to_no_path(self):
        self.serve("files").send_signal(signal.SIGSTOP)
        found = self.ripc_json("resolve", "files")
        self.assertEqual(found["transport"], "none")
        self.assertIn("no path works", found["reason"])
        self.assertIn("path none", self.ripc("resolve", "--help")[0].decode())


class Signals(ErrorTest):
    def test_watch_ends_by_the_signal(self):
        self.serve("files")
        for number in (signal.SIGINT, signal.SIGTERM):
            watch = self.start("watch", "files")
            self.assertIn(b"watching", watch.stdout.readline())
            watch.send_signal(number)
            self.assertEqual(watch.wait(PATIENCE), -number)


class Refusals(ErrorTest):
    def test_a_service_that_refuses_is_5(self):
        trust = os.path.join(self.folder, "trust")
        self.ripc("trust", "add", "alice", "--calls", "", "--user", str(os.getuid()), "-f", trust)
        self.environment["RIPC_TRUST_FILE"] = trust
        self.serve("bank")
        del self.environment["RIPC_TRUST_FILE"]
        for command in (["ping", "bank"], ["get", "bank", "x", "-o", self.fetched], ["wait", "bank"], ["watch", "bank"],
                        ["call", "bank", "0"]):
            with self.subTest(command=command):
                self.assertIn("calls=", self.errors(*command, *TIME, code=5))
                self.failure(*command, *TIME, code=5)

    def test_a_trust_file_of_this_user_that_is_not_signed_is_no_refusal_of_a_service(self):
        self.ripc("trust", "add", "alice")
        with open(self.key, "a", encoding="ascii") as file:
            file.write(f"\nsigner {self.new_key()}\n")
        self.environment["RIPC_TRUST_FILE"] = os.path.join(os.path.dirname(self.key), "trust")
        for command in (["trust", "check"], ["services"], ["ping", "files"]):
            self.assertIn("ripc trust sign", self.errors(*command, code=1))


class FullDisk(ErrorTest):
    def setUp(self):
        super().setUp()
        self.disk = os.path.join(self.folder, "disk")
        os.mkdir(self.disk, 0o700)
        # A user who is not root becomes root in a new namespace.
        fill = 'mount -t tmpfs -o size=64k,mode=700 none "$0" && mkdir -m 700 "$0/contexts" "$0/services" && ' \
               '{ head -c 1M /dev/zero >"$0/fill" 2>/dev/null; exec "$@"; }'
        self.prefix = ["unshare", "--map-root-user", "--mount", "sh", "-c", fill, self.disk]
        if subprocess.run([*self.prefix, "true"], capture_output=True).returncode != 0:
            self.skipTest("no tmpfs can be mounted here")

    def test_doctor_finds_a_runtime_directory_without_room(self):
        self.environment["RIPC_RUNTIME_DIR"] = self.disk
        findings = self.ripc_json("doctor", code=1)["findings"]
        texts = [finding["text"] for finding in findings if finding["subject"] == "runtime directory"]
        self.assertTrue(any("used up" in text for text in texts), texts)

    def test_a_key_that_finds_no_room_says_so(self):
        for command in (["key", "new", "-o", self.disk + "/new.key"], ["key", "new", "--identity", "-o", self.disk + "/new.key"],
                        ["trust", "add", "x", self.new_key(), "-f", self.disk + "/trust"]):
            errors = self.errors(*command, code=1)
            self.assertIn("free some space", errors)
            self.assertNotIn("writable", errors)


class ZooKeeperLibrary(ErrorTest):
    def made_with(self, library=None, **settings):
        """What a program prints if its loader finds this file instead of the ZooKeeper library; None: an empty file."""
        hidden = os.path.join(self.folder, "libraries")
        os.mkdir(hidden)
        path = os.path.join(hidden, "libzookeeper_st.so.2")
        if library:
            os.symlink(library, path)
        else:
            open(path, "wb").close()
        environment = {**self.environment, "LD_LIBRARY_PATH": hidden, "RIPC_TRANSPORTS": "shm", **settings}
        return subprocess.run([sys.executable, "-c", MAKES_A_CONTEXT, os.path.join(LIBRARIES, "libripc.so")], env=environment,
                              capture_output=True, text=True, timeout=PATIENCE, check=True).stdout

    def test_one_that_is_missing_is_named_with_its_package(self):
        told = self.made_with(RIPC_ZOOKEEPER="127.0.0.1:1")
        self.assertEqual(told, "RIPC_UNSUPPORTED: RIPC_ZOOKEEPER is set, but libzookeeper_st.so.2 is not installed: install the "
                               "package libzookeeper-st2, or unset it.\n")

    def test_one_that_lacks_something_is_too_old(self):
        self.assertRegex(self.made_with(os.path.join(LIBRARIES, "libripc.so"), RIPC_ZOOKEEPER="127.0.0.1:1"),
                         "^RIPC_UNSUPPORTED: libzookeeper_st.so.2 has no [A-Za-z_0-9]+: install a newer libzookeeper-st2")

    def test_who_does_not_ask_for_it_does_not_need_it(self):
        self.assertEqual(self.made_with(), "RIPC_OK: \n")


class Batch(ErrorTest):
    def setUp(self):
        super().setUp()
        self.write("a", b"a")
        self.serve("files")

    def batch(self, lines, *arguments, code):
        out, errors = self.ripc("get", "files", "--batch", *arguments, input=lines.encode(), code=code)
        return out.decode(), errors.decode()

    def test_each_line_of_output_names_its_file(self):
        out, errors = self.batch(f"a\t{self.fetched}\nb\t{self.fetched}\na\t{self.fetched}\n", code=5)
        self.assertRegex(out, r"^a: 1 bytes .*\nb: failed with exit code 5\na: 1 bytes .*\n$")
        self.assertIn("b: ", errors)

    def test_a_line_without_path_or_output_is_wrong_usage(self):
        for line in ("a", "a\t", "a\t\treturn", f"\t{self.fetched}"):
            with self.subTest(line=line):
                out, errors = self.batch(f"a\t{self.fetched}\n{line}\n", code=2)
                self.assertIn("line 2 ", errors)
                self.assertIn("PATH<tab>OUTPUT", errors)
                self.assertEqual(out.count(" bytes "), 1)

    def test_a_third_column_that_is_not_known_is_an_error(self):
        out, _ = self.batch(f"a\t{self.fetched}\tbogus\na\t{self.fetched}\treturn\n", "--json", code=2)
        first, second = (json.loads(line) for line in out.splitlines())
        self.assertEqual((first["ok"], first["exit_code"]), (False, 2))
        self.assertIn("'bogus'", first["error"])
        self.assertTrue(second["ok"])


if __name__ == "__main__":
    unittest.main()
