// SPDX-License-Identifier: Apache-2.0
// Notifications: the client gives the server a callback to run while it works on a long job.
//
//   notification server     does one job and reports its progress, then ends
//   notification client     orders the job
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "ripc/ripc.hpp"

namespace {

constexpr const char* kName = "example-jobs";
constexpr int kSteps = 4;

int fail(const char* what, const ripc::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "notification: %s: %s: %s\n", what, error.name(), text.c_str());
  return 1;
}

int serve() {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service({.name = kName});
  if (!service) return fail("no service", service.error());
  std::puts("notification: serving");
  std::fflush(stdout);
  auto job = service->receive(std::chrono::seconds(30));
  if (!job) return fail("receive", job.error());
  // The name of the client's callback is plain bytes, like any other data.
  ripc_notification progress{};
  if (job->item(0).size() != sizeof progress) return fail("not a job", RIPC_INVALID_ARGUMENT);
  std::memcpy(&progress, job->item(0).bytes().data(), sizeof progress);
  for (int step = 1; step <= kSteps; ++step) {
    const std::string text = "step " + std::to_string(step) + " of " + std::to_string(kSteps);
    if (auto error = service->notify(progress, ripc::item(text)); !error.ok()) return fail("notify", error);
  }
  if (auto sent = service->reply(*job, "done"); !sent) return fail("reply", sent.error());
  return 0;
}

int order() {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service();
  if (!service) return fail("no service", service.error());
  auto server = ripc::id_from_name(kName);
  if (!server) return fail("no ID", server.error());

  std::atomic<int> steps{0};
  // Runs in the context's responder thread, whatever this thread does meanwhile.
  auto progress = service->on_notification([&](ripc::ServiceId, std::span<const ripc_item_view> items) {
    if (items.size() == 1) std::printf("notification: %s\n", std::string(ripc::ItemView(items[0]).text()).c_str());
    steps.fetch_add(1);
    steps.notify_one();
  });
  if (!progress) return fail("no notification", progress.error());
  const ripc_notification& name = progress->name();
  if (auto sent = service->send(*server, std::as_bytes(std::span(&name, 1))); !sent) return fail("send", sent.error());
  auto reply = service->receive(std::chrono::seconds(5));
  if (!reply) return fail("no reply", reply.error());
  // The reply may overtake the callbacks, because they take another path.
  for (int seen = steps; seen < kSteps; seen = steps) steps.wait(seen);
  progress->unregister();  // the callback does not run after this
  std::printf("notification: the server says: %s\n", std::string(reply->item(0).text()).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "server") == 0) return serve();
  if (argc == 2 && std::strcmp(argv[1], "client") == 0) return order();
  std::fputs("usage: notification server | notification client\n", stderr);
  return 2;
}
