// SPDX-License-Identifier: Apache-2.0
// Calls: a till asks a shop for prices. In a nested call, the shop asks its client how many are wanted.
//
//   calls server            answers until somebody asks for "nothing"
//   calls client THING...   asks for the price of each thing, all at the same time
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "ripc/ripc.hpp"
#include "ripc/rpc.hpp"

namespace {

constexpr const char* kName = "example-shop";
constexpr std::uint32_t kPrice = 1;    // handled by the shop: takes a thing, answers what it costs
constexpr std::uint32_t kHowMany = 2;  // handled by the client: takes a thing, answers a number

int fail(const char* what, const ripc::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "calls: %s: %s: %s\n", what, error.name(), text.c_str());
  return 1;
}

// A handler that waits for an answer. The endpoint handles other requests meanwhile.
ripc::Task<> answer_price(ripc::Rpc& rpc, ripc::Request request, bool& open) {
  const std::string thing(request.item(0).text());
  if (thing == "nothing") open = false;
  // As a child of the request, the call waits no longer than the client still waits for the price.
  const auto count = co_await rpc.call(request.source(), kHowMany, thing, {.parent = &request});
  if (!count.answered()) co_return;  // the request is dropped, and its call ends too
  const std::string price = std::string(count.item(0).text()) + " x " + std::to_string(thing.size());
  if (auto sent = request.reply(price); !sent) (void)fail("reply", sent.error());
}

int serve() {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service({.name = kName});
  if (!service) return fail("no service", service.error());
  auto rpc = ripc::Rpc::create(*service);
  if (!rpc) return fail("no endpoint", rpc.error());
  bool open = true;
  const auto handler = [&](ripc::Request request) { return answer_price(*rpc, std::move(request), open); };
  if (auto error = rpc->on(kPrice, handler); !error.ok()) return fail("no handler", error);
  std::puts("calls: serving");
  std::fflush(stdout);
  while (open)
    if (auto events = rpc->run(); !events) return fail("run", events.error());
  // The last answer is still on its way, and the client has yet to end its session.
  while (rpc->run(std::chrono::milliseconds(200))) {
  }
  const auto statistics = rpc->statistics();
  if (statistics) std::printf("calls: %llu requests\n", static_cast<unsigned long long>(statistics->requests_run));
  return 0;
}

ripc::Task<int> ask(ripc::Rpc& rpc, ripc::ServiceId shop, std::string thing) {
  const auto price = co_await rpc.call(shop, kPrice, thing, {.timeout = std::chrono::seconds(5)});
  // If the call did not run, asking again is safe. If it may have run, nobody knows whether it did.
  if (!price.answered()) co_return fail(thing.c_str(), price.error());
  const std::string text(price.item(0).text());
  std::printf("calls: %s: %s\n", thing.c_str(), text.c_str());
  co_return 0;
}

// Starts all calls before it waits for the first answer.
ripc::Task<int> ask_all(ripc::Rpc& rpc, ripc::ServiceId shop, std::vector<std::string> things) {
  std::vector<ripc::Task<int>> tasks;
  for (const std::string& thing : things) {
    tasks.push_back(ask(rpc, shop, thing));
    tasks.back().start();
  }
  int failures = 0;
  for (auto& task : tasks) failures += co_await task;
  co_return failures;
}

int run_client(std::vector<std::string> things) {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service();
  if (!service) return fail("no service", service.error());
  auto shop = ripc::id_from_name(kName);
  if (!shop) return fail("no ID", shop.error());
  auto rpc = ripc::Rpc::create(*service);
  if (!rpc) return fail("no endpoint", rpc.error());
  const auto handler = [](ripc::Request request) {
    const bool many = request.item(0).text().ends_with('s');
    (void)request.reply(many ? "12" : "1");
  };
  if (auto error = rpc->on(kHowMany, handler); !error.ok()) return fail("no handler", error);
  auto all = ask_all(*rpc, *shop, std::move(things));
  all.start();
  while (!all.done())
    if (auto events = rpc->run(); !events) return fail("run", events.error());
  return all.result() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "server") == 0) return serve();
  if (argc > 2 && std::strcmp(argv[1], "client") == 0) return run_client({argv + 2, argv + argc});
  std::fputs("usage: calls server | calls client THING...\n", stderr);
  return 2;
}
