// SPDX-License-Identifier: Apache-2.0
// Tests a hostile sender of long messages. It names transfers that do not exist, withdraws what it lent, and announces
// data that it never delivers. The honest side loses only the hostile messages.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "hostile.hpp"
#include "transport/shm/location.hpp"

namespace fault {
namespace {

constexpr ripc_service_id kService = 1001;
constexpr ripc_service_id kHonest = 1003;
constexpr ripc_service_id kLiar = 1004;
constexpr std::uint32_t kArena = 1;
constexpr std::size_t kArenaSize = 1 << 16;
constexpr std::uint64_t kExposed = 1;  // the state in a transfer word

std::uint64_t key_of(std::uint64_t generation, std::uint64_t slot, std::uint64_t item = 0) {
  return generation << 32 | slot << 16 | item;
}

class HostileTransfer : public testing::Test {
 protected:
  void SetUp() override {
    context_ = make_context(directory_.path(), 256 << 20);
    ASSERT_TRUE(context_);
    const std::uint64_t target = only_context(directory_.path());
    service_ = make_service(context_, kService);
    peer_context_ = make_context(directory_.path(), 256 << 20);
    peer_ = make_service(peer_context_, kHonest);
    ASSERT_TRUE(service_ && peer_);
    ASSERT_EQ(exchange(service_, peer_, 1), "");
    hostile_ = std::make_unique<Hostile>(directory_.path(), target);
    ASSERT_TRUE(hostile_->connected() && hostile_->greet());
    const ripc::internal::UniqueFd arena = make_memfd(kArenaSize, true);
    const std::array<int, 1> descriptor{arena.get()};
    ASSERT_TRUE(hostile_->send(control::Arena{kArena, 0, kArenaSize}, descriptor));
    link_ = hostile_->open(kService, 1);
    ASSERT_TRUE(link_);
  }
  void TearDown() override {
    if (service_ && peer_) {
      EXPECT_EQ(exchange(service_, peer_, 2), "");
    }
  }

  // Sends a message of one item as transfer 0 of this generation.
  void send(std::uint64_t generation, std::uint64_t location, std::uint64_t length) {
    link_->page().transfers[0].store(generation << 32 | kExposed);
    const std::array<ripc::internal::wire::Descriptor, 1> items{
        ripc::internal::wire::Descriptor{key_of(generation, 0), location, length}};
    link_->commit(long_packet(kLiar, items));
  }
  // Lets the service read everything that was sent, and drops whatever it receives.
  bool taken() {
    return eventually([&] {
      while (receive(service_, 0)) {
      }
      return link_->page().receiver.head_cells.load() == link_->next;
    });
  }
  // Waits until the service has read everything that was sent on the control connection.
  void settle() {
    ASSERT_TRUE(hostile_->send(control::Fence{.request = 77, .service = 1, .incarnation = 1}));
    ASSERT_TRUE(hostile_->wait_for<control::Fenced>());
  }

  TemporaryDirectory directory_;
  Context context_, peer_context_;
  Service service_, peer_;
  std::unique_ptr<Hostile> hostile_;
  std::optional<HostileLink> link_;
};

// write() from unmapped memory fails with an error, whereas reading it directly would kill this process.
bool is_readable(const void* data) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  const ripc::internal::UniqueFd reader(ends[0]), writer(ends[1]);
  return ::write(writer.get(), data, 1) == 1;
}

TEST_F(HostileTransfer, ALentViewStaysReadableWhateverItsSenderDoes) {
  std::array<Message, 2> messages;
  for (Message& message : messages) {
    // Both messages name the same transfer.
    send(1, shm::pooled_location(kArena, 0), 64);
    message = receive(service_, kLimit, RIPC_RECEIVE_LEND);
    ASSERT_TRUE(message);
  }
  messages[0].reset();
  ASSERT_TRUE(hostile_->send(control::ArenaGone{kArena}));
  settle();
  ripc_item_view view{};
  ASSERT_EQ(ripc_message_get_item(messages[1].get(), 0, &view), RIPC_OK);
  ASSERT_EQ(view.kind, static_cast<std::uint32_t>(RIPC_VIEW_LENT));
  EXPECT_TRUE(is_readable(view.data));
}

TEST_F(HostileTransfer, ItemsOfSeveralTransfersInOneMessageAreRefused) {
  const std::uint64_t refused = statistics_of(service_).packets_corrupt;
  std::uint64_t generation = 0;
  for (const std::uint64_t second : {key_of(1, 1), key_of(9, 0), key_of(1, 200), key_of(1, 0xffff, 1)}) {
    ++generation;
    link_->page().transfers[0].store(generation << 32 | kExposed);
    const std::uint64_t location = shm::pooled_location(kArena, 0);
    const std::array<ripc::internal::wire::Descriptor, 2> items{
        ripc::internal::wire::Descriptor{key_of(generation, 0), location, 64},
        ripc::internal::wire::Descriptor{second, location, 64},
    };
    link_->commit(long_packet(kLiar, items));
    EXPECT_TRUE(eventually([&] {
      EXPECT_FALSE(receive(service_, 0, RIPC_RECEIVE_LEND));
      return statistics_of(service_).packets_corrupt == refused + generation;
    })) << std::hex
        << second;
  }
}

TEST_F(HostileTransfer, LentTransfersAreForgottenWithTheirMessages) {
  const std::size_t memory = resident_bytes();
  for (std::uint64_t generation = 1; generation <= 20000; ++generation) {
    send(generation, shm::pooled_location(kArena, 0), 64);
    ASSERT_TRUE(receive(service_, kLimit, RIPC_RECEIVE_LEND));
  }
  if (!kSanitized) {
    EXPECT_LT(resident_bytes(), memory + (1 << 20)) << "20000 messages made this process grow";
  }
}

// The service has only one window, of kWindow bytes.
class HostileWindow : public HostileTransfer {
 protected:
  static constexpr std::size_t kWindow = 1 << 20;

