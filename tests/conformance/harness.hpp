// SPDX-License-Identifier: Apache-2.0
// The conformance suite's harness: fixtures and helpers that use only the public C interface.
//
// Every test runs once for each transport named in $RIPC_TEST_TRANSPORTS (comma-separated; default "shm"), with
// contexts that are restricted to it and a fresh runtime directory. To run the suite, a new transport adds one row to
// the table in harness.cpp and one ctest entry that sets that variable. Every wait is bounded by kLimit, every test by
// a watchdog (main.cpp).
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iosfwd>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "peer.hpp"
#include "ripc/ripc.h"
#include "support/handles.hpp"
#include "support/initialized.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

void PrintTo(ripc_status status, std::ostream* out);  // found by GoogleTest: statuses print as their names

namespace conformance {

using support::Context;
using support::eventually;
using support::initialized;
using support::kLimit;
using support::kMillisecond;
using support::kSecond;
using support::Message;
using support::now;
using support::read_clock;
using support::Service;
using support::TemporaryDirectory;
using support::Ticket;
using support::ViewHold;

// What a transport promises beyond the common contract. Tests of such promises skip where they do not hold.
struct Traits {
  std::string_view name;
  bool lends = false;           // views of pool memory come without a copy
  bool exact_queue = false;     // a sender's queue holds exactly queue_messages small messages
  bool exact_costs = false;     // copies and wakes are as counted in statistics_test.cpp
  bool silent_returns = false;  // return buffers of any size are written without the requester's process
  bool moves_in_wait = true;    // a thread that waits for bytes needs no other thread of its process
  bool survives_want = false;   // no process ends for want of memory
  bool in_children = true;      // a child of fork() can use it too, in a context of its own
  // The locator of "a context in this runtime directory" for the static resolver's file; nullptr: none.
  std::string (*static_locator)(const std::string& runtime_directory) = nullptr;
};
const Traits& traits_of(const std::string& transport);
std::vector<std::string> transports();  // from $RIPC_TEST_TRANSPORTS

// ---- Handles and values ------------------------------------------------------------------------------------------

using Bytes = std::vector<unsigned char>;

// Writes bytes that differ by position and seed, so that a shifted, torn or foreign copy shows.
void fill_pattern(void* data, std::size_t size, unsigned seed);
Bytes pattern(std::size_t size, unsigned seed);
std::uint64_t checksum(const void* data, std::size_t size);

template <typename Container>
ripc_item item(const Container& bytes, ripc_item_kind kind = RIPC_ITEM_AUTO, std::uint32_t return_index = 0) {
  return {std::data(bytes), std::size(bytes), static_cast<std::uint32_t>(kind), return_index};
}
inline ripc_item item_at(const void* data, std::size_t size, ripc_item_kind kind, std::uint32_t return_index = 0) {
  return {data, size, static_cast<std::uint32_t>(kind), return_index};
}

inline ripc_service_id id_of(const Service& service) { return ripc_service_get_id(service.get()); }
ripc_service_statistics statistics_of(const Service& service);
ripc_pool_statistics pool_statistics_of(const Context& context);
ripc_send_options send_options();

// The view of one item; a failure if there is none.
ripc_item_view view_of(const Message& message, std::size_t index);
std::string text_of(const ripc_item_view& view);
std::string text_of(const Message& message, std::size_t index = 0);
// Whether an item arrived as `kind` with exactly these bytes.
testing::AssertionResult holds(const ripc_item_view& view, ripc_view_kind kind, std::span<const unsigned char> bytes);
testing::AssertionResult failed(const ripc_item_view& view, ripc_status status, std::size_t announced);

// ---- Operations that are expected to work ------------------------------------------------------------------------

using Items = std::initializer_list<ripc_item>;

Service make_service(const Context& context, ripc_service_id id = 0);
Service make_service(const Context& context, const std::function<void(ripc_service_options&)>& change);
// ripc_send without a ticket for the caller.
ripc_status send(const Service& from, ripc_service_id to, Items items, std::uint32_t tag = 0);
ripc_status send_text(const Service& from, ripc_service_id to, std::string_view text, std::uint32_t tag = 0);
// Sends until the sender has noticed that `to` is gone for good; false if it never does.
bool is_gone(const Service& from, ripc_service_id to);
// ripc_send of a message that must make a ticket.
Ticket send_long(const Service& from, ripc_service_id to, Items items, const ripc_send_options* options = nullptr);
// Sends until there is no room; returns how often it sent. A failure if the sends end with another status.
std::size_t send_until_full(const std::function<ripc_status()>& send);
// The same with messages of this one item; adds their tickets to `tickets`.
void send_until_full(const Service& from, ripc_service_id to, const ripc_item& one, std::vector<Ticket>& tickets,
                     const ripc_send_options* options = nullptr);
// Waits up to kLimit for one message; nullptr and a failure if there is none.
Message receive(const Service& service, std::uint32_t flags = 0);
ripc_status final_status(const Ticket& ticket);  // waits up to kLimit
std::unique_ptr<unsigned char[], std::function<void(unsigned char*)>> lease(const Context& context, std::size_t size);

std::uint64_t thread_cpu_time();  // used by the calling thread, nanoseconds

// ---- Fixtures ----------------------------------------------------------------------------------------------------

class TransportTest : public testing::TestWithParam<std::string> {
 protected:
  const Traits& traits() const { return traits_of(GetParam()); }
  const std::string& runtime_directory() const { return directory_.path(); }
  // Options of a context on this test's transport and runtime directory; its strings live as long as the test.
  ripc_context_options context_options() const;
  Context make_context(const std::function<void(ripc_context_options&)>& change = nullptr) const;
  // The setup of a peer process that differs in nothing.
  PeerSetup peer_setup() const;

 private:
  TemporaryDirectory directory_;
};

// Contexts that are made while the object lives send each other no signs of life, and no silent peer times out. So they
// react only to what really happens to a peer.
class NoSignsOfLife {
 public:
  NoSignsOfLife() { ::setenv("RIPC_PEER_TIMEOUT_MS", "3600000", 1); }
  ~NoSignsOfLife() { ::unsetenv("RIPC_PEER_TIMEOUT_MS"); }
  NoSignsOfLife(const NoSignsOfLife&) = delete;
  NoSignsOfLife& operator=(const NoSignsOfLife&) = delete;
};

// Checks that a signal ends the wait in another thread, although its handler asks for a restart.
void expect_signal_ends(const std::function<ripc_status()>& wait);

// Two contexts as two independent peers, with one service each.
class PairTest : public TransportTest {
 protected:
  void SetUp() override;
  ripc_service_id client_id() const { return id_of(client_); }
  ripc_service_id server_id() const { return id_of(server_); }
  // Checks that no message is there, and that none comes before a mark that the client sends now.
  void expect_nothing_more(const Service& service);

  Context client_context_;
  Context server_context_;
  Service client_;
  Service server_;
};

#define CONFORMANCE_SUITE(suite)                                                           \
  INSTANTIATE_TEST_SUITE_P(Transport, suite, testing::ValuesIn(conformance::transports()), \
                           [](const testing::TestParamInfo<std::string>& parameter) { return parameter.param; })

}  // namespace conformance
