// SPDX-License-Identifier: Apache-2.0
// RIPC_SEND_UNORDERED: a message does not wait for earlier ones whose long items are on their way.
#include <signal.h>

#include <array>

#include "groups.hpp"
#include "peer_host.hpp"
#include "puppet.hpp"
#include "support/process_state.hpp"

namespace conformance {
namespace {

constexpr std::size_t kHuge = std::size_t{16} << 20;
constexpr ripc_service_id kSenderId = 78;
constexpr ripc_service_id kReceiverId = 79;

class Unordered : public PairTest {
 protected:
  static ripc_send_options unordered() {
    ripc_send_options options = send_options();
    options.flags = RIPC_SEND_UNORDERED;
    return options;
  }
};
CONFORMANCE_SUITE(Unordered);

// A stopped sender neither gives its memory away nor says that it may be used, so its long item stays under way. Over
// shared memory, this holds where the receiver has to ask for the bytes.
TEST_P(Unordered, AShortMessageOvertakesALongOneThatIsOnItsWay) {
  if (peer_host() != nullptr) GTEST_SKIP() << "looks at its peer in /proc";
  PeerSetup setup = peer_setup();
  Puppet sender(setup);
  setup.no_process_memory = true;
  Puppet receiver(setup);
  ASSERT_EQ(sender.register_id(kSenderId), "RIPC_OK");
  ASSERT_EQ(receiver.register_id(kReceiverId), "RIPC_OK");
  ASSERT_EQ(receiver.call("post " + std::to_string(kHuge) + " 1"), "RIPC_OK");
  const std::string to = std::to_string(kReceiverId);
  ASSERT_EQ(sender.call("send_long " + to + " " + std::to_string(kHuge) + " 5 foreign 0"), "RIPC_OK");
  ASSERT_EQ(sender.call("send_unordered " + to + " 1 first"), "RIPC_OK");
  ASSERT_EQ(sender.send_text(kReceiverId, "last", 2), "RIPC_OK");
  sender.signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return support::state_of_process(sender.pid()) == 'T'; }));
  const auto text = [](std::string_view bytes) {
    return "RIPC_OK " + describe(RIPC_VIEW_SHORT, Bytes(bytes.begin(), bytes.end()));
  };
  EXPECT_EQ(receiver.call("receive"), text("first"));
  sender.signal(SIGCONT);
  EXPECT_EQ(receiver.call("receive"), "RIPC_OK " + describe(RIPC_VIEW_WINDOW, pattern(kHuge, 5)));
  EXPECT_EQ(receiver.call("receive"), text("last")) << "the others stay in order";
  EXPECT_EQ(sender.call("wait"), "RIPC_OK");
}

// Whichever message overtakes another, each arrives once and whole.
TEST_P(Unordered, AllKindsOfMessagesMayBeUnordered) {
  constexpr std::uint32_t kRounds = 8;
  constexpr std::size_t kSize = 300'000;
  std::vector<Bytes> windows(kRounds, Bytes(kSize));
  std::vector<Bytes> sent;
  for (std::uint32_t round = 0; round < kRounds; ++round) sent.push_back(pattern(kSize, round));
  for (Bytes& window : windows) ASSERT_EQ(ripc_window_post(server_.get(), window.data(), kSize, 1), RIPC_OK);
  std::vector<Ticket> tickets;
  ripc_send_options options = unordered();
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    options.tag = round;
    tickets.push_back(send_long(client_, server_id(), {item(sent[round], RIPC_ITEM_LONG)}, &options));
    const ripc_item text = item(std::string_view("short"), round % 2 == 0 ? RIPC_ITEM_AUTO : RIPC_ITEM_SHORT);
    const ripc_outgoing one{&text, 1, kRounds + round};
    const ripc_send_options flagged = unordered();
    ASSERT_EQ(ripc_send_many(client_.get(), server_id(), &one, 1, &flagged, nullptr, nullptr), RIPC_OK);
  }
  std::array<int, 2 * kRounds> seen{};
  for (std::uint32_t count = 0; count < 2 * kRounds; ++count) {
    const Message message = receive(server_);
    const std::uint32_t tag = ripc_message_get_tag(message.get());
    ASSERT_LT(tag, seen.size());
    EXPECT_EQ(++seen[tag], 1) << tag;
    if (tag < kRounds) {
      EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, sent[tag]));
    } else {
      EXPECT_EQ(text_of(message), "short");
    }
  }
  for (const Ticket& ticket : tickets) EXPECT_EQ(final_status(ticket), RIPC_OK);
  expect_nothing_more(server_);
}

TEST_P(Unordered, AReplyMayBeUnordered) {
  Bytes buffer(100'000);
  const ripc_return_buffer landing{buffer.data(), buffer.size()};
  ripc_send_options options = unordered();
  options.returns = &landing;
  options.return_count = 1;
  ASSERT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_OK) << ripc_last_error();
  const Message request = receive(server_);
  const Bytes answer = pattern(buffer.size(), 3);
  const ripc_item one = item(answer, RIPC_ITEM_RETURN);
  const ripc_send_options reply = unordered();
  ASSERT_EQ(ripc_reply(server_.get(), request.get(), &one, 1, &reply, nullptr), RIPC_OK) << ripc_last_error();
  EXPECT_TRUE(holds(view_of(receive(client_), 0), RIPC_VIEW_RETURNED, answer));
}

TEST_P(Unordered, AnItemOverTheShortLimitIsTooLarge) {
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(client_.get(), server_id(), 1, &limit), RIPC_OK);
  const Bytes large(limit + 1);
  const ripc_item one = item(large, RIPC_ITEM_SHORT);
  const ripc_send_options options = unordered();
  EXPECT_EQ(ripc_send(client_.get(), server_id(), &one, 1, &options, nullptr), RIPC_TOO_LARGE);
}

TEST_P(Unordered, AGroupTakesNone) {
  const ripc_service_id group = fresh_group();
  ASSERT_EQ(ripc_group_join(server_.get(), group), RIPC_OK);
  const ripc_send_options options = unordered();
  EXPECT_EQ(ripc_send(client_.get(), group, nullptr, 0, &options, nullptr), RIPC_UNSUPPORTED);
}

TEST_P(Unordered, OtherFlagsAreRefused) {
  ripc_send_options options = send_options();
  options.flags = RIPC_SEND_UNORDERED << 1;
  EXPECT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_INVALID_ARGUMENT);
  const ripc_outgoing none{nullptr, 0, 0};
  EXPECT_EQ(ripc_send_many(client_.get(), server_id(), &none, 1, &options, nullptr, nullptr), RIPC_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace conformance
