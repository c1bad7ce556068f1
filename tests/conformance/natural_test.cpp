// SPDX-License-Identifier: Apache-2.0
// C++ programs as people write them: headers on the stack, temporaries, buffers that are reused at once, replies from
// the request's memory. None keeps a ticket, and every byte arrives as it was when the send was called. auto_test.cpp
// tests which items travel as long items, and from which memory.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "harness.hpp"
#include "ripc/ripc.hpp"

namespace conformance::natural {
namespace {

using ripc::bytes_of;
using ripc::item;

constexpr std::size_t kLarge =
    20'000;  // more than the client takes short, less than the server does over shared memory
constexpr std::size_t kHuge = 1'100'000;  // malloc() unmaps it when it is freed

// What an application puts before its data.
struct Header {
  std::uint64_t request = 0;
  std::uint64_t length = 0;
};

ripc::Bytes bytes_of_header(const Header& header) { return std::as_bytes(std::span(&header, 1)); }

std::string text_for(std::size_t number, std::size_t size) {
  std::string text(size, '\0');
  fill_pattern(text.data(), size, static_cast<unsigned>(number));
  return text;
}

class NaturalPrograms : public TransportTest {
 protected:
  // The server takes larger short messages than the client: a short item may need a long one as its answer.
  void SetUp() override {
    client_context_ = ripc::Context(make_context().release());
    server_context_ = ripc::Context(make_context().release());
    client_ = need(client_context_.register_service());
    server_ = need(server_context_.register_service({.queue_bytes = 1 << 18}));
  }

  template <typename Value>
  static Value need(ripc::Result<Value> result) {
    if (!result.ok()) throw std::runtime_error(std::string(result.error().text()));
    return *std::move(result);
  }
  static ripc::Message take(ripc::Service& service) {
    return need(service.receive(std::chrono::nanoseconds(kLimit), RIPC_RECEIVE_LEND));
  }
  static void expect_text(const ripc::Message& message, std::size_t index, const std::string& text) {
    ASSERT_TRUE(message.item(index).ok()) << ripc_status_name(message.item(index).status());
    ASSERT_EQ(message.item(index).size(), text.size());
    EXPECT_TRUE(message.item(index).text() == text) << "other bytes";
  }

