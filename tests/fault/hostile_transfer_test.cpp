// SPDX-License-Identifier: Apache-2.0
// A hostile sender of long messages: it names transfers that are not there, withdraws what it lent, announces and never
// delivers. The honest side loses nothing but the hostile messages.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>

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
    const ripc::UniqueFd arena = make_memfd(kArenaSize, true);
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
    const std::array<ripc::wire::Descriptor, 1> items{ripc::wire::Descriptor{key_of(generation, 0), location, length}};
    link_->commit(long_packet(kLiar, items));
  }
  // The service looks at everything that was sent; whatever it receives is dropped.
  bool taken() {
    return eventually([&] {
      while (receive(service_, 0)) {
      }
      return link_->page().receiver.head_cells.load() == link_->next;
    });
  }
  // Everything that was said on the control connection has been heard.
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

// A write from memory that is not there fails, where a read by this process would end it.
bool is_readable(const void* data) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  const ripc::UniqueFd reader(ends[0]), writer(ends[1]);
  return ::write(writer.get(), data, 1) == 1;
}

TEST_F(HostileTransfer, ALentViewStaysReadableWhateverItsSenderDoes) {
  std::array<Message, 2> messages;
  for (Message& message : messages) {
    // The same transfer twice.
    send(1, shm::pooled_location(kArena, 0), 64);
    message = receive(service_, kLimit, RIPC_RECEIVE_LEND);
    ASSERT_TRUE(message);
  }
  messages[0].reset();
  ASSERT_TRUE(hostile_->send(control::ArenaGone{kArena}));
  settle();
  ripc_item_view view{};
  ASSERT_EQ(ripc_message_item(messages[1].get(), 0, &view), RIPC_OK);
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
    const std::array<ripc::wire::Descriptor, 2> items{
        ripc::wire::Descriptor{key_of(generation, 0), location, 64},
        ripc::wire::Descriptor{second, location, 64},
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

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {}); }
