# SPDX-License-Identifier: Apache-2.0
"""ripc serve-calls and ripc call: answers, outcomes, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True

from harness import BUILD, PATIENCE, SOURCE, CliTest  # noqa: E402

# Refuses a request with the status that its method says; drops it without an answer if that is none.
REFUSING = """
#include <stdio.h>
#include <ripc/ripc.h>
#include <ripc/rpc.h>
static void handle(void *user, ripc_request *request) {
  if (user == NULL) ripc_request_drop(request, RIPC_CANCELLED);
  else ripc_request_refuse(request, *(ripc_status *)user);
}
int main(void) {
  static ripc_status statuses[] = {RIPC_PERMISSION, RIPC_INVALID_ARGUMENT};
  ripc_context_options context_options;
  ripc_context_options_init(&context_options);
  ripc_service_options options;
  ripc_service_options_init(&options);
  options.name = "strict";
  ripc_context *context;
  ripc_service *service;
  ripc_rpc *rpc;
  if (ripc_context_create(&context_options, &context) != RIPC_OK) return 1;
  if (ripc_service_register(context, &options, &service) != RIPC_OK) return 1;
  if (ripc_rpc_create(service, NULL, &rpc) != RIPC_OK) return 1;
  for (int method = 0; method < 2; ++method) ripc_rpc_handle(rpc, method, 0, handle, &statuses[method]);
  ripc_rpc_handle(rpc, 2, 0, handle, NULL);
  puts("serving");
  fflush(stdout);
  while (ripc_rpc_run(rpc, UINT64_MAX, NULL) == RIPC_OK) {
  }
}
"""


class Calls(CliTest):
    def serve_calls(self, name="demo", *arguments, **options):
        process = self.start("serve-calls", name, *arguments, **options)
        self.assertIn(b"serving", process.stdout.readline())
        return process

    def test_echo_returns_text_and_files_byte_by_byte(self):
        self.serve_calls()
        self.assertEqual(self.ripc("call", "demo", "0", "--data", "hello")[0], b"hello")
        self.assertEqual(self.ripc("call", "demo", "0")[0], b"")
        for size in (0, 1, 100_000, 3_000_000):
            content = os.urandom(size)
            self.write("argument", content)
            file = os.path.join(self.served, "argument")
            self.assertTrue(self.ripc("call", "demo", "0", "--file", file)[0] == content)
            self.assertTrue(self.ripc("call", "demo", "0", "--file", "-", input=content)[0] == content)

    def test_standard_input_that_does_not_block_is_waited_for_without_work(self):
        self.serve_calls()
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        call = self.start("call", "demo", "0", "--file", "-", stdin=reader)
        os.close(reader)
        status = f"/proc/{call.pid}/stat"
        # Whoever waits sleeps; a process that asks again and again never does so for long.
        asleep = 0
        for _ in range(2000):
            with open(status) as file:
                asleep = asleep + 1 if file.read().rpartition(")")[2].split()[0] == "S" else 0
            if asleep == 100:
                break
            time.sleep(0.005)
        self.assertEqual(asleep, 100, "it does not sleep")
        os.write(writer, b"late")
        os.close(writer)
        self.assertEqual(call.communicate(timeout=PATIENCE)[0], b"late")

    def test_over_sockets_too(self):
        for transport in ("shm", "socket"):
            with self.subTest(transport=transport):
                self.environment["RIPC_TRANSPORTS"] = transport
                service = self.serve_calls(transport)
                content = os.urandom(200_000)
                self.assertTrue(self.ripc("call", transport, "0", "--file", "-", input=content)[0] == content)
                service.terminate()
                self.assertEqual(service.wait(PATIENCE), 0)

    def test_time_is_a_time(self):
        self.serve_calls()
        self.assertRegex(self.ripc("call", "demo", "1")[0].decode(), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_json_has_the_outcome_and_the_items(self):
        self.serve_calls()
        answer = self.ripc_json("call", "demo", "0", "--data", "hello")
        self.assertEqual((answer["outcome"], answer["status"], answer["code"]), ("answered", "RIPC_OK", 0))
        self.assertEqual(answer["items"], [{"size": 5, "status": "RIPC_OK", "text": "hello"}])
        self.assertGreater(answer["nanoseconds"], 0)

    def test_json_has_items_that_are_not_text_in_base64(self):
        self.serve_calls()
        for content, encoded in ((b"\xff\xfe", "//4="), (b"\xc3", "ww=="), (b"ab\xed\xa0\x80", "YWLtoIA=")):
            answer = json.loads(self.ripc("call", "demo", "0", "--file", "-", "--json", input=content)[0])
            self.assertEqual(answer["items"], [{"size": len(content), "status": "RIPC_OK", "base64": encoded}])

    def test_an_unknown_method_is_refused_with_5(self):
        self.serve_calls()
        self.assertIn("has no method 7", self.ripc("call", "demo", "7", code=5)[1].decode())
        answer = self.ripc_json("call", "demo", "7", code=5)
        self.assertEqual((answer["outcome"], answer["status"]), ("did not run", "RIPC_UNSUPPORTED"))

    def start_refusing(self):
        """A service whose handlers refuse: method 0 with RIPC_PERMISSION, 1 with RIPC_INVALID_ARGUMENT; 2 drops."""
        program = os.path.join(self.folder, "refusing")
        libraries = os.path.join(BUILD, "lib")
        built = subprocess.run(
            ["cc", "-x", "c", "-", "-I", os.path.join(SOURCE, "libripc", "include"), "-L", libraries, "-lripc",
             f"-Wl,-rpath,{libraries}", "-o", program],
            input=REFUSING, text=True, capture_output=True, timeout=PATIENCE)
        if built.returncode != 0:
            self.skipTest("no compiler, or no library to link with: " + built.stderr)
        process = subprocess.Popen([program], env=self.environment, stdout=subprocess.PIPE)
        self.addCleanup(self._end, process)
        self.assertIn(b"serving", process.stdout.readline())

    def test_a_refusal_by_the_handler_names_service_method_and_status_and_gives_5(self):
        self.start_refusing()
        for method, status in (("0", "RIPC_PERMISSION"), ("1", "RIPC_INVALID_ARGUMENT")):
            errors = self.ripc("call", "strict", method, code=5)[1].decode()
            self.assertIn(f"'strict' refused method {method} with {status}", errors)
            self.assertIn("did not run", errors)
        errors = self.ripc("call", "strict", "2", code=5)[1].decode()
        self.assertIn("'strict' ended method 2 without an answer, with RIPC_CANCELLED", errors)
        self.assertIn("only if running twice does no harm", errors)

    def test_a_stopped_service_times_out_with_4(self):
        service = self.serve_calls()
        service.send_signal(signal.SIGSTOP)
        answer = self.ripc_json("call", "demo", "0", "--timeout", "2", code=4)
        self.assertEqual((answer["outcome"], answer["status"]), ("did not run", "RIPC_TIMEOUT"))
        self.assertIn("is it stopped?", answer["error"])

    def test_a_service_without_calls_does_not_answer_them(self):
        self.serve()
        answer = self.ripc_json("call", "files", "0", "--timeout", "0.5", code=4)
        self.assertEqual(answer["status"], "RIPC_TIMEOUT")

    def test_waits_for_a_service_that_appears(self):
        caller = self.start("call", "later", "0", "--data", "x", "--timeout", str(PATIENCE))
        self.serve_calls("later")
        out, _ = caller.communicate(timeout=PATIENCE)
        self.assertEqual((caller.returncode, out), (0, b"x"))

    def test_a_file_that_cannot_be_read_is_named(self):
        errors = self.ripc("call", "demo", "0", "--file", os.path.join(self.folder, "missing"), code=1)[1].decode()
        self.assertIn("missing", errors)

    def test_serve_calls_prints_json_when_ready_and_at_the_end(self):
        service = self.start("serve-calls", "demo", "--json")
        self.assertEqual(json.loads(service.stdout.readline())["pid"], service.pid)
        self.ripc("call", "demo", "0")
        self.ripc("call", "demo", "7", code=5)
        service.terminate()
        end = json.loads(service.stdout.readline())
        self.assertEqual((end["event"], end["requests_run"], end["requests_refused"]), ("closed", 1, 1))
        self.assertEqual(service.wait(PATIENCE), 0)

    def test_an_id_in_use_is_refused_and_takeover_fences_the_holder(self):
        first = self.serve_calls(stderr=subprocess.PIPE)
        self.assertIn("--takeover", self.ripc("serve-calls", "demo", code=1)[1].decode())
        self.serve_calls("demo", "--takeover")
        self.assertEqual(first.wait(PATIENCE), 1)
        self.assertIn("A newer holder took 'demo' over", first.stderr.read().decode())
        self.assertEqual(self.ripc("call", "demo", "0", "--data", "x")[0], b"x")


if __name__ == "__main__":
    unittest.main()
