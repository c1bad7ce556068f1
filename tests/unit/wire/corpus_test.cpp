// SPDX-License-Identifier: Apache-2.0
// The seed files of the fuzzers match today's wire formats: if all seeds were refused, the fuzzers would test nothing.
#ifdef RIPC_SOURCE_DIR

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "wire/bulk.hpp"
#include "wire/call.hpp"
#include "wire/datagram.hpp"
#include "wire/packet.hpp"
#include "wire/session_control.hpp"
#include "wire/shm_control.hpp"
#include "wire_helpers.hpp"

namespace ripc::internal::wire {
namespace {

namespace fs = std::filesystem;

// Calls check(bytes, is_refused, name) for each seed file; returns how many there are.
template <typename Check>
std::size_t for_each_seed(const char* codec, Check&& check) {
  std::size_t count = 0;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(RIPC_SOURCE_DIR "/tests/fuzz/corpus") / codec, error)) {
    const std::string name = entry.path().filename().string();
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    check(testing::text(content), name.starts_with("refused_"), name);
    ++count;
  }
  return count;
}

TEST(FuzzCorpus, PacketSeedsAreUnderstoodUnlessTheirNameSaysRefused) {
  const std::size_t count = for_each_seed("packet", [](auto bytes, bool is_refused, const std::string& name) {
    EXPECT_EQ(Packet().decode(bytes).ok(), !is_refused) << name;
  });
  EXPECT_GT(count, 0u);
}

TEST(FuzzCorpus, ControlSeedsAreUnderstoodUnlessTheirNameSaysRefused) {
  const std::size_t count = for_each_seed("shm_control", [](auto bytes, bool is_refused, const std::string& name) {
    EXPECT_EQ(shm_control::decode(bytes).ok(), !is_refused) << name;
  });
  EXPECT_GT(count, 0u);
}

TEST(FuzzCorpus, SessionSeedsAreUnderstoodUnlessTheirNameSaysRefused) {
  const std::size_t count = for_each_seed("session_control", [](auto bytes, bool is_refused, const std::string& name) {
    EXPECT_EQ(session_control::decode(bytes).ok(), !is_refused) << name;
  });
  EXPECT_GT(count, 0u);
}

TEST(FuzzCorpus, DatagramSeedsAreUnderstoodUnlessTheirNameSaysRefused) {
  const std::size_t count = for_each_seed("datagram", [](auto bytes, bool is_refused, const std::string& name) {
    datagram::Header header;
    EXPECT_EQ(datagram::decode(bytes, header) == RIPC_OK, !is_refused) << name;
  });
  EXPECT_GT(count, 0u);
}

TEST(FuzzCorpus, BulkSeedsAreUnderstoodUnlessTheirNameSaysRefused) {
  const std::size_t count = for_each_seed("bulk", [](auto bytes, bool is_refused, const std::string& name) {
    ASSERT_GE(bytes.size(), bulk::kHeaderSize) << name;
    const auto header = bytes.template first<bulk::kHeaderSize>();
    const bool understood =
        bulk::decode(header, bulk::Carrier::stream).ok() || bulk::decode(header, bulk::Carrier::rdma).ok();
    EXPECT_EQ(understood, !is_refused) << name;
  });
  EXPECT_GT(count, 0u);
}

TEST(FuzzCorpus, CallSeedsAreUnderstoodUnlessTheirNameSaysRefused) {
  const std::size_t count = for_each_seed("call", [](auto bytes, bool is_refused, const std::string& name) {
    call::Header header;
    EXPECT_EQ(call::decode(bytes, header) == RIPC_OK, !is_refused) << name;
  });
  EXPECT_GT(count, 0u);
}

}  // namespace
}  // namespace ripc::internal::wire

#endif
