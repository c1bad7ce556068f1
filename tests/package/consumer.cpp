// SPDX-License-Identifier: Apache-2.0
// A user of an installed libripc, in C++: sends itself a message.
#include <chrono>
#include <cstdio>
#include <ripc/ripc.hpp>
#include <string>
#include <string_view>

namespace {

int fail(const char* what, const ripc::Error& error) {
  std::fprintf(stderr, "%s: %s: %s\n", what, error.name(), std::string(error.text()).c_str());
  return 1;
}

}  // namespace

int main() {
  constexpr std::string_view kText = "hello";
  auto context = ripc::Context::create();
  if (!context) return fail("create", context.error());
  auto service = context->register_service();
  if (!service) return fail("register_service", service.error());
  const auto sent = service->send(service->id(), ripc::item(ripc::bytes_of(kText)));
  if (!sent) return fail("send", sent.error());
  const auto message = service->receive(std::chrono::seconds(10));
  if (!message) return fail("receive", message.error());
  if (message->item_count() != 1 || message->item(0).text() != kText) {
    std::fprintf(stderr, "the message is not what was sent\n");
    return 1;
  }
  std::printf("C++ consumer of libripc %s: service %llx works\n", ripc::version(),
              static_cast<unsigned long long>(service->id()));
  return 0;
}