  ripc::Context client_context_, server_context_;
  ripc::Service client_, server_;
};
CONFORMANCE_SUITE(NaturalPrograms);

TEST_P(NaturalPrograms, AHeaderOnTheStackAndABodyAreSentByAFunctionThatReturns) {
  const auto call = [&](std::uint64_t request, std::size_t size) {
    std::string body = text_for(request, size);
    Header header{request, body.size()};
    (void)need(client_.send(server_.id(), {item(bytes_of_header(header)), item(bytes_of(body))}));
    // Overwrites the memory, as the next call would.
    header = {~std::uint64_t{0}, ~std::uint64_t{0}};
    body.assign(body.size(), '?');
  };
  const std::array<std::size_t, 4> sizes = {10, kLarge, kHuge, std::size_t{2} << 20};
  for (std::uint64_t request = 0; request < sizes.size(); ++request) call(request, sizes[request]);
  for (std::uint64_t request = 0; request < sizes.size(); ++request) {
    const ripc::Message message = take(server_);
    ASSERT_EQ(message.item_count(), 2u);
    EXPECT_EQ(message.item(0).kind(), RIPC_VIEW_SHORT) << "a header does not travel long because of its body";
    Header header;
    ASSERT_EQ(message.item(0).size(), sizeof header);
    std::memcpy(&header, message.item(0).bytes().data(), sizeof header);
    EXPECT_EQ(header.request, request);
    EXPECT_EQ(header.length, sizes[request]);
    expect_text(message, 1, text_for(request, sizes[request]));
  }
}

TEST_P(NaturalPrograms, TemporariesAreSent) {
  for (const std::size_t size : {std::size_t{3}, kLarge, kHuge}) {
    (void)need(client_.send(server_.id(), bytes_of(text_for(1, size))));
    (void)need(client_.send(server_.id(), {ripc::item(std::to_string(size)), ripc::item(text_for(2, size))}));
    // These strings take the memory that the temporaries had.
    const std::vector<std::string> others(8, std::string(size, '?'));
    expect_text(take(server_), 0, text_for(1, size));
    const ripc::Message pair = take(server_);
    expect_text(pair, 0, std::to_string(size));
    expect_text(pair, 1, text_for(2, size));
  }
}

TEST_P(NaturalPrograms, LiteralsAreSentWithoutTheZeroAtTheirEnd) {
  (void)need(client_.send(server_.id(), {ripc::item("one"), ripc::short_item("two")}));
  const ripc::Message message = take(server_);
  expect_text(message, 0, "one");
  expect_text(message, 1, "two");
}

TEST_P(NaturalPrograms, OneBufferIsFilledAndSentAgainAndAgain) {
  constexpr std::size_t kCount = 8;
  const auto leased = need(client_context_.lease(kHuge));
  std::vector<std::byte> owned(kHuge);
  for (const ripc::WritableBytes buffer : {leased.bytes(), leased.bytes().first(kLarge), ripc::WritableBytes(owned)}) {
    for (std::size_t index = 0; index < kCount; ++index) {
      fill_pattern(buffer.data(), buffer.size(), static_cast<unsigned>(index));
      (void)need(client_.send(server_.id(), buffer));
    }
    fill_pattern(buffer.data(), buffer.size(), 99);
    for (std::size_t index = 0; index < kCount; ++index) expect_text(take(server_), 0, text_for(index, buffer.size()));
  }
}

TEST_P(NaturalPrograms, SeveralMessagesAreSentTogetherOutOfBuffersThatAreUsedAgain) {
  constexpr std::size_t kCount = 6;
  std::array<std::string, kCount> texts;
  std::array<ripc::Item, kCount> items;
  std::vector<ripc::OutgoingMessage> messages;
  for (std::size_t index = 0; index < kCount; ++index) {
    texts[index] = text_for(index, index % 2 == 0 ? kHuge : 10);
    items[index] = item(bytes_of(texts[index]));
    messages.push_back(ripc::outgoing_message({&items[index], 1}));
  }
  ASSERT_EQ(need(client_.send_many(server_.id(), messages)), kCount);
  for (std::string& text : texts) text.assign(text.size(), '?');
  for (std::size_t index = 0; index < kCount; ++index)
    expect_text(take(server_), 0, text_for(index, index % 2 == 0 ? kHuge : 10));
}

// The loop at the top of ripc.hpp. Each message gives its memory to the next.
TEST_P(NaturalPrograms, AnEchoAnswersOutOfTheRequest) {
  constexpr std::size_t kCount = 8;
  std::vector<std::byte> windows(kCount * kHuge);
  for (const std::size_t size : {kLarge, kHuge}) {
    for (const std::uint32_t flags : {std::uint32_t{0}, std::uint32_t{RIPC_RECEIVE_LEND}}) {
      for (std::size_t index = 0; index < kCount; ++index) {
        (void)need(client_.send(server_.id(), bytes_of(text_for(index, size))));
        if (flags != 0) continue;
        ASSERT_TRUE(server_.post_window(std::span(windows).subspan(index * kHuge, kHuge)).ok());
      }
      for (std::size_t index = 0; index < kCount; ++index) {
        auto message = server_.receive(std::chrono::nanoseconds(kLimit), flags);
        ASSERT_TRUE(message.ok());
        (void)need(server_.reply(*message, message->item(0).bytes()));
      }
      std::fill(windows.begin(), windows.end(), std::byte{0});
      for (std::size_t index = 0; index < kCount; ++index) expect_text(take(client_), 0, text_for(index, size));
      (void)server_.withdraw_windows(0);
    }
  }
}

TEST_P(NaturalPrograms, AServerAnswersWithAHeaderOfItsOwnAndWhatItWasAsked) {
  std::jthread serving([&] {
    while (auto message = server_.receive(std::chrono::nanoseconds(kLimit), RIPC_RECEIVE_LEND)) {
      if (message->item_count() != 2) break;
      Header header;
      std::memcpy(&header, message->item(0).bytes().data(), sizeof header);
      header.length = message->item(1).size();
      const auto sent = server_.reply(*message, {item(bytes_of_header(header)), item(message->item(1).bytes())});
      ASSERT_TRUE(sent.ok()) << sent.error().text();
    }
  });
  constexpr std::uint64_t kRounds = 100;
  constexpr std::uint64_t kTogether = 4;  // the next request comes before the answer to the last one is read
  const auto size_of = [](std::uint64_t request) { return request % 3 == 0 ? kHuge : request * 7919 % (2 * kLarge); };
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t first = round * kTogether;
    for (std::uint64_t request = first; request < first + kTogether; ++request) {
      (void)need(client_.send(server_.id(), {item(bytes_of_header(Header{request, 0})),
                                             item(bytes_of(text_for(request, size_of(request))))}));
    }
    ASSERT_TRUE(eventually([&] { return need(server_.statistics()).messages_sent == first + kTogether; }));
    for (std::uint64_t request = first; request < first + kTogether; ++request) {
      const ripc::Message reply = take(client_);
      Header header;
      ASSERT_EQ(reply.item(0).size(), sizeof header);
      std::memcpy(&header, reply.item(0).bytes().data(), sizeof header);
      ASSERT_EQ(header.request, request);
      ASSERT_EQ(header.length, size_of(request));
      expect_text(reply, 1, text_for(request, size_of(request)));
    }
  }
  (void)need(client_.send(server_.id(), ripc::Bytes()));
}

TEST_P(NaturalPrograms, AReplyThatDoesNotFitTheReturnBufferIsTheServersAgainAtOnce) {
  std::vector<std::byte> small(100);
  const ripc::ReturnBuffer buffer = ripc::return_buffer(small);
  (void)need(client_.send(server_.id(), {}, {.returns = std::span(&buffer, 1)}));
  std::string answer = text_for(1, kHuge);
  (void)need(server_.reply(take(server_), ripc::return_item(bytes_of(answer))));
  answer.assign(kHuge, '?');
  expect_text(take(client_), 0, text_for(1, kHuge));
}

TEST_P(NaturalPrograms, RegisteredMemoryMayGoAtOnce) {
  std::vector<std::byte> memory(kHuge);
  fill_pattern(memory.data(), memory.size(), 1);
  {
    const ripc::Registration registration = need(client_context_.register_memory(memory));
    (void)need(client_.send(server_.id(), memory));
  }
  memory.assign(kHuge, std::byte{0});
  expect_text(take(server_), 0, text_for(1, kHuge));
}

TEST_P(NaturalPrograms, ItemsLandInWindowsAsTheyWere) {
  std::vector<std::byte> window(kHuge);
  ASSERT_TRUE(server_.post_window(window).ok());
  (void)need(client_.send(server_.id(), bytes_of(text_for(1, kHuge))));
  const std::vector<std::string> others(8, std::string(kHuge, '?'));
  const ripc::Message message = need(server_.receive(std::chrono::nanoseconds(kLimit)));
  EXPECT_EQ(message.item(0).kind(), RIPC_VIEW_WINDOW);
  expect_text(message, 0, text_for(1, kHuge));
}

// Borrowed memory is the caller's again when the ticket says so.
TEST_P(NaturalPrograms, ABorrowedBufferIsFilledAgainAfterItsTicket) {
  std::jthread receiving([&] {
    for (std::size_t index = 0; index < 10; ++index) expect_text(take(server_), 0, text_for(index, kHuge));
  });
  std::vector<std::byte> memory(kHuge);
  for (std::size_t index = 0; index < 10; ++index) {
    fill_pattern(memory.data(), memory.size(), static_cast<unsigned>(index));
    auto ticket = client_.send(server_.id(), ripc::borrow(memory));
    ASSERT_TRUE(ticket.ok());
    ASSERT_TRUE(ticket->wait(std::chrono::nanoseconds(kLimit)).ok());
  }
}

}  // namespace
}  // namespace conformance::natural