  void SetUp() override {
    HostileTransfer::SetUp();
    if (HasFatalFailure()) return;
    window_.resize(kWindow);
    ASSERT_EQ(ripc_window_post(service_.get(), window_.data(), window_.size(), 5), RIPC_OK) << ripc_last_error();
  }
  // Sends a message from the honest peer. Returns the status with which its only item arrives.
  std::uint32_t honest_arrival(std::uint64_t seed) {
    const std::vector<std::byte> bytes = make_item(20000, seed);
    const ripc_item item{bytes.data(), bytes.size(), RIPC_ITEM_LONG, 0};
    ripc_ticket* ticket = nullptr;
    EXPECT_EQ(ripc_send(peer_.get(), kService, &item, 1, nullptr, &ticket), RIPC_OK) << ripc_last_error();
    const Ticket owned(ticket);
    const Message message = receive(service_);
    ripc_item_view view{};
    EXPECT_TRUE(message && ripc_message_get_source(message.get()) == kHonest);
    EXPECT_EQ(ripc_message_get_item(message.get(), 0, &view), RIPC_OK);
    EXPECT_EQ(flaw_of(message.get()), "");
    EXPECT_EQ(ripc_ticket_wait(ticket, kLimit), static_cast<ripc_status>(view.status));
    return view.status;
  }

  std::vector<std::byte> window_;
};

class Undelivered : public HostileWindow, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(Undelivered, MessageKeepsNoWindowFromOthers) {
  send(1, GetParam(), 5000);
  ASSERT_TRUE(taken());
  EXPECT_EQ(honest_arrival(1), static_cast<std::uint32_t>(RIPC_OK));
}

TEST_F(HostileWindow, AMessageThatWaitedForItsArenaIsDeliveredInOrder) {
  send(1, shm::pooled_location(kArena + 1, 0), 5000);
  link_->commit(short_packet(kLiar, make_item(64, 7)));
  EXPECT_FALSE(receive(service_, 0)) << "what was sent later does not overtake it";
  const ripc::internal::UniqueFd arena = make_memfd(kArenaSize, true);
  const std::array<int, 1> descriptor{arena.get()};
  ASSERT_TRUE(hostile_->send(control::Arena{kArena + 1, 0, kArenaSize}, descriptor));
  for (const ripc_view_kind kind : {RIPC_VIEW_WINDOW, RIPC_VIEW_SHORT}) {
    const Message message = receive(service_);
    ripc_item_view view{};
    ASSERT_EQ(ripc_message_get_item(message.get(), 0, &view), RIPC_OK);
    EXPECT_EQ(view.kind, static_cast<std::uint32_t>(kind));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Undelivered,
                         testing::Values(shm::pooled_location(kArena + 1, 0),  // never announced
                                         shm::kUndisclosed),                   // BounceRequest is never answered
                         [](const auto& parameter) {
                           return parameter.param == shm::kUndisclosed ? "ThroughTheBounceBuffer" : "InAnUnknownArena";
                         });

TEST_F(HostileWindow, ASenderThatFallsSilentInTheMiddleGivesTheWindowBack) {
  send(1, shm::kUndisclosed, kWindow);
  std::optional<control::BounceRequest> request;
  ASSERT_TRUE(eventually([&] {
    EXPECT_FALSE(receive(service_, 0));
    request = hostile_->wait_for<control::BounceRequest>(0);
    return request.has_value();
  }));
  control::BounceData first{request->link, request->key, request->offset, RIPC_OK, request->sequence, request->length};
  ASSERT_TRUE(hostile_->send(first));
  ASSERT_TRUE(eventually([&] {
    EXPECT_FALSE(receive(service_, 0));
    return hostile_->wait_for<control::BounceRequest>(0).has_value();
  })) << "the second piece is asked for when the first is in the window";
  EXPECT_EQ(honest_arrival(1), static_cast<std::uint32_t>(RIPC_NO_WINDOW)) << "it is in use";
  std::uint64_t seed = 1;
  EXPECT_TRUE(eventually([&] { return honest_arrival(++seed) == RIPC_OK; }, 10 * kSecond));
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {}); }
