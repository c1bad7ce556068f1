// SPDX-License-Identifier: Apache-2.0
#include "harness.hpp"

#include <signal.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <sstream>
#include <thread>

void PrintTo(ripc_status status, std::ostream* out) { *out << ripc_status_name(status); }

namespace conformance {
namespace {

constexpr std::array kTransports = {
    Traits{.name = "shm",
           .lends = true,
           .exact_queue = true,
           .exact_costs = true,
           .survives_want = true,
           .static_locator = [](const std::string& directory) { return "shm:" + directory; }},
    Traits{.name = "socket", .survives_want = true},
    Traits{.name = "verbs", .silent_returns = true, .moves_in_wait = false, .in_children = false},
};

}  // namespace

const Traits& traits_of(const std::string& transport) {
  for (const Traits& traits : kTransports) {
    if (traits.name == transport) return traits;
  }
  static constexpr Traits kCommon{.name = "another"};
  return kCommon;
}

std::vector<std::string> transports() {
  const char* names = std::getenv("RIPC_TEST_TRANSPORTS");
  std::istringstream list(names != nullptr && *names != '\0' ? names : "shm");
  std::vector<std::string> result;
  for (std::string name; std::getline(list, name, ',');) result.push_back(name);
  return result;
}

// ---- Handles and values ------------------------------------------------------------------------------------------

void fill_pattern(void* data, std::size_t size, unsigned seed) {
  auto* bytes = static_cast<unsigned char*>(data);
  std::uint32_t state = seed * 2654435761u + 12345u;
  for (std::size_t index = 0; index < size; ++index) {
    state = state * 1664525u + 1013904223u;
    bytes[index] = static_cast<unsigned char>(state >> 24);
  }
}

Bytes pattern(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  fill_pattern(bytes.data(), size, seed);
  return bytes;
}

std::uint64_t checksum(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (std::size_t index = 0; index < size; ++index) sum = (sum ^ bytes[index]) * 0x100000001b3u;
  return sum;
}

ripc_service_statistics statistics_of(const Service& service) {
  ripc_service_statistics statistics = initialized(ripc_service_statistics_init);
  EXPECT_EQ(ripc_service_get_statistics(service.get(), &statistics), RIPC_OK);
  return statistics;
}

ripc_pool_statistics pool_statistics_of(const Context& context) {
  ripc_pool_statistics statistics = initialized(ripc_pool_statistics_init);
  EXPECT_EQ(ripc_pool_get_statistics(context.get(), &statistics), RIPC_OK);
  return statistics;
}

ripc_send_options send_options() {
  ripc_send_options options = initialized(ripc_send_options_init);
  return options;
}

ripc_item_view view_of(const Message& message, std::size_t index) {
  ripc_item_view view{};
  if (message == nullptr) {
    ADD_FAILURE() << "there is no message";
    return view;
  }
  EXPECT_EQ(ripc_message_get_item(message.get(), index, &view), RIPC_OK) << "item " << index;
  return view;
}

std::string text_of(const ripc_item_view& view) {
  if (view.data == nullptr) return {};
  return {static_cast<const char*>(view.data), view.size};
}

std::string text_of(const Message& message, std::size_t index) { return text_of(view_of(message, index)); }

testing::AssertionResult holds(const ripc_item_view& view, ripc_view_kind kind, std::span<const unsigned char> bytes) {
  if (view.status != RIPC_OK) {
    return testing::AssertionFailure() << "status " << ripc_status_name(static_cast<ripc_status>(view.status));
  }
  if (view.kind != kind) return testing::AssertionFailure() << "kind " << view.kind << ", not " << kind;
  if (view.size != bytes.size()) {
    return testing::AssertionFailure() << view.size << " bytes, not " << bytes.size();
  }
  if (bytes.empty()) return testing::AssertionSuccess();
  if (view.data == nullptr) return testing::AssertionFailure() << "data is NULL";
  const auto* data = static_cast<const unsigned char*>(view.data);
  if (std::memcmp(data, bytes.data(), bytes.size()) == 0) return testing::AssertionSuccess();
  for (std::size_t index = 0; index < bytes.size(); ++index) {
    if (data[index] != bytes[index]) {
      return testing::AssertionFailure() << "byte " << index << " of " << bytes.size() << " is "
                                         << static_cast<int>(data[index]) << ", not " << static_cast<int>(bytes[index]);
    }
  }
  return testing::AssertionFailure() << "the bytes are changing";
}

testing::AssertionResult failed(const ripc_item_view& view, ripc_status status, std::size_t announced) {
  if (view.kind != RIPC_VIEW_FAILED) return testing::AssertionFailure() << "kind " << view.kind << ", not FAILED";
  if (view.status != static_cast<std::uint32_t>(status)) {
    return testing::AssertionFailure() << "status " << ripc_status_name(static_cast<ripc_status>(view.status))
                                       << ", not " << ripc_status_name(status);
  }
  if (view.data != nullptr) return testing::AssertionFailure() << "data is not NULL";
  if (view.size != announced) {
    return testing::AssertionFailure() << "announced as " << view.size << " bytes, not " << announced;
  }
  return testing::AssertionSuccess();
}

// ---- Operations that are expected to work ------------------------------------------------------------------------

Service make_service(const Context& context, const std::function<void(ripc_service_options&)>& change) {
  ripc_service_options options = initialized(ripc_service_options_init);
  if (change) change(options);
  ripc_service* service = nullptr;
  EXPECT_EQ(ripc_service_register(context.get(), &options, &service), RIPC_OK) << ripc_last_error();
  return Service(service);
}

Service make_service(const Context& context, ripc_service_id id) {
  return make_service(context, [id](ripc_service_options& options) { options.id = id; });
}

ripc_status send(const Service& from, ripc_service_id to, Items items, std::uint32_t tag) {
  ripc_send_options options = send_options();
  options.tag = tag;
  return ripc_send(from.get(), to, std::data(items), items.size(), &options, nullptr);
}

ripc_status send_text(const Service& from, ripc_service_id to, std::string_view text, std::uint32_t tag) {
  return send(from, to, {item(text)}, tag);
}

bool is_gone(const Service& from, ripc_service_id to) {
  return eventually([&] {
    const ripc_status status = send(from, to, {});
    return status == RIPC_NO_SERVICE || status == RIPC_PEER_DEAD;
  });
}

Ticket send_long(const Service& from, ripc_service_id to, Items items, const ripc_send_options* options) {
  ripc_ticket* ticket = nullptr;
  EXPECT_EQ(ripc_send(from.get(), to, std::data(items), items.size(), options, &ticket), RIPC_OK) << ripc_last_error();
  EXPECT_NE(ticket, nullptr) << "a message with long items makes a ticket";
  return Ticket(ticket);
}

std::size_t send_until_full(const std::function<ripc_status()>& send) {
  constexpr std::size_t kMore = 1'000'000;  // more than any queue has room for
  std::size_t sent = 0;
  ripc_status status = RIPC_OK;
  while (sent < kMore && (status = send()) == RIPC_OK) ++sent;
  EXPECT_EQ(status, RIPC_AGAIN) << ripc_last_error();
  return sent;
}

void send_until_full(const Service& from, ripc_service_id to, const ripc_item& one, std::vector<Ticket>& tickets,
                     const ripc_send_options* options) {
  send_until_full([&] {
    ripc_ticket* ticket = nullptr;
    const ripc_status status = ripc_send(from.get(), to, &one, 1, options, &ticket);
    if (ticket != nullptr) tickets.emplace_back(ticket);
    return status;
  });
}

Message receive(const Service& service, std::uint32_t flags) {
  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(service.get(), flags, kLimit, &message), RIPC_OK) << ripc_last_error();
  return Message(message);
}

