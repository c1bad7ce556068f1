// SPDX-License-Identifier: Apache-2.0
#include "remote/session/secure_socket.hpp"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "unit/remote/session/sealing.hpp"

namespace ripc::internal::remote {
namespace {

using Bytes = std::vector<std::byte>;
using Memory = SecureSocket::Memory;

// Two ends that do not seal.
struct PlainPair {
  PlainPair() {
    std::array<int, 2> sockets{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()), 0);
    one = UniqueFd(sockets[0]);
    two = UniqueFd(sockets[1]);
  }
  SecureSocket one, two;
};

// Two ends that seal what they send.
struct Pair : PlainPair, Sealing {
  Pair() {
    protect_one(one);
    protect_two(two);
  }
};

Bytes some(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 256);
  return bytes;
}

// Cuts memory into up to three ranges of any length.
std::vector<iovec> cut(std::byte* data, std::size_t size, std::mt19937& random) {
  std::vector<iovec> ranges;
  while (ranges.size() < 2 && size != 0) {
    const std::size_t piece = std::uniform_int_distribution<std::size_t>(0, size)(random);
    ranges.push_back({data, piece});
    data += piece;
    size -= piece;
  }
  ranges.push_back({data, size});
  return ranges;
}

Memory any_memory(std::mt19937& random) { return random() % 2 == 0 ? Memory::kept : Memory::foreign; }

TEST(SecureSocket, CarriesBytesInPiecesOfAnySizeBetweenMemoryOfAnyKind) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Pair pair;
    Bytes sent = some(1'000'000);
    Bytes received(sent.size());
    std::size_t out = 0, in = 0;
    const auto next = [&](std::size_t position) {
      const std::size_t most = random() % 2 == 0 ? 100 : 200'000;
      return std::min(sent.size() - position, std::uniform_int_distribution<std::size_t>(1, most)(random));
    };
    for (int turn = 0; in < received.size(); ++turn) {
      ASSERT_LT(turn, 1'000'000);
      if (out < sent.size()) {
        std::vector<iovec> ranges = cut(sent.data() + out, next(out), random);
        const ssize_t result = pair.one.send(ranges, any_memory(random));
        ASSERT_TRUE(result > 0 || errno == EAGAIN) << errno;
        out += result > 0 ? static_cast<std::size_t>(result) : 0;
      }
      std::vector<iovec> ranges = cut(received.data() + in, next(in), random);
      const ssize_t result = pair.two.receive(ranges, any_memory(random));
      ASSERT_TRUE(result > 0 || errno == EAGAIN) << errno;
      in += result > 0 ? static_cast<std::size_t>(result) : 0;
    }
    EXPECT_EQ(received, sent);
    EXPECT_EQ(pair.counters->packets_forged, 0U);
  }
}

