// SPDX-License-Identifier: Apache-2.0
// Two peers, and a group to which the client sends.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>

#include "harness.hpp"

namespace conformance {

// Returns a group that no other test uses, not even on other hosts that hear this one.
inline ripc_service_id fresh_group() {
  static std::atomic<unsigned> count{0};
  const std::string name =
      "test " + std::to_string(::getpid()) + " " + std::to_string(now()) + " " + std::to_string(++count);
  ripc_service_id group = 0;
  EXPECT_EQ(ripc_group_id_from_name(name.c_str(), &group), RIPC_OK);
  return group;
}

class GroupTest : public PairTest {
 protected:
  struct Outcome {
    ripc_status status = RIPC_OK;
    std::uint32_t members = 0;
    std::uint32_t taken = 0;
    std::vector<ripc_service_id> missed;
  };
  // Sends to the group and returns the outcome.
  Outcome send_to_group(std::string_view text, ripc_item_kind kind = RIPC_ITEM_AUTO) {
    std::array<ripc_service_id, 16> missed{};
    ripc_group_outcome outcome{sizeof outcome, 77, 77, missed.data(), missed.size()};
    ripc_send_options options = send_options();
    options.outcome = &outcome;
    const ripc_item one = item(text, kind);
    Outcome result;
    result.status = ripc_send(client_.get(), group_, &one, 1, &options, nullptr);
    result.members = outcome.members;
    result.taken = outcome.taken;
    const std::size_t count = std::min<std::size_t>(outcome.members - outcome.taken, missed.size());
    result.missed.assign(missed.begin(), missed.begin() + static_cast<std::ptrdiff_t>(count));
    return result;
  }
  // Waits until the sender's list has this many members. Its messages meanwhile are too large for any of them.
  testing::AssertionResult sees_members(std::uint32_t members) {
    const std::string too_large(2 << 20, 'x');
    Outcome last;
    const bool seen = eventually([&] {
      last = send_to_group(too_large, RIPC_ITEM_SHORT);
      return last.members == members && last.status == (members == 0 ? RIPC_NO_SERVICE : RIPC_TOO_LARGE);
    });
    if (seen) return testing::AssertionSuccess();
    return testing::AssertionFailure() << last.members << " members, " << ripc_status_name(last.status);
  }
  std::set<ripc_service_id> members_of(const Context& context, ripc_service_id group) {
    std::set<ripc_service_id> ids;
    const auto add = [](void* user, const ripc_service_info* info) {
      EXPECT_TRUE(static_cast<std::set<ripc_service_id>*>(user)->insert(info->id).second) << "visited twice";
    };
    EXPECT_EQ(ripc_group_members(context.get(), group, add, &ids), RIPC_OK) << ripc_last_error();
    return ids;
  }

  const ripc_service_id group_ = fresh_group();
};

}  // namespace conformance