ripc_status final_status(const Ticket& ticket) { return ripc_ticket_wait(ticket.get(), kLimit); }

std::unique_ptr<unsigned char[], std::function<void(unsigned char*)>> lease(const Context& context, std::size_t size) {
  void* data = nullptr;
  EXPECT_EQ(ripc_buffer_lease(context.get(), size, &data), RIPC_OK) << ripc_last_error();
  ripc_context* owner = context.get();
  return {static_cast<unsigned char*>(data), [owner](unsigned char* start) {
            EXPECT_EQ(ripc_buffer_release(owner, start), RIPC_OK) << ripc_last_error();
          }};
}

std::uint64_t thread_cpu_time() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

// ---- Fixtures ----------------------------------------------------------------------------------------------------

ripc_context_options TransportTest::context_options() const {
  ripc_context_options options = initialized(ripc_context_options_init);
  options.runtime_directory = directory_.path().c_str();
  options.transports = GetParam().c_str();
  // A busy machine may stop a peer for longer than the default of one second.
  options.resolve_timeout = kLimit;
  return options;
}

Context TransportTest::make_context(const std::function<void(ripc_context_options&)>& change) const {
  ripc_context_options options = context_options();
  if (change) change(options);
  ripc_context* context = nullptr;
  EXPECT_EQ(ripc_context_create(&options, &context), RIPC_OK) << ripc_last_error();
  return Context(context);
}

PeerSetup TransportTest::peer_setup() const {
  PeerSetup setup;
  setup.transport = GetParam();
  setup.runtime_directory = directory_.path();
  return setup;
}

void PairTest::SetUp() {
  client_context_ = make_context();
  server_context_ = make_context();
  ASSERT_NE(client_context_, nullptr);
  ASSERT_NE(server_context_, nullptr);
  client_ = make_service(client_context_);
  server_ = make_service(server_context_);
  ASSERT_NE(client_, nullptr);
  ASSERT_NE(server_, nullptr);
}

void PairTest::expect_nothing_more(const Service& service) {
  ASSERT_EQ(send_text(client_, id_of(service), "mark"), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(text_of(receive(service)), "mark");
}

void expect_signal_ends(const std::function<ripc_status()>& wait) {
  struct sigaction action {};
  struct sigaction previous {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &previous), 0);
  std::atomic<bool> returned{false};
  std::jthread waiter([&] {
    EXPECT_EQ(wait(), RIPC_INTERRUPTED);
    returned = true;
  });
  // A signal that comes before the sleep goes unnoticed, so this sends more until one is noticed.
  EXPECT_TRUE(eventually([&] {
    if (!returned) pthread_kill(waiter.native_handle(), SIGUSR1);
    return returned.load();
  }));
  waiter.join();
  sigaction(SIGUSR1, &previous, nullptr);
}

}  // namespace conformance