TEST(SecureSocket, DropsBytesThatNobodyWants) {
  Pair pair;
  const Bytes sent = some(40'000);
  ASSERT_EQ(pair.one.send(sent.data(), sent.size()), 40'000);
  EXPECT_EQ(pair.two.discard(30'000), 30'000);
  Bytes rest(10'000);
  ASSERT_EQ(pair.two.receive(rest.data(), rest.size()), 10'000);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), sent.begin() + 30'000));
}

TEST(SecureSocket, ForeignMemoryThatIsGoneIsAnErrorAndTheStreamGoesOn) {
  Pair pair;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const gone = ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  iovec missing{gone, page};
  EXPECT_EQ(pair.one.send({&missing, 1}, Memory::foreign), -1);
  EXPECT_EQ(errno, EFAULT);
  const Bytes sent = some(page);
  ASSERT_EQ(pair.one.send(sent.data(), sent.size()), static_cast<ssize_t>(page));
  EXPECT_EQ(pair.two.receive({&missing, 1}, Memory::foreign), -1);
  EXPECT_EQ(errno, EFAULT);
  Bytes received(page);
  ASSERT_EQ(pair.two.receive(received.data(), received.size()), static_cast<ssize_t>(page));
  EXPECT_EQ(received, sent);
  ::munmap(gone, page);
}

TEST(SecureSocket, TheRestOfARecordSurvivesTheEndOfForeignMemory) {
  Pair pair;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const there = static_cast<std::byte*>(memory);
  ASSERT_EQ(::mprotect(there + page, page, PROT_NONE), 0);
  const Bytes sent = some(2 * page);
  Bytes received = Bytes(2 * page);
  std::copy_n(sent.begin(), page, there);
  iovec ranges{there, 2 * page};
  EXPECT_EQ(pair.one.send({&ranges, 1}, Memory::foreign), static_cast<ssize_t>(page)) << "what there is";
  ASSERT_EQ(pair.two.receive(received.data(), page), static_cast<ssize_t>(page));
  EXPECT_TRUE(std::equal(there, there + page, received.begin()));
  ASSERT_EQ(pair.one.send(sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
  std::fill_n(there, page, std::byte{0});
  ranges = {there, 2 * page};
  EXPECT_EQ(pair.two.receive({&ranges, 1}, Memory::foreign), static_cast<ssize_t>(page));
  std::copy_n(there, page, received.begin());
  ASSERT_EQ(pair.two.receive(received.data() + page, page), static_cast<ssize_t>(page));
  EXPECT_EQ(received, sent);
  ::munmap(memory, 2 * page);
}

TEST(SecureSocket, AForgedRecordEndsItAndIsCounted) {
  Pair pair;
  const Bytes sent = some(20'000);
  ASSERT_EQ(pair.one.send(sent.data(), sent.size()), 20'000);
  Bytes records(30'000);
  const ssize_t size = ::recv(pair.two.fd(), records.data(), records.size(), 0);
  ASSERT_GT(size, 20'000);
  records[static_cast<std::size_t>(size) - 20] ^= std::byte{1};  // of the second record
  PlainPair other;
  SecureSocket& victim = other.two;
  pair.protect_two(victim);
  ASSERT_EQ(other.one.send(records.data(), static_cast<std::size_t>(size)), size);
  Bytes received(sent.size());
  EXPECT_EQ(victim.receive(received.data(), received.size()), static_cast<ssize_t>(security::kMaxRecordText))
      << "the first record is true";
  EXPECT_EQ(victim.receive(received.data(), received.size()), -1);
  EXPECT_EQ(errno, EBADMSG);
  EXPECT_EQ(pair.counters->packets_forged, 1U);
}

// What an attacker on the path makes of records that were sealed for the second end, each with a text of 100 bytes.
class RecordAttack : public ::testing::Test {
 protected:
  static constexpr std::size_t kText = 100;
  static constexpr std::size_t kRecord = kText + security::kRecordOverhead;

  // The records that one end of a connection sends, as the other end would read them.
  static Bytes records_of(SecureSocket& from, const SecureSocket& to, int count) {
    const Bytes text = some(kText);
    for (int sent = 0; sent < count; ++sent) EXPECT_EQ(from.send(text.data(), text.size()), 100);
    Bytes records(static_cast<std::size_t>(count) * kRecord);
    EXPECT_EQ(::recv(to.fd(), records.data(), records.size(), 0), static_cast<ssize_t>(records.size()));
    return records;
  }
  // Gives the second end these bytes, and then the end of the connection.
  void give(const Bytes& records) {
    ASSERT_EQ(path_.one.send(records.data(), records.size()), static_cast<ssize_t>(records.size()));
    path_.one.close();
  }
  // One read by the second end.
  ssize_t read() { return victim_.receive(received_.data(), received_.size()); }
  void expect_forged() {
    EXPECT_EQ(read(), -1);
    EXPECT_EQ(errno, EBADMSG);
    EXPECT_EQ(pair_.counters->packets_forged, 1U);
    EXPECT_EQ(read(), -1) << "nothing more can be read";
    EXPECT_EQ(errno, EBADMSG);
    EXPECT_EQ(pair_.counters->packets_forged, 1U) << "one record is counted once";
  }
  void SetUp() override { pair_.protect_two(victim_); }

  Pair pair_;
  PlainPair path_;
  SecureSocket& victim_ = path_.two;
  Bytes received_{Bytes(10 * kText)};
};

TEST_F(RecordAttack, ARecordThatWasCutIsNotRead) {
  Bytes records = records_of(pair_.one, pair_.two, 2);
  records.resize(records.size() - 1);
  give(records);
  EXPECT_EQ(read(), 100) << "the first record is whole";
  EXPECT_EQ(read(), 0) << "the connection has ended";
  EXPECT_EQ(pair_.counters->packets_forged, 0U);
}

TEST_F(RecordAttack, ARecordWithoutItsEndTakesNothingFromTheNext) {
  Bytes records = records_of(pair_.one, pair_.two, 2);
  records.erase(records.begin() + kRecord - 1);
  give(records);
  expect_forged();
}

TEST_F(RecordAttack, AReflectedRecordIsForged) {
  give(records_of(pair_.two, pair_.one, 1));
  expect_forged();
}

// Each connection has its own keys.
TEST_F(RecordAttack, ARecordOfAnotherConnectionIsForged) {
  Pair other;
  give(records_of(other.one, other.two, 1));
  expect_forged();
}

TEST_F(RecordAttack, ARecordThatComesBeforeItsTurnIsForged) {
  const Bytes records = records_of(pair_.one, pair_.two, 2);
  give(Bytes(records.begin() + kRecord, records.end()));
  expect_forged();
}

TEST_F(RecordAttack, AnotherLengthIsForged) {
  Bytes records = records_of(pair_.one, pair_.two, 2);
  records[0] ^= std::byte{1};
  give(records);
  expect_forged();
}

}  // namespace
}  // namespace ripc::internal::remote
